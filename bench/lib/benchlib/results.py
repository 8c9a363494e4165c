# SPDX-License-Identifier: BSD-3-Clause
"""What is made from the reference runs: doc/results.md and the README's table and plot."""

from . import claims, headline
from .chart import size_text
from .claims import BASE, CLAIMS, LOSS, TESTED
from .error import BenchError
from .page import Page
from .reference import PARTS, WIRINGS
from .report import number

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
NOTE = "<!-- Made by bench/results-page from results/; do not edit. -->\n"
NOT_MEASURED = "not measured yet"
PLOT = "plot.svg"
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


def _link(run, file):
    path = f"{run.directory.name}/{file}"
    return f"[{path}](../results/{path})"


def _rows(runs, wanted):
    """Source, claim, today's values, their files, the command."""
    rows = []
    for claim in wanted:
        found = [(run, answer) for run in runs if (answer := claim.today(run)) is not None]
        name = len(runs) > 1
        values = [f"{run.maker}: {one.text}" if name else one.text for run, one in found]
        files = [_link(run, one.file) for run, one in found]
        command = f"`{' '.join(PARTS[claim.part])}`"
        rows.append(
            [claim.who, claim.said, "; ".join(values) or NOT_MEASURED, ", ".join(files) or "-"]
            + [command]
        )
    return rows


def _csv(page, runs, part, title, words=""):
    """A section with a part's CSV file of each run, which is named after the part."""
    found = [(run, rows) for run in runs if (rows := run.rows(part))]
    if not found:
        return
    page.heading(title)
    if words:
        page.text(words)
    for run, rows in found:
        page.table(rows[0], rows[1:])
        page.text(
            f"From {_link(run, f'{part}/{part}.csv')}; to repeat it: `{' '.join(PARTS[part])}`."
        )


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
    files = [_link(run, file) for run, rows in found for file in _files(rows.values())]
    page.text(f"From {', '.join(files)}.")
    return True


def _files(rows):
    return list(dict.fromkeys(row.file for row in rows))


def _peers(page, runs):
    """All transports of the parts that compare more than two."""
    for part, wiring in (("transports-cut", "cut"), ("transports", "whole")):
        for run in runs:
            names = (run.about(part) or {}).get("transports", ())
            lines = []
            for benchmark, metric, sizes in PEER_ROWS:
                for size in sizes:
                    found = claims.found_at(run, part, benchmark, size, metric)
                    values = [
                        number(found[name].median if name in found else None) for name in names
                    ]
                    unit = {"time_us": "µs", "messages_per_s": "messages/s"}.get(metric, "MB/s")
                    if any(name in found for name in names):
                        title = f"{size_text(size)}, {headline.TITLES[benchmark]}, {unit}"
                        lines.append([title, *values])
            if lines:
                page.heading(f"{run.maker}, {wiring}", 3)
                page.table(["workload", *names], lines)
                page.text(f"From {_link(run, f'{part}/medians.csv')}.")


def results_page(runs):
    """doc/results.md as text; `runs` are the References to show, one for each maker."""
    page = Page(
        "Results",
        "MPI over rawe against today's btl/tcp, gains and losses alike, and what the predecessors "
        "of rawe claimed. Each value comes from a file below `results/`, which `bench/publish` "
        "made, and can be measured again with the command beside it.",
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
    heads = ["who", "claim", "rawe against btl/tcp", "from", "repeat it with"]
    page.table(heads, _rows(runs, CLAIMS), texts=5)
    page.heading("Under loss")
    heads[:2] = ["loss in each direction", "metric"]
    page.table(heads, _rows(runs, LOSS), texts=5)
    if runs:
        page.heading("All parts")
        for run in runs:
            page.table(
                ["part", "files", "command"],
                [
                    [name, _files_of(run, name, part), f"`{part['command']}`"]
                    for name, part in run.parts()
                ],
                texts=3,
            )
        _csv(page, runs, "instructions", "Instructions of the core")
        _csv(page, runs, "memory", "Memory for each peer")
    return LICENCE + NOTE + page.markdown()


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
    _plots(page, runs, (("cut", "Cut"), ("imb", "Whole")))
    page.heading("Programs")
    page.text("NAS LU and SP, and applications: the first metric of each case.")
    _gains(page, runs, headline.programs)
    _plots(page, runs, (("nas", "NAS LU and SP"), ("apps", "Applications")))
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
    _csv(page, runs, "many-ranks", "Many ranks on a host", words)
    words = (
        "Streams of long messages over rawe, whole batches; samples grouped by symbol. Over "
        "virtual "
        "NICs the receiving kernel's work up to the socket runs on the sender's core."
    )
    _csv(page, runs, "batch-time", "Processor time of a batch", words)


def _plots(page, runs, parts):
    for part, words in parts:
        for run in runs:
            for file in run.index["parts"].get(part, {}).get("files", ()):
                if file.endswith(".svg"):
                    path = f"../results/{run.directory.name}/{part}/{file}"
                    page.text(f"![{words}, {run.maker}]({path})")


def _files_of(run, name, part):
    base = f"../results/{run.directory.name}/{name}"
    return ", ".join(f"[{file}]({base}/{file})" for file in part["files"]) or "-"


def _first_plot(run):
    """Words and path from the root of the plot of the first wiring that has one, or None."""
    for (wiring, mtu), part in WIRINGS.items():
        if PLOT in run.index["parts"].get(part, {}).get("files", ()):
            words = f"`{wiring}`, MTU {mtu}, {run.maker}"
            return words, f"results/{run.directory.name}/{part}/{PLOT}"
    return None


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
        for words, path in filter(None, map(_first_plot, runs)):
            page.text(f"Time and bandwidth over message size ({words}):")
            page.text(f"![Time and bandwidth over message size]({path})")
    return f"{BEGIN}\n{page.markdown()}{END}"


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
