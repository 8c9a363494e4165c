# SPDX-License-Identifier: BSD-3-Clause
"""Tables for the terminal, CSV files, plots and the page's body."""

import textwrap

from benchlib import plot, stats
from benchlib.chart import Line, LineChart, size_text
from benchlib.page import anchor
from benchlib.text import aligned, write_csv
from benchlib.transports import BASELINE, TITLES
from rawelab.spec import LabSpec, parse_rate

from . import shaping, suites
from .summary import (
    BANDWIDTHS,
    WINDOWED,
    compared_rows,
    is_power_of_four,
    reading,
    without_difference,
)
from .summary import ratio as ratio_of

BARE = "-"
KEY_HEADS = ["benchmark", "processes", "bytes", "metric"]
KINDS = {"time_us": "time", "mbytes_per_s": "bandwidth", "messages_per_s": "message rate"}


def number(value, metric):
    """A median in three or four digits."""
    if value is None:
        return BARE
    if metric == "messages_per_s":
        return f"{value / 1000:,.0f} k" if value >= 1e5 else f"{value:,.0f}"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 100 else f"{value:.2f}"


def ratio(value):
    """A ratio in two decimals."""
    return BARE if value is None else f"{value:.2f}"


def doubtful(row, name, base, value):
    """A ratio of a row with its interval."""
    if value is None:
        return BARE
    return stats.doubt_text(ratio(value), row.intervals.get((name, base)))


def columns(table):
    """Header cells of a table."""
    heads = ["size", *table.transports]
    heads += [f"{transport}/{table.base}" for transport in table.others]
    if table.has_baseline:
        heads += [BASELINE, f"{table.against_baseline}/{BASELINE}", "way"]
    return heads


def cells(table, row):
    """The cells of one row, as text."""
    size = "" if table.benchmark == "Barrier" else size_text(row.size)
    line = [size, *(number(row.medians.get(name), table.metric) for name in table.transports)]
    line += [doubtful(row, name, table.base, row.ratios.get(name)) for name in table.others]
    if table.has_baseline:
        line.append(number(row.baseline, table.metric))
        name = table.against_baseline
        line.append(doubtful(row, name, BASELINE, row.to_baseline.get(name)))
        line.append(row.way or BARE)
    return line


def _shown_rows(table):
    rows = [row for row in table.rows if is_power_of_four(row.size)]
    return rows or table.rows


def _sense(table):
    return "below 1 is faster" if table.lower_is_better else "above 1 is faster"


def terminal_table(table):
    """A table in plain text with aligned columns."""
    lines = [columns(table)] + [cells(table, row) for row in _shown_rows(table)]
    if len(table.rows) > 1 and any(table.mean_ratio(name) for name in table.others):
        mean = [""] * len(lines[0])
        mean[0] = "geometric mean"
        for index, name in enumerate(table.others):
            mean[1 + len(table.transports) + index] = ratio(table.mean_ratio(name))
        lines.append(mean)
    text = textwrap.indent(aligned(lines, texts=0), "  ")
    for name in table.others:
        none = without_difference(table, name)
        text += f"\n  {name}/{table.base}: {none}" if none else ""
    return f"{table.title}, {table.unit} (ratios: {_sense(table)})\n{text}"


def plots(tables):
    """For the terminal: the ratios of the first table of each metric that has several sizes."""
    first = {}
    for table in tables:
        if len(table.rows) > 1 and table.metric != "messages_per_s":
            first.setdefault(table.metric, table)
    found = []
    for table in first.values():
        for name in table.others:
            lines = [
                (size_text(row.size), row.ratios[name], row.intervals.get((name, table.base)))
                for row in _shown_rows(table)
                if row.ratios.get(name)
            ]
            if lines:
                title = f"{table.title}: {name}/{table.base}, {_sense(table)}"
                found.append(plot.Plot(title, lines))
    return found


def wiring(about):
    """What --nic said of the virtual hosts' NICs, or None when nothing was said."""
    return about.get("shape", {}).get("nic")


def write_samples(path, done, about):
    """Every value of every round."""
    lines = [["round", "transport", *KEY_HEADS, "value", "repetitions", "nic"]]
    for one in done:
        for sample in one.result or ():
            lines.append(
                [one.run.round, one.run.transport, sample.benchmark, sample.processes]
                + [sample.size, sample.metric, f"{sample.value:g}", sample.repetitions]
                + [wiring(about) or ""]
            )
    write_csv(path, lines)


def _ratio_text(value):
    return "" if value is None else f"{value:.4f}"


def write_medians(path, medians, about):
    """The medians with their range and ratios."""
    base = about["base"]
    lines = [
        [*KEY_HEADS, "transport", "rounds", "median", "min", "max"]
        + [f"ratio_to_{base}", "ratio_to_baseline", "nic", "way"]
        + ["ratio_low", "ratio_high", "baseline_ratio_low", "baseline_ratio_high"]
    ]
    for key, found in medians.items():
        for name, one in found.items():
            lines.append(
                [key.benchmark, key.processes, key.size, key.metric, name, one.rounds]
                + [f"{value:g}" for value in (one.median, one.low, one.high)]
                + [_ratio_text(ratio_of(found, name, other)) for other in (base, BASELINE)]
                + [wiring(about) or "", one.way]
                + stats.end_texts(one.intervals.get(base))
                + stats.end_texts(one.intervals.get(BASELINE))
            )
    write_csv(path, lines)


def shares(tables, about):
    """Goodputs against what a shaped line allows; none without --rate."""
    shape = {name: value for name, value in about.get("shape", {}).items() if value is not None}
    if "rate" not in shape:
        return []
    spec = LabSpec(**shape)
    return shaping.shares(tables, parse_rate(spec.rate), spec.mtu, spec.nic != "plain")


def _charts(table):
    """Values over message size, and their ratio to the base."""
    if len(table.rows) < 2:
        return []
    lines = [
        Line(name, TITLES[name], _points(table, lambda row, n=name: row.medians.get(n)))
        for name in table.transports
    ]
    if table.has_baseline:
        baseline = _points(table, lambda row: row.baseline)
        lines.append(Line(BASELINE, TITLES[BASELINE], baseline, dashed=True))
    kind = KINDS[table.metric]
    what = f"{table.benchmark}, {table.processes} ranks"
    found = [LineChart(what, f"{kind} in {table.unit}", lines, description=_described(table))]
    if table.others:
        ratios = [
            Line(name, name, _points(table, lambda row, n=name: row.ratios.get(n)))
            for name in table.others
        ]
        label = f"{kind} / {table.base}'s ({_sense(table)})"
        found.append(LineChart(f"{what}: ratio to {table.base}", label, ratios, reference=1.0))
    return [(chart, None) for chart in found]


def _points(table, value_of):
    return [(row.size, value) for row in table.rows if (value := value_of(row))]


def _described(table):
    texts = [text for name in table.others if (text := reading(table, name))]
    return " ".join([f"{table.title}, in {table.unit}, over message size.", *texts])


def _overview(found):
    """One line a table: the ratio at its ends, and the mean."""
    rows = []
    for table in found:
        for name in table.others:
            known = compared_rows(table, name)
            if not known:
                continue
            ends = known[0], known[-1]
            texts = [doubtful(row, name, table.base, row.ratios[name]) for row in ends]
            if table.benchmark != "Barrier":
                sizes = [size_text(row.size) for row in ends]
                texts = [f"{text} at {size}" for text, size in zip(texts, sizes, strict=True)]
            if len(known) == 1:
                texts[1] = BARE
            title = f"[{table.title}](#{anchor(table.title)})"
            better = "lower" if table.lower_is_better else "higher"
            rows.append([title, name, *texts, ratio(table.mean_ratio(name)), better])
    return rows


def panels(data):
    """(benchmark, processes, metric) of each panel of the plots, for the most ranks of each
    benchmark; benchmarks with a single size have none."""
    sizes = {}
    for key in data.medians:
        wanted = "mbytes_per_s" if key.benchmark in WINDOWED + BANDWIDTHS else "time_us"
        if key.metric == wanted and key.size > 0:
            sizes.setdefault((key.benchmark, key.processes, key.metric), set()).add(key.size)
    found = [panel for panel, several in sizes.items() if len(several) > 1]
    names = {name for name, _, _ in found}
    if "PingPong" in names and not names & set(WINDOWED):
        found.insert(1, ("PingPong", 2, "mbytes_per_s"))
    largest = {name: processes for name, processes, _ in sorted(found)}
    return [panel for panel in found if panel[1] == largest[panel[0]]]


def panel_chart(data, benchmark, processes, metric):
    """One panel: a line for each transport, the baseline dashed."""
    lines = [
        Line(name, TITLES[name], data.points(name, benchmark, processes, metric))
        for name in data.transports
    ]
    if processes == 2:
        points = data.points(BASELINE, benchmark, processes, metric)
        lines.append(Line(BASELINE, TITLES[BASELINE], points, dashed=True))
    unit = {"time_us": "time in µs", "mbytes_per_s": "bandwidth in MB/s"}[metric]
    return LineChart(f"{benchmark}, {processes} ranks", unit, lines)


def _shaped(page, shaped):
    if not shaped:
        return
    page.heading("What the shaping allows")
    page.text(
        "MB/s of payload in one direction: reached, and the share of what the line carries, first "
        "if frames held nothing but payload, then with the transport's own headers."
    )
    heads = ["transport", "size", "reached", "bare line", "share", "with its headers", "share"]
    page.table(heads, [line.cells() for line in shaped])


def lead(about):
    """The page's first paragraph."""
    titles = ", ".join(f"{name} = {TITLES[name]}" for name in about["transports"])
    return (
        f"Transports: {titles}. They ran alternately; each value is the median over the rounds, "
        f"each ratio a ratio of such medians. {stats.DOUBT} The baseline is what a bare program "
        "reaches with the same raw frames on the same wire without any protocol, in the way that "
        "is the fastest at the size: plain frames, UDP batches or TCP-shaped batches. For Uniband "
        "it sends one message in a frame; a transport that coalesces small messages can exceed it."
    )


def body(page, data, about):
    """The page's part between facts and command."""
    lines = _overview(data.tables)
    if len(lines) > 1:
        page.heading("At a glance")
        page.text(
            f"Ratios to {about['base']} for the smallest and the largest messages, and their "
            "geometric mean over all sizes. `better` says which direction is good: times should be "
            "lower, rates higher."
        )
        heads = ["benchmark", "transport", "smallest", "largest", "mean", "better"]
        page.table(heads, lines, texts=2)
    chosen = panels(data)
    for several, file, words in (
        (
            [panel for panel in chosen if panel[0] not in suites.COLLECTIVES],
            "plot.svg",
            "Time and bandwidth over message size",
        ),
        (
            [panel for panel in chosen if panel[0] in suites.COLLECTIVES],
            "collectives.svg",
            "Collectives: time over message size",
        ),
    ):
        page.panels([panel_chart(data, *panel) for panel in several], file, words)
    _shaped(page, shares(data.tables, about))
    for table in data.tables:
        page.heading(table.title)
        texts = [line for name in table.others if (line := reading(table, name))]
        page.text(" ".join([*texts, f"In {table.unit}; ratios: {_sense(table)}."]))
        page.charts(_charts(table))
        page.table(columns(table), [cells(table, row) for row in _shown_rows(table)])
