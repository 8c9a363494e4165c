# SPDX-License-Identifier: BSD-3-Clause
"""Makes doc/results.md and the README's table from the reference runs. They show a fixed list of
workloads, whatever the results, and the claims of the predecessors beside today's values."""

from dataclasses import dataclass

from . import BenchError
from .page import Page, size_text
from .reference import INDEX, PARTS, PLOT, WIRINGS, save
from .report import number
from .summary import Row

TESTED, BASE = "rawe", "tcp"
K, M = 1 << 10, 1 << 20
# From 16 to 128 KiB, streams gain least over tcp, so every size is shown.
STREAMED = (4 * K, 16 * K, 32 * K, 64 * K, 128 * K, 256 * K, 4 * M)
# Benchmark, sizes, metric: of each wiring.
PATTERNS = (
    ("exchange", (64, K, 4 * K, 16 * K, 32 * K, 64 * K, 100 * K, 256 * K, M), "median"),
    ("exchange", (64, 16 * K, 256 * K), "p90"),
    ("halo", (K, 16 * K, 64 * K), "median"),
    ("allreduce", (8,), "median"),
    ("put", (64, 4 * K, 64 * K), "median"),
    ("PingPong", (1, K, 16 * K, 64 * K, 256 * K, 4 * M), "time_us"),
    ("Isend", (64,), "time_us"),
    ("Uniband", (64,), "messages_per_s"),
    ("Uniband", STREAMED, "mbytes_per_s"),
    ("UnibandCold", STREAMED, "mbytes_per_s"),
    ("Biband", (256 * K,), "mbytes_per_s"),
    ("BibandCold", (256 * K,), "mbytes_per_s"),
    ("sender", (64 * K, M, 16 * M), "computing"),
    ("receiver", (64 * K, M, 16 * M), "computing"),
)
TITLES = {
    "exchange": "exchange after computing",
    "halo": "halo after computing",
    "allreduce": "Allreduce after computing",
    "put": "put and fence after computing",
    "PingPong": "half round trip",
    "Isend": "time in MPI_Isend",
    "Uniband": "stream",
    "UnibandCold": "stream, cold",
    "Biband": "streams both ways",
    "BibandCold": "streams both ways, cold",
    "sender": "the sender computes",
    "receiver": "the receiver computes",
    "SendCall": "time in MPI_Send",
    "CacheCold": "half round trip, cold caches",
}
FOUR = ("Allreduce", "Alltoall", "Allgather", "Bcast")
# Claims of the predecessors; the part with today's values, ranks, and rows as in PATTERNS.
CLAIMS = (
    ("Sarda 2003, half the time", "imb", 2, (("PingPong", (1, K), "time_us"),)),
    ("Hoefler et al. 2006, -25 %", "switch", 2, (("PingPong", (1,), "time_us"),)),
    ("Hoefler et al. 2006, -50 %", "seeds", 2, (("SendCall", (64, 4 * K), "time_us"),)),
    ("Hoefler et al. 2006, -50 %", "imb", 2, (("Isend", (64, 4 * K), "time_us"),)),
    (
        "Chang et al. 1996, faster collectives",
        "imb",
        4,
        tuple((name, (64, 4 * K, 64 * K), "time_us") for name in FOUR),
    ),
    (
        "Chang et al. 1996, GAMMA 1996, half the bandwidth with small messages",
        "imb",
        2,
        (("Uniband", (K, 4 * K, 16 * K, 4 * M), "mbytes_per_s"),),
    ),
    ("GAMMA 1996", "seeds", 2, (("CacheCold", (1, K), "time_us"),)),
)
OF_PROGRAMS = (
    "Hoefler et al. 2006 also claimed +8 % for NAS LU, +16 % for NAS SP, and nearly half of "
    "ABINIT's run time on 4 nodes: see the table of programs."
)
# The cost of random loss in each direction, which the predecessors did not measure.
LOSS = tuple(
    (
        f"{percent} % loss",
        f"loss-{percent}",
        2,
        (("PingPong", (1,), "time_us"), ("Uniband", (256 * K,), "mbytes_per_s")),
    )
    for percent in (0, 1, 5)
)
NAMES = {
    "lammps": "LAMMPS",
    "abinit": "ABINIT",
    "gromacs": "GROMACS",
    "espresso": "Quantum ESPRESSO",
    "hpcc": "HPL",
    "netpipe": "NetPIPE",
}
ALSO = {"abinit": {"mpirun_s": "whole run"}}  # program -> further metrics with their names
WORST = 3  # workloads that the README names for each run


@dataclass
class Line:
    """One workload over both transports."""

    title: str
    unit: str
    row: Row

    @property
    def gain(self):
        """The factor by which rawe is better; below 1 it is worse."""
        return self.row.gain(TESTED)

    @property
    def verdict(self):
        """The gain in a word."""
        if self.gain is None:
            return f"{BASE} did not end"  # btl/tcp sometimes hangs under loss
        if not self.row.differs(TESTED):
            return "no difference shown"
        return "better" if self.gain > 1 else "**worse**"

    def cells(self):
        """Both values, the gain and the verdict, as texts."""
        values = [self.row.median(name) for name in (BASE, TESTED)]
        texts = ["-" if value is None else f"{number(value)} {self.unit}" for value in values]
        return [*texts, "-" if self.gain is None else f"{self.gain:.2f}", self.verdict]

    def mark(self):
        """Return the gain as text: a loss in bold, no difference with a tilde."""
        if not self.row.differs(TESTED):
            return f"~{self.gain:.2f}"
        return f"{self.gain:.2f}" if self.gain > 1 else f"**{self.gain:.2f}**"


def _line(title, key, found):
    """Return a Line, or None if one of both was not measured."""
    row = Row([title], key, found, BASE)
    return Line(title, key.metric.unit, row) if row.gain(TESTED) else None


def _lines(reference, part, ranks, rows):
    """Return {title: (key, medians)} of a part in the order of `rows`, which are like PATTERNS."""
    wanted = [(name, size, metric) for name, sizes, metric in rows for size in sizes]

    def place(key):
        return key.benchmark, key.size, key.metric.key

    def title(key):
        kind = ", 90th percentile" if key.metric.key == "p90" else ""
        return f"{size_text(key.size)}, {TITLES.get(key.benchmark, key.benchmark)}{kind}"

    found = reference.select(part, lambda key: key.ranks == ranks and place(key) in wanted)
    return {
        title(key): (key, found[key])
        for key in sorted(found, key=lambda key: wanted.index(place(key)))
    }


def patterns(reference, wiring, mtu):
    """Return the Lines of a reference run over a wiring with an MTU."""
    found = {}
    for part in WIRINGS[wiring, mtu]:
        found |= _lines(reference, part, 2, PATTERNS)
    return [line for title, one in found.items() if (line := _line(title, *one))]


def claimed(reference, claims):
    """Return the Lines of claims; under loss, also those with a value for rawe only."""
    return [
        Line(f"{said}: {title}", key.metric.unit, Row([title], key, found, BASE))
        for said, part, ranks, rows in claims
        for title, (key, found) in _lines(reference, part, ranks, rows).items()
        if TESTED in found
    ]


def _programs(reference, part):
    """Return the Lines of the first metric of each case, and of those in ALSO."""
    first = {}

    def wanted(key):
        name, metric = key.benchmark, key.metric.key
        is_first = first.setdefault((name, key.size, key.ranks, key.hosts), metric) == metric
        # A single rank sends nothing.
        return key.ranks > 1 and (is_first or metric in ALSO.get(name, ()))

    found = []
    for key, of_key in reference.select(part, wanted).items():
        name = key.benchmark
        title = NAMES.get(name, name.capitalize() if part == "apps" else f"{name} {key.size}")
        is_first = first[name, key.size, key.ranks, key.hosts] == key.metric.key
        what = "" if is_first else f" {ALSO[name][key.metric.key]}"
        found.append(_line(f"{title}{what}, {key.ranks} ranks on {key.hosts} hosts", key, of_key))
    return [line for line in found if line]


def programs(reference):
    """Return the Lines of NAS and of the applications."""
    return [*_programs(reference, "nas"), *_programs(reference, "apps")]


def program_lines(references):
    """Return the README's table of programs: in each line a title, then the gain by maker."""
    gains = [{line.title: line.mark() for line in programs(one)} for one in references]
    titles = dict.fromkeys(title for found in gains for title in found)
    return [[title, *(found.get(title, "") for found in gains)] for title in titles]


def worst(reference):
    """Describe the workloads in which a reference run shows rawe worse than tcp."""
    lines = [
        (line, f"{line.title}, {wiring}" + (f", MTU {mtu}" if mtu != 1500 else ""))
        for wiring, mtu in WIRINGS
        for line in patterns(reference, wiring, mtu)
    ]
    lines += [(line, line.title) for line in programs(reference)]
    slower = sorted(
        (line.gain, title) for line, title in lines if line.gain < 1 and line.row.differs(TESTED)
    )
    if not slower:
        return f"{reference.maker}: none of {len(lines)} workloads is shown to be slower."
    named = "; ".join(f"{title} (**{gain:.2f}**)" for gain, title in slower[:WORST])
    return (
        f"{reference.maker}: {len(slower)} of {len(lines)} workloads are slower than over btl/tcp, "
        f"the worst: {named}."
    )


BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
NOTE = "<!-- Made by bench/results-page from results/; do not edit. -->\n"
WORDS = {
    "cut": "the sender cuts batches, the receiver merges frames, as with real NICs",
    "whole": "batches travel whole, as between virtual NICs",
    "none": "no offloads",
}
COMPUTES = "Where one side computes, for 40 ms at a time, it is the other side's time."
OTHERS = (
    "Two ranks on two virtual hosts, medians of rounds in turns; `cut`. An exchange is one "
    "`MPI_Sendrecv` after 1 ms of computing over 8 MiB; a stream has 64 messages in flight. The "
    "last column is above 1 where rawe is better than btl/tcp."
)
ABOVE = "AMD's and Intel's processors differ above 64 KiB"


def _tables(page, runs, part, title, words=""):
    """Add a section with the table that a benchmark without a comparison made in each run."""
    found = [(run, table) for run in runs if (table := run.part(part).get("table"))]
    if not found:
        return
    page.heading(title)
    page.text(f"{words} To repeat it: `{' '.join(PARTS[part])}`.".strip())
    for run, table in found:
        page.text(f"{run.maker}:")
        page.table(table[0], table[1:])


def _machines(page, runs):
    page.heading("The reference runs")
    facts = [
        dict([("Date", run.date), *run.index["machine"], ("Commit", f"`{run.index['commit']}`")])
        for run in runs
    ]
    names = list(dict.fromkeys(name for one in facts for name in one))
    heads = ["", *(run.maker for run in runs)]
    lines = [[name, *(one.get(name, "-") for one in facts)] for name in names]
    page.table(heads, lines, texts=len(heads))
    text = (
        "Hosts are network namespaces of this machine, joined by virtual cables: times are "
        "those of processor and memory, without any cable or NIC. Only ratios are meaningful."
    )
    page.text(text + (f" {_only(runs)}" if len(runs) == 1 else ""))


def _only(runs):
    return f"{ABOVE}; so far there is a run on {runs[0].maker}'s only."


def _gains(page, runs, rows_of):
    """Add a table of the Rows of all runs, side by side. Returns false if there are none."""
    found = [(run, {row.title: row for row in rows_of(run)}) for run in runs]
    found = [(run, rows) for run, rows in found if rows]
    if not found:
        return False
    heads = ["workload"]
    for run, _ in found:
        prefix = f"{run.maker}: " if len(runs) > 1 else ""
        heads += [f"{prefix}{BASE}", TESTED, "times better", ""]
    titles = list(dict.fromkeys(title for _, rows in found for title in rows))
    page.table(
        heads,
        [
            [title]
            + [
                cell
                for _, rows in found
                for cell in (rows[title].cells() if title in rows else ["-", "-", "-", ""])
            ]
            for title in titles
        ],
    )
    return True


def results_page(runs):
    """Return the text of doc/results.md; `runs` are the References to show, one for each maker."""
    page = Page(
        "Results",
        "MPI over rawe against today's btl/tcp, gains and losses alike, and what the predecessors "
        "of rawe claimed. `bench/publish` measured the values. They are kept below `results/` with "
        "their ranges, and can be measured again with the commands below.",
    )
    if not runs:
        page.text(
            "**No reference run is kept yet.** `bench/publish` makes one, and `bench/results-page` "
            "writes its values here."
        )
    else:
        _measured(page, runs)
    for title, claims, words in (
        ("Claims of the predecessors", CLAIMS, OF_PROGRAMS),
        ("Under loss in each direction", LOSS, "Times are means: rare but long waits count."),
    ):
        page.heading(title)
        if not _gains(page, runs, lambda run, c=claims: claimed(run, c)):
            page.text("Not measured yet.")
        page.text(words)
    if runs:
        _parts(page, runs)
        _tables(page, runs, "instructions", "Instructions of the core")
        _tables(page, runs, "memory", "Memory for each peer")
    return LICENCE + NOTE + page.markdown()


def _parts(page, runs):
    """Add a table of all parts: where their medians are, and the commands."""
    page.heading("All parts")
    files = [f"[{run.maker}](../results/{run.directory.name}/{INDEX})" for run in runs]
    page.text(f"Medians, ranges and intervals: {', '.join(files)}. The day of each part:")
    names = dict.fromkeys([*PARTS, *(name for run in runs for name in run.index["parts"])])
    lines = []
    for name in names:
        days = [run.part(name).get("date", "-") for run in runs]
        lines.append([name, *days, f"`{' '.join(PARTS[name])}`"])
    page.table(["part", *(run.maker for run in runs), "command"], lines, texts=len(runs) + 2)


def _measured(page, runs):
    """Add the sections with measured values, latency and bandwidth first."""
    _machines(page, runs)
    page.heading("Latency and bandwidth")
    page.text(
        "By wiring and MTU. Medians over the rounds. `times better` is above 1 where rawe is "
        "better than tcp, for times and rates alike, and below 1 where it is worse. `no "
        "difference shown`: the ratio's interval over the rounds contains 1. The list of workloads "
        "does not depend on the results. A stream has 64 messages in flight, received into one "
        "buffer, which is hot in the receiver's cache; `cold`: into 64 in turn. "
        f"{COMPUTES}"
    )
    for wiring, mtu in WIRINGS:
        before = len(page.blocks)
        page.heading(f"{wiring}, MTU {mtu}", 3)
        page.text(WORDS[wiring][0].upper() + WORDS[wiring][1:] + ".")
        if not _gains(page, runs, lambda run, w=wiring, m=mtu: patterns(run, w, m)):
            del page.blocks[before:]
    for run in runs:
        if plot := _plot(run):
            page.text(f"![Time and bandwidth over message size, {run.maker}](../{plot})")
    page.heading("Programs")
    page.text("NAS LU and SP, and applications: the first metric of each case.")
    _gains(page, runs, programs)
    _tables(page, runs, "others", "Other MPI libraries", OTHERS)
    words = (
        "Rank 0 of one host and rank 1 of another exchange 1 B over rawe while all other ranks "
        "sleep outside MPI. Rings and sockets are those in /proc on the first host. A row with `-` "
        "shows memory only."
    )
    _tables(page, runs, "many-ranks", "Many ranks on a host", words)
    words = (
        "Streams of long messages over rawe, whole batches; samples grouped by symbol. Over "
        "virtual NICs the receiving kernel's work up to the socket runs on the sender's core."
    )
    _tables(page, runs, "batch-time", "Processor time of a batch", words)


def _plot(run):
    """Return the path of a run's plot from the root, or None."""
    return f"results/{run.directory.name}/{PLOT}" if (run.directory / PLOT).exists() else None


def readme_block(runs):
    """Return the text between the README's marks."""
    page = Page("")
    if not runs:
        page.text(
            "No reference run is kept in `results/` yet. `bench/publish` makes one; "
            "[doc/results.md](doc/results.md) lists what it measures."
        )
    else:
        for run in runs:
            if table := run.part("others").get("table"):
                machine = dict(run.index["machine"]).get("Processor", "unknown")
                page.text(f"{OTHERS} {machine}, {run.date}:")
                page.table(table[0], table[1:])
        page.text("Programs, times better than over btl/tcp (`~`: no difference is shown):")
        page.table(["", *(run.maker for run in runs)], program_lines(runs))
        page.text(" ".join(worst(run) for run in runs))
        only = f" {_only(runs)}" if len(runs) == 1 else ""
        page.text(f"All values, and how to repeat them: [doc/results.md](doc/results.md).{only}")
        if plotted := [run for run in runs if _plot(run)]:
            newest = max(plotted, key=lambda run: run.date)
            page.text(f"Time and bandwidth over message size (`cut`, MTU 1500, {newest.maker}):")
            page.text(f"![Time and bandwidth over message size]({_plot(newest)})")
    return f"{BEGIN}\n{page.markdown()}{END}"


def condense(run):
    """Drop from a reference run what the pages do not show."""
    results_page([run])
    run.condense()
    save(run.directory, run.index)


def readme(text, runs):
    """Return the README with a new table."""
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        raise BenchError(f"README.md has lost its marks {BEGIN} and {END}; put them back")
    return text[:start] + readme_block(runs) + text[end + len(END) :]


def stale(root, runs):
    """Return {path: text} of the pages that do not agree with the reference runs."""
    page = root / "doc" / "results.md"
    pages = {page: results_page(runs)}
    path = root / "README.md"
    pages[path] = readme(path.read_text(encoding="utf-8"), runs)
    return {
        path: text
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
