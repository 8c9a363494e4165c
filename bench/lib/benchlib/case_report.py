# SPDX-License-Identifier: BSD-3-Clause
"""Tables, CSV files and page of programs that are compared as a whole."""

import textwrap

from . import stats
from .case_summary import WHOLE, scaling, value_of
from .chart import BarChart
from .text import aligned, write_csv

LEAD = (
    "The transports ran alternately. Each value is the median over the rounds of the runs that "
    "passed all checks. Gain: how many times better the transport is than {base}; above 1 is "
    f"better, whether the metric is a time or a rate. {stats.DOUBT} Spread: (largest - smallest) / "
    "median over the rounds."
)
CASE_HEADS = ["program", "size", "ranks", "hosts", "transport"]
RUN_HEADS = [*CASE_HEADS, "round", "metric", "unit", "value", "failure"]
SUMMARY_HEADS = [*CASE_HEADS, "good_runs", "failed_runs", "metric", "unit", "median", "spread"]


def number(value):
    """A value in four digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _ratio(value):
    return "-" if value is None else f"{value:.3f}"


def _gain(row, name, base):
    gain = row.gain(name, base)
    return _ratio(gain) if gain is None else stats.doubt_text(_ratio(gain), row.gain_interval(name))


def _spread(value):
    return "-" if value is None else f"{100.0 * value:.0f}"


def _others(about):
    return [name for name in about["transports"] if name != about["base"]]


def heads(about):
    """The heads of rows()."""
    names = about["transports"]
    gains = [f"gain of {name}" for name in _others(about)]
    return ["case", "metric", "unit", *names, *gains, *(f"spread of {name} (%)" for name in names)]


def rows(comparisons, about):
    """The table, one list of texts for each case and metric."""
    names, base = about["transports"], about["base"]
    return [
        [one.case.label, row.metric.title, row.metric.unit]
        + [number(row.medians[name]) for name in names]
        + [_gain(row, name, base) for name in _others(about)]
        + [_spread(row.spreads[name]) for name in names]
        for one in comparisons
        for row in one.rows
    ]


def table_text(comparisons, about):
    """The table for a terminal: a case's name stands in its first line only."""
    lines, label = [heads(about)], None
    for line in rows(comparisons, about):
        lines.append(line if line[0] != label else ["", *line[1:]])
        label = line[0]
    return aligned(lines, texts=3)


def readings(comparisons, about):
    """A sentence for each case and transport."""
    return [one.reading(name, about["base"]) for one in comparisons for name in _others(about)]


def write_runs(path, programs, done):
    """Every value of every run."""
    lines = [RUN_HEADS]
    for one in done:
        case = one.run.case
        start = [case.program, case.size, case.ranks, case.hosts, one.run.transport, one.run.round]
        if one.failure:
            lines.append([*start, "", "", "", one.failure])
            continue
        for metric in (*programs[case.program].metrics, WHOLE):
            value = value_of(one, metric)
            if value is not None:
                lines.append([*start, metric.key, metric.unit, value, ""])
    write_csv(path, lines)


def write_summary(path, comparisons, about):
    """Medians, spreads and ratios."""
    base = about["base"]
    lines = [SUMMARY_HEADS + [f"ratio_to_{base}", f"gain_over_{base}"]]
    for one in comparisons:
        case = one.case
        for row in one.rows:
            for name in about["transports"]:
                values = [row.medians[name], row.spreads[name]]
                values += [row.ratio(name, base), row.gain(name, base)]
                lines.append(
                    [case.program, case.size, case.ranks, case.hosts, name]
                    + [one.good[name], one.failed[name], row.metric.key, row.metric.unit]
                    + ["" if value is None else f"{value:.6g}" for value in values]
                )
    write_csv(path, lines)


def _wrapped(name):
    """A name in lines that fit below a bar."""
    return "\n".join(textwrap.wrap(name, 13))


def chart_of(one, about):
    """A bar for each metric of a case and transport: how many times better than the base."""
    base = about["base"]
    shown = [row for row in one.rows if any(row.gain(name, base) for name in _others(about))]
    texts = {
        name: [
            f"{_ratio(row.gain(name, base))}\n{number(row.medians[name])} {row.metric.unit}"
            for row in shown
        ]
        for name in _others(about)
    }
    return BarChart(
        title=one.case.label,
        y_label=f"times better than {base} (above 1)",
        groups=[_wrapped(row.metric.title) for row in shown],
        bars={name: [row.gain(name, base) for row in shown] for name in _others(about)},
        texts=texts,
        reference=1.0,
    )


def overview(comparisons, about):
    """A bar for the first metric of each case and transport."""
    base = about["base"]
    return BarChart(
        title=f"First metric of each case against {base}",
        y_label=f"times better than {base} (above 1)",
        groups=[_wrapped(one.case.label) for one in comparisons],
        bars={
            name: [one.rows[0].gain(name, base) for one in comparisons] for name in _others(about)
        },
        reference=1.0,
        description=" ".join(readings(comparisons, about)),
    )


def _scaling(page, lines, transports):
    page.text("Speed-up of the first metric over the fewest ranks, and efficiency:")
    head = ["case"]
    for name in transports:
        head += [f"{name}: speed-up", f"{name}: efficiency (%)"]
    table = []
    for case, values in lines:
        texts = [case.label]
        for name in transports:
            speedup, efficiency = values.get(name, (None, None))
            texts += [_ratio(speedup), "-" if efficiency is None else f"{100 * efficiency:.0f}"]
        table.append(texts)
    page.table(head, table)


def body(page, programs, comparisons, about):
    """The page's part between facts and command."""
    if _others(about):
        page.chart(overview(comparisons, about), "summary.svg")
    page.bullets(readings(comparisons, about))
    page.heading("All metrics")
    page.table(heads(about), rows(comparisons, about), 3)
    names = list(dict.fromkeys(one.case.program for one in comparisons))
    for name in names:
        page.heading(programs[name].title)
        mine = [one for one in comparisons if one.case.program == name]
        if _others(about):
            page.charts([(chart_of(one, about), f"{one.case.key}.svg") for one in mine])
        for lines in scaling(comparisons, name, about["transports"]):
            _scaling(page, lines, about["transports"])
    page.heading("What was checked")
    page.bullets([f"**{programs[name].title}**: {programs[name].checked}" for name in names])
    page.text("A run that fails one of these is listed as failed and is in no median.")
