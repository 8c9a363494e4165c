# SPDX-License-Identifier: BSD-3-Clause
"""A report in the making, written as Markdown and as one self-contained HTML file.

    page = Page("LU and SP", "What it is about, in a sentence.")
    page.facts([("Kernel", "Linux 6.1")])
    page.heading("LU")
    page.table(["case", "tcp", "rawe"], [["LU W", "812", "903"]])
    page.charts([(BarChart(...), "lu.svg")])    # from benchlib.chart; Markdown shows the file
    page.text("rawe does 11 % more operations a second than tcp.")
    page.write(directory)                       # report.html, report.md, lu.svg

Texts are Markdown; `<` and `&` are taken literally. Python-Markdown makes the HTML, which needs no
network: styles and SVG charts are inside.
"""

import re
from html import escape
from pathlib import Path

from . import chart as charts

try:
    import markdown
except ImportError:  # on a cluster's node, say
    markdown = None

NO_HTML = "There is no report.html: install Debian's python3-markdown."
CONTENTS_FROM = 5  # headings; a shorter page needs no table of contents
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
table { border-collapse: collapse; display: block; overflow-x: auto; margin: .8rem 0; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
  font-variant-numeric: tabular-nums; }
[style*=right] { white-space: nowrap; }
thead th { border-bottom-width: 2px; color: var(--soft); } th:empty { display: none; }
tbody tr:nth-child(even) { background: var(--band); }
figure { margin: 1rem 0; } .charts { display: grid; gap: .5rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
svg { width: 100%; max-width: 36rem; height: auto; color: var(--ink); }
.toc ul { columns: 14rem; padding-left: 1.2rem; } .toc ul ul { display: none; }
@media (max-width: 30rem) { h1 { font-size: 1.3rem; } table { font-size: .8rem; }
  th, td { padding: .15rem .25rem; } [style*=right] { white-space: normal; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #333; --ground: #fff;
  --line: #bbb; --band: #f4f4f4; --link: #000; } body { max-width: none; font-size: 10pt; }
  .charts { grid-template-columns: 1fr 1fr; } .charts > :only-child { grid-column: span 2; }
  figure, tr, pre { break-inside: avoid; } h2, h3 { break-after: avoid; } .toc { display: none; }
  table { display: table; } }
"""


def html_available():
    """Whether Python-Markdown is installed."""
    return markdown is not None


def anchor(text):
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


def _literally(text):
    """Markdown without HTML in it; code is left to Python-Markdown."""
    parts = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.MULTILINE)
    return "".join(part if at % 2 else escape(part, quote=False) for at, part in enumerate(parts))


def _cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


class Page:
    """A report; blocks are shown in the order they were added."""

    def __init__(self, title, lead=None):
        self.title = title
        self.blocks = []  # Markdown; or a list of (chart, file) that stand side by side
        self.files = {}  # name -> several charts, title
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

    def charts(self, pairs):
        """Add charts side by side, each with the file that Markdown shows, or None."""
        if pairs and charts.available():
            self.blocks.append(list(pairs))
            self.files.update({file: ([one], None) for one, file in pairs if file})

    def panels(self, several, file, words):
        """Add a file with several LineCharts, for Markdown only: HTML has each in its section."""
        if several and charts.available():
            self.blocks.append([(words, file)])
            self.files[file] = (list(several), words)

    def markdown(self):
        """The page as Markdown."""
        parts = [f"# {self.title}"] if self.title else []
        for block in self.blocks:
            if isinstance(block, list):
                shown = [(one if isinstance(one, str) else one.title, file) for one, file in block]
                block = "\n\n".join(f"![{title}]({file})" for title, file in shown if file)
            parts.append(block)
        return "\n\n".join(part for part in parts if part) + "\n"

    def html(self):
        """The page as one HTML text."""
        figures, parts = {}, [f"# {self.title}"]
        headings = [one for one in self.blocks if isinstance(one, str) and one[:3] == "## "]
        if len(headings) >= CONTENTS_FROM:
            parts.append("[TOC]")
        for number, block in enumerate(self.blocks):
            if isinstance(block, str):
                parts.append(_literally(block))
                continue
            drawn = [one for one, _ in block if not isinstance(one, str)]
            if drawn:
                place = f"CHARTS-{number}"
                figures[f"<p>{place}</p>"] = "\n".join(
                    f"<figure>{charts.svg(one, f'{place}-{at}')}</figure>"
                    for at, one in enumerate(drawn)
                )
                parts.append(place)
        toc = {"slugify": lambda words, _: anchor(words), "toc_depth": "2-2"}
        body = markdown.markdown(
            "\n\n".join(parts), extensions=["tables", "toc", "sane_lists"],
            extension_configs={"toc": toc},
        )  # fmt: skip
        for place, drawn in figures.items():
            body = body.replace(place, f'<div class="charts">{drawn}</div>')
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{' '.join(STYLE.split())}</style>\n"
            f"</head>\n<body>\n{body}\n</body>\n</html>\n"
        )

    def write(self, directory):
        """Write report.html, report.md and the charts' files; the names of the files."""
        texts = {"report.html": self.html() if markdown else None, "report.md": self.markdown()}
        texts = {name: text for name, text in texts.items() if text}
        for name, text in texts.items():
            (Path(directory) / name).write_text(text, encoding="utf-8")
        for file, (several, words) in self.files.items():
            charts.save(several, Path(directory) / file, words)
        return [*texts, *self.files]
