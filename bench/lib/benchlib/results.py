# SPDX-License-Identifier: BSD-3-Clause
"""What is made from the reference runs: doc/results.md and the README's table and plot."""

from . import claims, headline
from .chart import size_text
from .claims import BASE, CLAIMS, LOSS, TESTED
from .error import BenchError
from .page import Page
from .reference import INDEX, PARTS, PLOT, WIRINGS, save
from .report import number

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
NOTE = "<!-- Made by bench/results-page from results/; do not edit. -->\n"
NOT_MEASURED = "not measured yet"
WORDS = {
    "cut": "the sender cuts batches, the receiver merges frames, as with real NICs",
    "whole": "batches travel whole, as between virtual NICs",
    "none": "no offloads",
}
PEER_ROWS = (
    ("PingPong", "time_us", (1, 1 << 10, 16 << 10, 64 << 10, 4 << 20)),
    ("Uniband", "messages_per_s", (64,)),
    ("Uniband", "mbytes_per_s", (16 << 10, 256 << 10, 4 << 20)),
)
COMPUTES = "Where one side computes, for 40 ms at a time, it is the other side's time."
ABOVE = "AMD's and Intel's processors differ above 64 KiB"


def _rows(runs, wanted):
    """Source, claim, today's values, the command."""
    rows = []
    for claim in wanted:
        found = [(run, text) for run in runs if (text := claim.today(run))]
        values = [f"{run.maker}: {text}" if len(runs) > 1 else text for run, text in found]
        command = f"`{' '.join(PARTS[claim.part])}`"
        rows.append([claim.who, claim.said, "; ".join(values) or NOT_MEASURED, command])
    return rows


def _tables(page, runs, part, title, words=""):
    """A section with the table that a benchmark without a comparison made in each run."""
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
    """A table of the Rows of each run, side by side; whether there were any."""
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


def _peers(page, runs):
    """All transports of the parts that compare more than two."""
    for part, wiring in (("transports-cut", "cut"), ("transports", "whole")):
        for run in runs:
            lines, names = [], {}
            for benchmark, metric, sizes in PEER_ROWS:
                for size in sizes:
                    found = claims.found_at(run, part, benchmark, size, metric)
                    if found:
                        unit = {"time_us": "µs", "messages_per_s": "messages/s"}.get(metric, "MB/s")
                        title = f"{size_text(size)}, {headline.TITLES[benchmark]}, {unit}"
                        lines.append((title, found))
                        names |= found
            if lines:
                page.heading(f"{run.maker}, {wiring}", 3)
                page.table(["workload", *names], _cells(lines, names))


def _cells(lines, names):
    """Titles and the medians of these transports."""
    return [
        [title, *(number(found[name].median if name in found else None) for name in names)]
        for title, found in lines
    ]


def results_page(runs):
    """doc/results.md as text; `runs` are the References to show, one for each maker."""
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
    page.heading("Claims")
    page.text("A ratio is rawe's median divided by tcp's: of times, below 1 is faster.")
    heads = ["who", "claim", "rawe against btl/tcp", "repeat it with"]
    page.table(heads, _rows(runs, CLAIMS), texts=4)
    page.heading("Under loss")
    heads[:2] = ["loss in each direction", "metric"]
    page.table(heads, _rows(runs, LOSS), texts=4)
    if runs:
        _parts(page, runs)
        _tables(page, runs, "instructions", "Instructions of the core")
        _tables(page, runs, "memory", "Memory for each peer")
    return LICENCE + NOTE + page.markdown()


def _parts(page, runs):
    """Where the medians of each part are, and the command that measures it."""
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
    """The sections of what was measured, bandwidth and latency first."""
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
        if not _gains(page, runs, lambda run, w=wiring, m=mtu: headline.patterns(run, w, m)):
            del page.blocks[before:]
    for run in runs:
        if plot := _plot(run):
            page.text(f"![Time and bandwidth over message size, {run.maker}](../{plot})")
    page.heading("Programs")
    page.text("NAS LU and SP, and applications: the first metric of each case.")
    _gains(page, runs, headline.programs)
    page.heading("The table of peers")
    page.text(
        "All transports of this Open MPI that run over plain Ethernet, medians. Half round "
        "trips: less is better; streams: more is better."
    )
    _peers(page, runs)
    words = (
        "Rank 0 of one host and rank 1 of another exchange 1 B over rawe while all other ranks "
        "sleep outside MPI. Rings and sockets are those in /proc on the first host. A row with `-` "
        "shows memory only."
    )
    _tables(page, runs, "many-ranks", "Many ranks on a host", words)
    words = (
        "Streams of long messages over rawe, whole batches; samples grouped by symbol. Over "
        "virtual "
        "NICs the receiving kernel's work up to the socket runs on the sender's core."
    )
    _tables(page, runs, "batch-time", "Processor time of a batch", words)


def _plot(run):
    """The path of a run's plot from the root, or None."""
    return f"results/{run.directory.name}/{PLOT}" if (run.directory / PLOT).exists() else None


def readme_block(runs):
    """What stands between the README's marks."""
    page = Page("")
    if not runs:
        page.text(
            "No reference run is kept in `results/` yet. `bench/publish` makes one; "
            "[doc/results.md](doc/results.md) lists what it measures."
        )
    else:
        wirings = list(dict.fromkeys(wiring for wiring, _ in WIRINGS))
        prefix = len(runs) > 1
        heads = [
            f"{run.maker}, {wiring}" if prefix else wiring for run in runs for wiring in wirings
        ]
        page.table(["times better than btl/tcp", *heads], headline.readme_lines(runs))
        machines = "; ".join(
            f"{dict(run.index['machine']).get('Processor', 'unknown')}, {run.date}" for run in runs
        )
        words = "; ".join(f"`{wiring}`: {WORDS[wiring]}" for wiring in wirings)
        only = f" {_only(runs)}" if len(runs) == 1 else ""
        page.text(
            "Above 1 rawe is better, below 1 (bold) it is worse, for times and rates alike; `~`: "
            "no difference is shown, as the ratio's interval over the rounds contains 1. A stream "
            "has 64 messages in flight; `cold`: received into 64 buffers in turn. "
            f"{COMPUTES} By how batches cross the wire: {words}. Virtual hosts on one machine "
            f"({machines}).{only} Values, and more, are in [doc/results.md](doc/results.md)."
        )
        for run in runs:
            if plot := _plot(run):
                page.text(f"Time and bandwidth over message size (`cut`, MTU 1500, {run.maker}):")
                page.text(f"![Time and bandwidth over message size]({plot})")
    return f"{BEGIN}\n{page.markdown()}{END}"


def condense(run):
    """Keep only what the pages show of a reference run."""
    results_page([run])
    run.condense()
    save(run.directory, run.index)


def readme(text, runs):
    """The README with its table renewed."""
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        raise BenchError(f"README.md has lost its marks {BEGIN} and {END}; put them back")
    return text[:start] + readme_block(runs) + text[end + len(END) :]


def stale(root, runs):
    """Path -> text of the pages that do not agree with the reference runs."""
    page = root / "doc" / "results.md"
    pages = {page: results_page(runs)}
    path = root / "README.md"
    pages[path] = readme(path.read_text(encoding="utf-8"), runs)
    return {
        path: text
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
