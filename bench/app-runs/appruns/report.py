# SPDX-License-Identifier: BSD-3-Clause
"""Writes what a comparison found: a table on the terminal, CSV, HTML, Markdown, plots."""

import csv
import textwrap

from benchlib.chart import BarChart, available
from benchlib.page import Page

from .plan import APPS
from .summary import WHOLE, scaling

LEAD = (
    "Applications over MPI, with btl/tcp and with rawe in turn. Each figure is the program's own, "
    "the median over the rounds of the runs that passed all checks. Gain: how many times better "
    "the transport is than {base}, above 1 is better whether a figure counts time or speed. "
    "Spread: (largest - smallest) / median over the rounds; a gain smaller than that is none."
)
CHECKS = (
    ("NetPIPE", "its integrity check of each size, and all sizes measured"),
    ("HPCC", "`Success=1`, the residuals of HPL and PTRANS, RandomAccess's wrong updates, the "
     "error of the FFT"),
    ("LAMMPS", "all steps with all atoms, the lattice's energy at the start, total energy kept, no "
     "dangerous neighbour lists; energy, temperature and pressure at the end the same in all runs"),
    ("ABINIT", "self-consistency reached; total energy the same in all runs"),
    ("Bitonic sort", "order over all ranks, no key lost, doubled or changed"),
    ("Cannon", "product against `A (B x)`, exactly"),
)  # fmt: skip


def number(value):
    """A figure in four digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _ratio(value):
    return "-" if value is None else f"{value:.3f}"


def _spread(value):
    return "-" if value is None else f"{100.0 * value:.0f}"


def heads(peers, base):
    """The heads of rows()."""
    others = [peer for peer in peers if peer != base]
    return (
        ["case", "figure", "unit", *peers]
        + [f"gain of {peer}" for peer in others]
        + [f"spread of {peer} (%)" for peer in peers]
    )


def rows(comparisons, peers, base):
    """The table, one list of texts for each case and figure."""
    table = []
    for one in comparisons:
        label = one.case.label
        for row in one.rows:
            table.append(
                [label, row.figure.title, row.figure.unit]
                + [number(row.medians[peer]) for peer in peers]
                + [_ratio(row.gain(peer, base)) for peer in peers if peer != base]
                + [_spread(row.spreads[peer]) for peer in peers]
            )
            label = ""
    return table


def table_text(comparisons, peers, base):
    """The table for a terminal."""
    lines = [heads(peers, base), *rows(comparisons, peers, base)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if n < 3 else text.rjust(width)
            for n, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def write_csv(directory, runs, comparisons, peers, base):
    """runs.csv holds every figure of every run, summary.csv the medians and ratios."""
    with open(directory / "runs.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("application size ranks hosts transport round figure unit value".split()
                        + ["failure"])  # fmt: skip
        for run in runs:
            start = [run.app, run.size, run.ranks, run.hosts, run.peer, run.round]
            if run.failure:
                writer.writerow([*start, "", "", "", run.failure])
                continue
            for figure in APPS[run.app].figures:
                writer.writerow([*start, figure.key, figure.unit, run.figures[figure.key], ""])
            writer.writerow([*start, WHOLE.key, WHOLE.unit, run.seconds, ""])
    with open(directory / "summary.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            "application size ranks hosts transport good_runs failed_runs figure unit median spread"
            .split() + [f"ratio_to_{base}", f"gain_over_{base}"]
        )  # fmt: skip
        for one in comparisons:
            case = one.case
            for row in one.rows:
                for peer in peers:
                    values = [row.medians[peer], row.spreads[peer]]
                    values += [row.ratio(peer, base), row.gain(peer, base)]
                    writer.writerow(
                        [case.app, case.size, case.ranks, case.hosts, peer]
                        + [one.good[peer], one.failed[peer], row.figure.key, row.figure.unit]
                        + ["" if value is None else f"{value:.6g}" for value in values]
                    )


def _wrapped(name):
    """A name in lines that fit below a bar."""
    return "\n".join(textwrap.wrap(name, 13))


def chart_of(one, peers, base):
    """A bar for each figure of a case and transport: how many times better than the base."""
    others = [peer for peer in peers if peer != base]
    shown = [row for row in one.rows if row.medians[base] is not None]
    texts = {
        peer: [f"{_ratio(row.gain(peer, base))}\n{number(row.medians[peer])} {row.figure.unit}"
               for row in shown]
        for peer in others
    }  # fmt: skip
    return BarChart(
        title=one.case.label,
        y_label=f"times better than {base} (above 1)",
        groups=[_wrapped(row.figure.title) for row in shown],
        bars={peer: [row.gain(peer, base) for row in shown] for peer in others},
        texts=texts,
        reference=1.0,
    )


def overview(comparisons, peers, base):
    """A bar for the first figure of each case and transport."""
    others = [peer for peer in peers if peer != base]
    return BarChart(
        title=f"First figure of each case against {base}",
        y_label=f"times better than {base} (above 1)",
        groups=[_wrapped(one.case.label) for one in comparisons],
        bars={peer: [one.rows[0].gain(peer, base) for one in comparisons] for peer in others},
        reference=1.0,
        description=" ".join(one.reading(peer, base) for one in comparisons for peer in others),
    )


def _scaling_rows(lines, peers):
    table = []
    for case, values in lines:
        texts = [case.label]
        for peer in peers:
            speedup, efficiency = values.get(peer, (None, None))
            texts += [_ratio(speedup), "-" if efficiency is None else f"{100 * efficiency:.0f}"]
        table.append(texts)
    return table


def page(comparisons, peers, base, facts, failures, command):
    """The report as a Page of benchlib."""
    made = Page("Applications: MPI over raw Ethernet frames and over TCP", LEAD.format(base=base))
    made.facts(facts)
    others = [peer for peer in peers if peer != base]
    if others and comparisons:
        made.chart(overview(comparisons, peers, base), "summary.png")
    made.bullets([one.reading(peer, base) for one in comparisons for peer in others])
    if failures:
        made.heading("Runs that do not count")
        made.bullets(
            [
                f"{run.case.label}, {run.peer}, round {run.round}: {run.failure}. "
                f"Its output: `raw/{run.name}.txt`"
                for run in failures
            ]
        )
    made.heading("All figures")
    made.table(heads(peers, base), rows(comparisons, peers, base), 3)
    for app in dict.fromkeys(one.case.app for one in comparisons):
        mine = [one for one in comparisons if one.case.app == app]
        made.heading(APPS[app].title)
        if others:
            made.charts(
                [(chart_of(one, peers, base), f"{one.case.key}.png") for one in mine]
            )
        lines = scaling(comparisons, app, peers)
        if lines:
            made.text("Speed-up of the first figure over the fewest ranks, and efficiency:")
            head = ["case"]
            for peer in peers:
                head += [f"{peer}: speed-up", f"{peer}: efficiency (%)"]
            made.table(head, _scaling_rows(lines, peers))
    made.heading("What was checked")
    made.bullets([f"**{name}**: {what}" for name, what in CHECKS])
    made.text("A run that fails one of them is listed above and is in no median.")
    made.heading("Repeating it")
    made.code(command)
    return made


def write_all(directory, runs, comparisons, peers, base, facts, failures, command):
    """All files of the report into a folder; their names, and why there is no plot, or None."""
    write_csv(directory, runs, comparisons, peers, base)
    names = page(comparisons, peers, base, facts, failures, command).write(directory)
    trouble = None
    if not available():
        trouble = "no plots: matplotlib is missing; install Debian's python3-matplotlib"
    return [*names, "summary.csv", "runs.csv"], trouble
