# SPDX-License-Identifier: BSD-3-Clause
"""A report as a list of blocks, written as one self-contained HTML file and as Markdown.

    page = Page("LU and SP", "What it is about, in a sentence.")
    page.facts([("Kernel", "Linux 6.1")])
    page.heading("LU")
    page.table(["case", "tcp", "rawe"], [["LU W", "812", "903"]])
    page.chart(BarChart(...), "lu.svg")     # from benchlib.chart; Markdown shows the file
    page.text("rawe does 11 % more operations a second than tcp.")
    page.write(directory)                   # report.html, report.md, lu.svg

Texts may contain `code`, **bold** and [links](to); everything else is taken literally. The HTML
needs no network: styles and SVG charts are inside.
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from . import chart as charts

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5a6068; --ground: #fff;
  --line: #d5d9de; --band: #f4f6f8; --link: #1a5fb4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --soft: #a5abb3; --ground: #17191c;
  --line: #3a3f46; --band: #20242a; --link: #7ab7ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink);
  background: var(--ground); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.2rem;
  border-top: 1px solid var(--line); padding-top: 1rem; } h3 { font-size: 1.05rem; }
a { color: var(--link); } code, pre { font: .875em/1.45 ui-monospace, monospace; }
pre { background: var(--band); padding: .7rem; overflow-x: auto; }
.wide { overflow-x: auto; margin: .8rem 0; } table { border-collapse: collapse; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th.text, td.text { text-align: left; white-space: normal; min-width: 6rem; }
 thead th { border-bottom-width: 2px; color: var(--soft); }
table.facts th { text-align: left; font-weight: 600; vertical-align: top; }
table.facts td { text-align: left; white-space: normal; }
tbody tr:nth-child(even) { background: var(--band); }
figure { margin: 1rem 0; } .charts { display: grid; gap: .5rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
svg { width: 100%; max-width: 36rem; height: auto; color: var(--ink); }
nav ul { columns: 14rem; padding-left: 1.2rem; }
td[rowspan] { background: var(--ground); vertical-align: top; }
@media (max-width: 30rem) { h1 { font-size: 1.3rem; } table { font-size: .8rem; }
  th, td { padding: .15rem .25rem; } th.text, td.text { min-width: 3.5rem; }
  table.words th, table.words td { white-space: normal; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #333; --ground: #fff;
  --line: #bbb; --band: #f4f4f4; --link: #000; } body { max-width: none; font-size: 10pt; }
  .charts { grid-template-columns: 1fr 1fr; } .charts > :only-child { grid-column: span 2; }
  figure, tr, pre { break-inside: avoid; } h2, h3 { break-after: avoid; } nav { display: none; }
  .wide { overflow: visible; } }
"""
CONTENTS_FROM = 5  # headings; a shorter page needs no table of contents


def inline(text):
    """A text's markup as HTML."""
    parts = re.split(r"(`[^`]+`)", text)
    done = []
    for part in parts:
        if len(part) > 2 and part[0] == part[-1] == "`":
            done.append(f"<code>{escape(part[1:-1])}</code>")
            continue
        part = escape(part, quote=True)
        part = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", part)
        done.append(re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', part))
    return "".join(done)


def anchor(text):
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


@dataclass
class Heading:
    """A heading of level 2 or 3."""

    words: str
    level: int = 2

    def html(self, name):
        """As HTML."""
        return f'<h{self.level} id="{name}">{inline(self.words)}</h{self.level}>'

    def markdown(self):
        """As Markdown."""
        return f"{'#' * self.level} {self.words}"


@dataclass
class Text:
    """A paragraph."""

    words: str

    def html(self, _name):
        """As HTML."""
        return f"<p>{inline(self.words)}</p>"

    def markdown(self):
        """As Markdown."""
        return self.words


@dataclass
class Bullets:
    """A list."""

    items: list

    def html(self, _name):
        """As HTML."""
        return "<ul>" + "".join(f"<li>{inline(item)}</li>" for item in self.items) + "</ul>"

    def markdown(self):
        """As Markdown."""
        return "\n".join(f"- {item}" for item in self.items)


@dataclass
class Code:
    """Commands or output, literally."""

    words: str

    def html(self, _name):
        """As HTML."""
        return f"<pre>{escape(self.words)}</pre>"

    def markdown(self):
        """As Markdown."""
        return "\n".join(f"    {line}" for line in self.words.splitlines())


def _cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


@dataclass
class Table:
    """Heads and rows of texts; the first `texts` columns are words, the others numbers."""

    heads: list
    rows: list
    texts: int = 1

    def html(self, _name):
        """As HTML."""
        kind = [' class="text"' if index < self.texts else "" for index in range(len(self.heads))]
        heads = "".join(
            f'<th scope="col"{kind[index]}>{inline(str(head))}</th>'
            for index, head in enumerate(self.heads)
        )
        rows = "\n".join(
            "<tr>"
            + self._first(index, kind[0])
            + "".join(f"<td{kind[i]}>{inline(str(c))}</td>" for i, c in enumerate(row) if i)
            + "</tr>"
            for index, row in enumerate(self.rows)
        )
        words = ' class="words"' if self.texts > 1 else ""
        return (
            f'<div class="wide" tabindex="0"><table{words}><thead><tr>{heads}</tr></thead>\n'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _first(self, index, kind):
        """The first cell of a row; words that stand in rows below each other stand there once."""
        mine = self.rows[index][0]
        if self.texts < 2:
            return f"<td{kind}>{inline(str(mine))}</td>"
        if index and self.rows[index - 1][0] == mine:
            return ""
        high = 1
        while index + high < len(self.rows) and self.rows[index + high][0] == mine:
            high += 1
        span = f' rowspan="{high}"' if high > 1 else ""
        return f"<td{kind}{span}>{inline(str(mine))}</td>"

    def markdown(self):
        """As Markdown."""
        rule = ["---" if index < self.texts else "---:" for index in range(len(self.heads))]
        lines = [self.heads, rule, *self.rows]
        return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


@dataclass
class Facts:
    """Names and values: machine, conditions."""

    pairs: list

    def html(self, _name):
        """As HTML."""
        rows = "".join(
            f'<tr><th scope="row">{inline(str(name))}</th><td>{inline(str(value))}</td></tr>'
            for name, value in self.pairs
        )
        return f'<div class="wide"><table class="facts"><tbody>{rows}</tbody></table></div>'

    def markdown(self):
        """As Markdown."""
        lines = ["| | |", "| --- | --- |"]
        lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in self.pairs]
        return "\n".join(lines)


@dataclass
class Charts:
    """Charts side by side; each with the name of its file, which Markdown shows, or None."""

    pairs: list

    def html(self, name):
        """As HTML."""
        figures = "\n".join(
            f"<figure>{charts.svg(one, f'{name}-{number}')}</figure>"
            for number, (one, _) in enumerate(self.pairs)
        )
        return f'<div class="charts">{figures}</div>'

    def markdown(self):
        """As Markdown."""
        return "\n\n".join(f"![{one.title}]({file})" for one, file in self.pairs if file)


@dataclass
class Panels:
    """A file with several charts. Only Markdown shows it: HTML has each chart in its section."""

    charts: list
    file: str
    words: str

    def html(self, _name):
        """As HTML: nothing."""
        return ""

    def markdown(self):
        """As Markdown."""
        return f"![{self.words}]({self.file})"


class Page:
    """A report in the making; blocks are shown in the order they were added."""

    def __init__(self, title, lead=None, contents=True):
        self.title = title
        self.contents = contents  # a table of contents, where there are many headings
        self.blocks = [Text(lead)] if lead else []

    def heading(self, words, level=2):
        """Begin a section."""
        self.blocks.append(Heading(words, level))

    def text(self, words):
        """Add a paragraph."""
        self.blocks.append(Text(words))

    def bullets(self, items):
        """Add a list, if there is anything in it."""
        if items:
            self.blocks.append(Bullets(list(items)))

    def code(self, words):
        """Add commands or output."""
        self.blocks.append(Code(words))

    def facts(self, pairs):
        """Add a table of names and values."""
        self.blocks.append(Facts(list(pairs)))

    def table(self, heads, rows, texts=1):
        """Add a table; its first `texts` columns are words."""
        self.blocks.append(Table(list(heads), [list(row) for row in rows], texts))

    def chart(self, chart, file=None):
        """Add a chart; with a file name it is also written to a file, for Markdown."""
        self.charts([(chart, file)])

    def charts(self, pairs):
        """Add charts, each with its file name or None, side by side where there is room."""
        if pairs and charts.available():
            self.blocks.append(Charts(list(pairs)))

    def panels(self, several, file, words):
        """Add a file with several LineCharts, for Markdown only."""
        if several and charts.available():
            self.blocks.append(Panels(list(several), file, words))

    def _names(self):
        """A unique name for each block: a heading's from its words, others numbered."""
        names = []
        for number, block in enumerate(self.blocks):
            name = f"block-{number}"
            if isinstance(block, Heading):
                name = anchor(block.words)
                while name in names:
                    name += "-2"
            names.append(name)
        return names

    def html(self):
        """The page as one HTML text."""
        style = " ".join(STYLE.split())
        names = self._names()
        headings = [
            (name, block)
            for name, block in zip(names, self.blocks)
            if isinstance(block, Heading) and block.level == 2
        ]
        contents = ""
        if self.contents and len(headings) >= CONTENTS_FROM:
            entries = "".join(
                f'<li><a href="#{name}">{inline(block.words)}</a></li>' for name, block in headings
            )
            contents = f'<nav aria-label="Contents"><ul>{entries}</ul></nav>\n'
        body = "\n".join(block.html(name) for name, block in zip(names, self.blocks))
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f"<h1>{inline(self.title)}</h1>\n{contents}{body}\n</body>\n</html>\n"
        )

    def markdown(self):
        """The page as Markdown."""
        parts = [f"# {self.title}"] + [block.markdown() for block in self.blocks]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, directory, stem="report"):
        """Write STEM.html, STEM.md and the charts' files; the names of the files."""
        directory = Path(directory)
        names = [f"{stem}.html", f"{stem}.md"]
        (directory / names[0]).write_text(self.html(), encoding="utf-8")
        (directory / names[1]).write_text(self.markdown(), encoding="utf-8")
        for block in self.blocks:
            for one, file in block.pairs if isinstance(block, Charts) else ():
                if file:
                    charts.save(one, directory / file)
                    names.append(file)
            if isinstance(block, Panels):
                charts.save_panels(block.charts, directory / block.file, block.words)
                names.append(block.file)
        return names
