# SPDX-License-Identifier: BSD-3-Clause
"""The pages that are made from a reference run: doc/results.md and the README's figures."""

from .claims import CLAIMS, HEADLINES, LOSS, OWN
from .page import Page
from .reference import PARTS

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
NOTE = "<!-- Made by bench/results-page from results/; do not edit. -->\n"
NOT_MEASURED = "not measured yet"


class PageError(Exception):
    """A page cannot be made; the text says why and what to do."""


def _rows(reference, claims, prefix):
    """Who, what, today's figure, its file, the command."""
    rows = []
    for claim in claims:
        answer = claim.today(reference) if reference else None
        figure, file = NOT_MEASURED, "-"
        if answer is not None:
            path = f"results/{reference.directory.name}/{answer.file}"
            figure, file = answer.text, f"[{answer.file}]({prefix}{path})"
        rows.append([claim.who, claim.said, figure, file, f"`{' '.join(PARTS[claim.part])}`"])
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
        "What the predecessors of rawe claimed, and what rawe gives against today's btl/tcp. Each "
        "figure comes from a file below `results/`, which `bench/publish` made; each can be "
        "repeated with the command beside it. A ratio is rawe's median divided by tcp's: of times, "
        "below 1 is faster.",
    )
    if reference is None:
        page.text(
            "**No reference run is kept yet.** `bench/publish` makes one, and `bench/results-page` "
            "writes its figures here."
        )
    else:
        page.heading("The reference run")
        page.facts(
            [("Date", reference.date), *reference.index["machine"],
             ("Commit", f"`{reference.index['commit']}`")]
        )  # fmt: skip
        page.text(
            "Hosts are network namespaces of this machine, wired by virtual cables: times are "
            "those of processor and memory, without any cable or NIC. Look at ratios."
        )
    page.heading("Claims")
    heads = ["who", "claim", "rawe against btl/tcp", "from", "repeat it with"]
    page.table(heads, _rows(reference, CLAIMS, "../"), texts=5)
    page.heading("Under loss")
    heads[:2] = ["loss on each way", "figure"]
    page.table(heads, _rows(reference, LOSS, "../"), texts=5)
    if reference is not None:
        page.heading("All parts")
        page.text("Each has a report with tables, plots and a sentence on every benchmark.")
        page.table(
            ["part", "report", "command"],
            [
                [name, _report_of(reference, name, part), f"`{part['command']}`"]
                for name, part in reference.parts()
            ],
            texts=3,
        )
        _csv(page, reference, "instructions", "instructions.csv", "Instructions of the core")
        _csv(page, reference, "memory", "memory.csv", "Memory for each peer")
    return LICENCE + NOTE + page.markdown()


def _report_of(reference, name, part):
    shown = [file for file in part["files"] if file == "report.md"] or part["files"]
    base = f"../results/{reference.directory.name}/{name}"
    return ", ".join(f"[{file}]({base}/{file})" for file in shown) or "-"


def readme_block(reference):
    """What stands between the README's marks."""
    page = Page("")
    if reference is None:
        page.text(
            "No reference run is kept in `results/` yet. `bench/publish` makes one; "
            "[doc/results.md](doc/results.md) lists the claims it is held against."
        )
    else:
        rows = _rows(reference, HEADLINES, "")
        page.table(
            ["claim", "rawe against btl/tcp", "from"],
            [[row[1] if row[0] == OWN else f"{row[1]} ({row[0]})", *row[2:4]] for row in rows],
            texts=3,
        )
        machine = dict(reference.index["machine"])
        page.text(
            "Ratios are of times: below 1, rawe is faster. Mop/s are a rate: with a plus, rawe is "
            f"faster. Virtual hosts on one machine ({machine.get('Processor', 'unknown')}), "
            f"{reference.date}; more in [doc/results.md](doc/results.md)."
        )
    body = "\n\n".join(block.markdown() for block in page.blocks)
    return f"{BEGIN}\n{body}\n{END}"


def readme(text, reference):
    """The README with its figures renewed."""
    start, end = text.find(BEGIN), text.find(END)
    if start < 0 or end < start:
        raise PageError(f"README.md has lost its marks {BEGIN} and {END}; put them back")
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
