# SPDX-License-Identifier: BSD-3-Clause
"""The pages that are made from a reference run: doc/results.md and the README's table."""

from . import headline
from .claims import BASE, CLAIMS, LOSS, TESTED
from .error import BenchError
from .page import Page
from .reference import PARTS

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
NOTE = "<!-- Made by bench/results-page from results/; do not edit. -->\n"
NOT_MEASURED = "not measured yet"
HEADS = ["workload", BASE, TESTED, "times better", ""]


def _rows(reference, claims, prefix):
    """Who, what, today's value, its file, the command."""
    rows = []
    for claim in claims:
        answer = claim.today(reference) if reference else None
        value, file = NOT_MEASURED, "-"
        if answer is not None:
            path = f"results/{reference.directory.name}/{answer.file}"
            value, file = answer.text, f"[{answer.file}]({prefix}{path})"
        rows.append([claim.who, claim.said, value, file, f"`{' '.join(PARTS[claim.part])}`"])
    return rows


def _csv(page, reference, part, file, title):
    rows = reference.rows(part, file)
    if rows:
        page.heading(title)
        page.table(list(rows[0]), [list(row.values()) for row in rows])
        path = f"../results/{reference.directory.name}/{part}/{file}"
        page.text(f"From [{part}/{file}]({path}); to repeat it: `{' '.join(PARTS[part])}`.")


def results_page(reference):
    """doc/results.md as text."""
    page = Page(
        "Results",
        "MPI over rawe against today's btl/tcp, gains and losses alike, and what the predecessors "
        "of rawe claimed. Each value comes from a file below `results/`, which `bench/publish` "
        "made, and can be measured again with the command beside it.",
    )
    if reference is None:
        page.text(
            "**No reference run is kept yet.** `bench/publish` makes one, and `bench/results-page` "
            "writes its values here."
        )
    else:
        page.heading("The reference run")
        page.facts(
            [("Date", reference.date), *reference.index["machine"],
             ("Commit", f"`{reference.index['commit']}`")]
        )  # fmt: skip
        page.text(
            "Hosts are network namespaces of this machine, joined by virtual cables: times are "
            "those of processor and memory, without any cable or NIC. Only ratios have a meaning."
        )
        page.heading("Gains and losses")
        page.text(
            "Medians over the rounds. `times better` is above 1 where rawe is better than tcp, for "
            "times and rates alike, and below 1 where it is worse. `rounds overlap`: the "
            "difference is not larger than that between rounds. The list of workloads is fixed; "
            "for programs it is the first metric of each case."
        )
        _headline(page, reference, "../")
        _plots(page, reference)
    page.heading("Claims")
    page.text("A ratio is rawe's median divided by tcp's: of times, below 1 is faster.")
    heads = ["who", "claim", "rawe against btl/tcp", "from", "repeat it with"]
    page.table(heads, _rows(reference, CLAIMS, "../"), texts=5)
    page.heading("Under loss")
    heads[:2] = ["loss in each direction", "metric"]
    page.table(heads, _rows(reference, LOSS, "../"), texts=5)
    if reference is not None:
        page.heading("All parts")
        run = f"results/{reference.directory.name}"
        page.text(
            f"`bench/report {run}` makes a page of each, with tables, plots, and a sentence on "
            "every benchmark."
        )
        page.table(
            ["part", "files", "command"],
            [
                [name, _files_of(reference, name, part), f"`{part['command']}`"]
                for name, part in reference.parts()
            ],
            texts=3,
        )
        _csv(page, reference, "instructions", "instructions.csv", "Instructions of the core")
        _csv(page, reference, "memory", "memory.csv", "Memory for each peer")
    return LICENCE + NOTE + page.markdown()


def _headline(page, reference, prefix):
    base = f"{prefix}results/{reference.directory.name}"
    lines = [[*row.cells(), f"[{row.file}]({base}/{row.file})"] for row in headline.rows(reference)]
    page.table([*HEADS, "from"], lines, texts=1)


def _plots(page, reference):
    for part, words in (
        ("imb", "Time and bandwidth over message size"),
        ("nas", "NAS LU and SP"),
        ("apps", "Applications"),
    ):
        kept = reference.index["parts"].get(part, {}).get("files", ())
        for file in kept:
            if file.endswith(".svg"):
                page.text(f"![{words}](../results/{reference.directory.name}/{part}/{file})")


def _files_of(reference, name, part):
    base = f"../results/{reference.directory.name}/{name}"
    return ", ".join(f"[{file}]({base}/{file})" for file in part["files"]) or "-"


def readme_block(reference):
    """What stands between the README's marks."""
    page = Page("")
    if reference is None:
        page.text(
            "No reference run is kept in `results/` yet. `bench/publish` makes one; "
            "[doc/results.md](doc/results.md) lists what it measures."
        )
    else:
        page.table(HEADS, [row.cells() for row in headline.readme_rows(reference)], texts=1)
        machine = dict(reference.index["machine"])
        page.text(
            "`times better` above 1: rawe is better than btl/tcp; below 1: worse. `rounds "
            "overlap`: the difference is not larger than that between rounds. Virtual hosts on one "
            f"machine ({machine.get('Processor', 'unknown')}), {reference.date}; more in "
            "[doc/results.md](doc/results.md)."
        )
    body = "\n\n".join(block.markdown() for block in page.blocks)
    return f"{BEGIN}\n{body}\n{END}"


def readme(text, reference):
    """The README with its table renewed."""
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        raise BenchError(f"README.md has lost its marks {BEGIN} and {END}; put them back")
    return text[:start] + readme_block(reference) + text[end + len(END) :]


def stale(root, reference):
    """Path -> text of the pages that do not agree with the reference run."""
    page = root / "doc" / "results.md"
    pages = {page: results_page(reference)}
    path = root / "README.md"
    pages[path] = readme(path.read_text(encoding="utf-8"), reference)
    return {
        path: text
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
