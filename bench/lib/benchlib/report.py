# SPDX-License-Identifier: BSD-3-Clause
"""The report of a comparison: tables for the terminal, and the page.

A report needs nothing but medians.csv and the facts beside it.
"""

import json
import statistics
import textwrap
from pathlib import Path

from . import BenchError, summary
from .page import Page, aligned, anchor, plots_available
from .transports import BASELINE

ABOUT = "about.json"
BARE = "-"
NO_PLOTS = "There are no plots: install Debian's python3-matplotlib."
SPREAD_MAX = 0.3  # on a quiet machine, a typical spread is below this


def save_about(directory, about):
    """Save facts, problems and the command, which are not in the CSV files."""
    text = json.dumps(about, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (Path(directory) / ABOUT).write_text(text, encoding="utf-8")


def load_about(directory):
    try:
        return json.loads((Path(directory) / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{directory} holds no finished comparison ({error})") from error


def number(value):
    """Format a value in four digits."""
    if value is None:
        return BARE
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def ratio_text(value):
    return BARE if value is None else f"{value:.2f}"


def doubtful(row, name):
    """Format the ratio of a transport with its interval."""
    value = row.ratio(name)
    return BARE if value is None else summary.doubt_text(ratio_text(value), row.interval(name))


def spread_of(tables):
    """Return the median spread of the values in tables, or None with fewer than two rounds."""
    spreads = [
        row.found[name].spread
        for table in tables
        for row in table.rows
        for name in table.transports
        if row.key.metric.higher_is_better is not None
        and name in row.found
        and row.found[name].rounds > 1
    ]
    known = [one for one in spreads if one is not None]
    return statistics.median(known) if known else None


def spread_text(spread):
    return f"a typical value differs by {spread:.0%} between rounds"


# Tables


def sense_of(table):
    """Return which direction of a ratio is better, in words."""
    if table.lower_is_better is None:
        return "see the last column"
    return "below 1 is faster" if table.lower_is_better else "above 1 is faster"


def columns(table):
    """Return the header cells of a table."""
    heads = [*table.heads, *table.transports]
    heads += [f"{name}/{table.base}" for name in table.others]
    if table.has_baseline:
        heads += [BASELINE, f"{table.against_baseline}/{BASELINE}", "way"]
    return heads + (["better"] if table.lower_is_better is None else [])


def cells(table, row):
    """Return the cells of a row."""
    line = [*row.labels, *(number(row.median(name)) for name in table.transports)]
    line += [doubtful(row, name) for name in table.others]
    if table.has_baseline:
        name = table.against_baseline
        line += [number(row.median(BASELINE))]
        line += [ratio_text(summary.ratio(row.found, name, BASELINE))]
        line += [row.found[BASELINE].way if BASELINE in row.found else BARE]
    if table.lower_is_better is None:
        line.append(summary.BETTER[row.key.metric.higher_is_better] or BARE)
    return line


def terminal_table(table):
    """Format a table as plain text with aligned columns."""
    lines = [columns(table)] + [cells(table, row) for row in table.rows]
    if len(table.rows) > 1 and any(table.mean_ratio(name) for name in table.others):
        mean = [""] * len(lines[0])
        mean[0] = "geometric mean"
        for index, name in enumerate(table.others):
            mean[1 + len(table.transports) + index] = ratio_text(table.mean_ratio(name))
        lines.append(mean)
    text = textwrap.indent(aligned(lines, 0 if table.over_sizes else len(table.heads)), "  ")
    unit = f", {table.unit}" if table.unit else ""
    return f"{table.title}{unit} (ratios: {sense_of(table)})\n{text}"


def texts(tables):
    return [f"{terminal_table(table)}\n" for table in tables]


# The page


def _glance(page, tables, base):
    """Add a line for each table: the ratios at its ends, and the mean."""
    rows = []
    for table in tables:
        for name in table.others if table.over_sizes else ():
            known = table.compared(name)
            if not known:
                continue
            found = [
                f"{doubtful(row, name)}{' at ' if row.labels[0] else ''}{row.labels[0]}"
                for row in (known[0], known[-1])
            ]
            if len(known) == 1:
                found[1] = BARE
            title = f"[{table.title}](#{anchor(table.title)})"
            better = "lower" if table.lower_is_better else "higher"
            rows.append([title, name, *found, ratio_text(table.mean_ratio(name)), better])
    if len(rows) > 1:
        page.heading("At a glance")
        page.text(
            f"Ratios to {base} for the smallest and the largest messages, and their geometric mean "
            "over all sizes. `better` says which direction is good: times should be lower, rates "
            "higher."
        )
        heads = ["benchmark", "transport", "smallest", "largest", "mean", "better"]
        page.table(heads, rows, texts=2)


def page_of(driver, tables, about):
    page = Page(driver.title(about))
    if about["interrupted"]:
        page.text(f"**{about['interrupted']}**")
    facts, spread = list(about["facts"]), spread_of(tables)
    if spread is not None:
        facts.append(("Spread", spread_text(spread)))
    page.facts(facts)
    page.text(driver.lead(about))
    problems = about["problems"] + ([] if plots_available() else [NO_PLOTS])
    if problems:
        page.heading("What went wrong")
        page.bullets(problems)
    _glance(page, tables, about["base"])
    driver.body(page, tables, about)
    for table in tables:
        page.heading(table.title)
        unit = f"In {table.unit}; ratios" if table.unit else "Ratios"
        page.text(f"{unit}: {sense_of(table)}.")
        rows = [cells(table, row) for row in table.rows]
        page.table(columns(table), rows, len(table.heads))
    driver.ending(page, tables)
    page.heading("Repeating it")
    page.code(about["command"])
    return page


def write(driver, source, about, target):
    """Write report.md and the plots from the CSV files in `source`. Returns the files' names."""
    return page_of(driver, driver.load(source, about), about).write(target)
