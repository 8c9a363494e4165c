# SPDX-License-Identifier: BSD-3-Clause
"""A report in the making, written as Markdown with its charts as files beside it.

page = Page("LU and SP", "What it is about, in a sentence.")
page.facts([("Kernel", "Linux 6.1")])
page.heading("LU")
page.table(["case", "tcp", "rawe"], [["LU W", "812", "903"]])
page.charts([LineChart(...)], "plot.svg", "LU")  # from benchlib.chart
page.text("rawe does 11 % more operations a second than tcp.")
page.write(directory)                           # report.md, plot.svg
"""

import re
from pathlib import Path

from . import chart


def anchor(text):
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


def _cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


class Page:
    """A report; blocks are shown in the order they were added."""

    def __init__(self, title, lead=None):
        self.title = title
        self.blocks = []  # Markdown
        self.files = {}  # name -> charts, title
        if lead:
            self.text(lead)

    def heading(self, words, level=2):
        """Begin a section."""
        self.blocks.append(f"{'#' * level} {words}")

    def text(self, words):
        """Add a paragraph."""
        self.blocks.append(words)

    def bullets(self, items):
        """Add a list, if there is anything in it."""
        if items:
            self.blocks.append("\n".join(f"- {item}" for item in items))

    def code(self, words):
        """Add commands or output."""
        self.blocks.append("\n".join(f"    {line}" for line in words.splitlines()))

    def facts(self, pairs):
        """Add a table of names and values."""
        self._table(["", ""], ["---", "---"], pairs)

    def table(self, heads, rows, texts=1):
        """Add a table; its first `texts` columns are words, the others numbers."""
        rule = ["---" if index < texts else "---:" for index in range(len(heads))]
        self._table(heads, rule, rows)

    def _table(self, *lines):
        heads, rule, rows = lines
        lines = [" | ".join(map(_cell, line)) for line in (heads, rule, *rows)]
        self.blocks.append(
            "\n".join("| " + line + " |" if line != " | " else "| | |" for line in lines)
        )

    def charts(self, several, file, words):
        """Add a file with charts, if there are any."""
        if several and chart.available():
            self.blocks.append(f"![{words}]({file})")
            self.files[file] = (several, words)

    def markdown(self):
        """The page as Markdown."""
        parts = [f"# {self.title}"] if self.title else []
        return "\n\n".join(part for part in [*parts, *self.blocks] if part) + "\n"

    def write(self, directory):
        """Write report.md and the charts' files; the names of the files."""
        (Path(directory) / "report.md").write_text(self.markdown(), encoding="utf-8")
        for file, (several, words) in self.files.items():
            chart.save(several, Path(directory) / file, words)
        return ["report.md", *self.files]
