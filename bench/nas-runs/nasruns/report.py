# SPDX-License-Identifier: BSD-3-Clause
"""Writes what a comparison found: a table on the terminal, CSV, and a page with plots."""

import csv

from benchlib.chart import BarChart, available
from benchlib.page import Page

COLUMNS = (
    "benchmark",
    "class",
    "ranks",
    "hosts",
    "transport",
    "verified_runs",
    "failed_runs",
    "mops_median",
    "mops_spread",
    "seconds_median",
    "mpi_share_percent",
    "messages",
    "bytes_sent",
    "ratio_to_base",
)


def _number(value, form):
    return "-" if value is None else format(value, form)


def rows(comparisons, base):
    """The table, one list of texts for each case and transport."""
    table = []
    for one in comparisons:
        for peer, figures in one.figures.items():
            runs = str(figures.good) + (f" (+{figures.failed} failed)" if figures.failed else "")
            spread = None if figures.spread is None else 100.0 * figures.spread
            ratio = one.ratio(peer, base) if peer != base else None
            table.append(
                [
                    one.case.label,
                    peer,
                    runs,
                    _number(figures.mops, ".1f"),
                    _number(spread, ".0f"),
                    _number(figures.seconds, ".2f"),
                    _number(figures.mpi_share, ".0f"),
                    _number(ratio, ".3f"),
                ]
            )
    return table


def heads(base):
    """The heads of rows()."""
    return [
        "case",
        "transport",
        "runs",
        "Mop/s",
        "spread %",
        "seconds",
        "in MPI %",
        f"ratio to {base}",
    ]


def table_text(comparisons, base):
    """The table for a terminal."""
    lines = [heads(base), *rows(comparisons, base)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if n < 2 else text.rjust(width)
            for n, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def write_csv(path, comparisons, base):
    """The summary for other programs."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in comparisons:
            case = one.case
            for peer, figures in one.figures.items():
                ratio = one.ratio(peer, base)
                values = [
                    figures.mops,
                    figures.spread,
                    figures.seconds,
                    figures.mpi_share,
                    one.messages,
                    one.bytes_sent,
                    None if ratio is None else round(ratio, 4),
                ]
                writer.writerow(
                    [case.benchmark, case.problem, case.ranks, case.hosts, peer]
                    + [figures.good, figures.failed]
                    + ["" if value is None else value for value in values]
                )


def charts(comparisons, base):
    """Mop/s relative to the base transport, and the share of time in MPI."""
    peers = list(comparisons[0].figures)
    groups = [one.case.label for one in comparisons]
    rates = BarChart(
        "Speed (higher is better; figures: Mop/s)",
        f"Mop/s relative to {base}",
        groups,
        {peer: [one.ratio(peer, base) for one in comparisons] for peer in peers},
        texts={
            peer: [_number(one.figures[peer].mops, ".0f") for one in comparisons] for peer in peers
        },
        reference=1.0,
    )
    shares = BarChart(
        "Time in MPI (lower is better)",
        "share of run time inside MPI (%)",
        groups,
        {peer: [one.figures[peer].mpi_share for one in comparisons] for peer in peers},
        texts={
            peer: [_number(one.figures[peer].mpi_share, ".0f") for one in comparisons]
            for peer in peers
        },
        y_max=125,  # room for the legend
    )
    return [(rates, "speed.png"), (shares, "time-in-mpi.png")]


def page(comparisons, base, facts, failures):
    """The report as a Page."""
    made = Page("NAS LU and SP: MPI over raw Ethernet frames and over TCP")
    made.facts(facts)
    made.charts(charts(comparisons, base))
    made.table(heads(base), rows(comparisons, base), texts=2)
    made.bullets(
        [one.reading(peer, base) for one in comparisons for peer in one.figures if peer != base]
    )
    made.text(
        "Medians of the verified runs, the transports run alternately. Mop/s are counted by NPB's "
        "formula. Spread: (largest - smallest) / median of Mop/s. In MPI: share of the timed "
        "part spent inside MPI calls, mean of all ranks. A run counts only when the program found "
        "the published norms to 1e-8."
    )
    if failures:
        made.heading("Runs without a result")
        made.bullets(
            [f"{run.case.label}, {run.peer}, round {run.round}: {run.failure}" for run in failures]
        )
    return made


def write_all(directory, comparisons, base, facts, failures):
    """All files of the report into a folder; their names, and why there are no plots, or None."""
    write_csv(directory / "summary.csv", comparisons, base)
    names = page(comparisons, base, facts, failures).write(directory)
    trouble = None
    if not available():
        trouble = "no plots: matplotlib is missing; install Debian's python3-matplotlib"
    return [*names, "summary.csv"], trouble
