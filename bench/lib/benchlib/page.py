# SPDX-License-Identifier: BSD-3-Clause
"""A report that is built block by block and written as Markdown, with charts as files beside it.

page = Page("LU and SP", "What it is about, in a sentence.")
page.facts([("Kernel", "Linux 6.1")])
page.heading("LU")
page.table(["case", "tcp", "rawe"], [["LU W", "812", "903"]])
page.charts([LineChart(...)], "plot.svg", "LU")  # from benchlib.chart
page.text("rawe does 11 % more operations a second than tcp.")
page.write(directory)                           # report.md, plot.svg
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path


def anchor(text):
    """Return a heading's anchor for links, as GitHub generates it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())


class Page:
    """A report; blocks are shown in the order in which they were added."""

    def __init__(self, title, lead=None):
        self.title = title
        self.blocks = []  # Markdown
        self.files = {}  # name -> charts, title
        if lead:
            self.text(lead)

    def heading(self, words, level=2):
        self.blocks.append(f"{'#' * level} {words}")

    def text(self, words):
        self.blocks.append(words)

    def bullets(self, items):
        """Add a list, unless it is empty."""
        if items:
            self.blocks.append("\n".join(f"- {item}" for item in items))

    def code(self, words):
        self.blocks.append("\n".join(f"    {line}" for line in words.splitlines()))

    def facts(self, pairs):
        """Add a table of names and values."""
        self._table(["", ""], ["---", "---"], pairs)

    def table(self, heads, rows, texts=1):
        """Add a table whose first `texts` columns are words and whose other columns are numbers."""
        rule = ["---" if index < texts else "---:" for index in range(len(heads))]
        self._table(heads, rule, rows)

    def _table(self, *lines):
        heads, rule, rows = lines
        lines = [
            " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line)
            for line in (heads, rule, *rows)
        ]
        self.blocks.append(
            "\n".join("| " + line + " |" if line != " | " else "| | |" for line in lines)
        )

    def charts(self, several, file, words):
        """Add a file with charts, unless there are none."""
        if several and plots_available():
            self.blocks.append(f"![{words}]({file})")
            self.files[file] = (several, words)

    def markdown(self):
        parts = [f"# {self.title}"] if self.title else []
        return "\n\n".join(part for part in [*parts, *self.blocks] if part) + "\n"

    def write(self, directory):
        """Write report.md and the files of the charts. Returns their names."""
        (Path(directory) / "report.md").write_text(self.markdown(), encoding="utf-8")
        for file, (several, words) in self.files.items():
            save_charts(several, Path(directory) / file, words)
        return ["report.md", *self.files]


COLOURS = {
    "tcp": "#d2691e",
    "rawe": "#2f7fd0",
    "ucx": "#2e9e5b",
    "ofi": "#9b6bc9",
    "vader": "#8a8a8a",
    "old": "#d2691e",
}
MARKERS = {"tcp": "s", "rawe": "o", "ucx": "^", "ofi": "D", "vader": "v", "old": "s"}
OTHER_COLOURS = ("#b8860b", "#c2407a", "#4f8f8f", "#7a7a2a")
INK = "#010203"
PANEL_INCHES = (5.2, 3.8)  # of one chart
STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def size_text(size):
    """Format bytes in the largest unit without a fraction: 16 KiB, 4 MiB."""
    if size >= 1 << 20 and size % (1 << 20) == 0:
        return f"{size >> 20} MiB"
    if size >= 1 << 10 and size % (1 << 10) == 0:
        return f"{size >> 10} KiB"
    return f"{size} B"


@dataclass
class Line:
    """One line of a chart: a transport, or the baseline."""

    key: str  # selects colour and marker: tcp, rawe, ...; others get the next free colour
    label: str
    points: list  # (x, y), ascending; values up to 0 are not drawn
    dashed: bool = False


@dataclass
class LineChart:
    """Lines over message size, both axes logarithmic."""

    title: str
    y_label: str  # with its unit
    lines: list
    x_label: str = "message size"


def plots_available():
    """Returns true if matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401 (only tested)
    except ImportError:
        return False
    return True


def _plain_ticks(axes):
    """Label a logarithmic y axis with a sufficient number of plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axes.get_ylim()
    wide = high / low
    steps = (1,) if wide > 300 else (1, 2, 5) if wide > 4 else (1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8)
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda y, _: f"{y:,.0f}" if y >= 1000 else f"{y:g}")
    )
    axes.yaxis.set_minor_locator(NullLocator())


def draw_lines(axes, chart):
    from matplotlib.ticker import NullLocator

    spare = iter(OTHER_COLOURS * len(chart.lines))
    drawn = False
    for line in chart.lines:
        points = [(x, y) for x, y in line.points if x > 0 and y > 0]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                "--" if line.dashed else "-",
                color=INK if line.key == "baseline" else COLOURS.get(line.key) or next(spare),
                marker=None if line.dashed else MARKERS.get(line.key, "."),
                markersize=3.5,
                linewidth=1.6,
                label=line.label,
            )
            drawn = True
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if drawn:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        low, high = axes.get_xlim()
        ticks = [1 << power for power in range(0, 31, 4) if low <= 1 << power <= high]
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        _plain_ticks(axes)
        axes.legend(framealpha=0.0)
    axes.grid(True, which="major", color=INK, linewidth=0.4, alpha=0.25)


def _figure(charts, title):
    """Return a matplotlib figure of the charts below a title."""
    from matplotlib import pyplot

    across = 2 if len(charts) == 4 else min(len(charts), 3)
    down = -(-len(charts) // across)
    wide, high = PANEL_INCHES
    size = (wide * across, high * down + (0.5 if title else 0.0))
    figure, grid = pyplot.subplots(down, across, figsize=size, squeeze=False)
    for axes, chart in zip(grid.flat, charts, strict=False):
        draw_lines(axes, chart)
    for axes in grid.flat[len(charts) :]:
        axes.set_visible(False)
    if title:
        figure.suptitle(title.replace(" (", "\n(") if across == 1 else title, fontsize=11)
    figure.tight_layout()
    return figure


def save_charts(charts, path, title):
    """Write charts as one SVG file, with a line per group of elements and coordinates rounded to
    hundredths of a point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    text = io.StringIO()
    with pyplot.rc_context({**STYLE, "svg.hashsalt": "file"}):
        figure = _figure(charts, title)
        figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
    drawing = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text.getvalue(), flags=re.DOTALL)
    drawing = re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\s+", " ", drawing))
    path.write_text(re.sub(r" (<g id=|<svg )", r"\n\1", drawing).strip() + "\n", encoding="utf-8")


def aligned(lines, texts=1):
    """Format cells as text in columns: the first `texts` flush left, the others flush right."""
    lines = [[str(cell) for cell in line] for line in lines]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
