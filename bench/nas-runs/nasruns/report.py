# SPDX-License-Identifier: BSD-3-Clause
"""Writes what a comparison found: a table on the terminal, CSV, Markdown, a plot."""

import csv

from imbruns.plot import COLOURS

from .error import NasError

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


def markdown(comparisons, base, facts, failures, plot=None):
    """The report as Markdown; `plot` is the file name of the plot, if there is one."""
    lines = ["# NAS LU and SP: MPI over raw Ethernet frames and over TCP", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in facts]
    lines += ["", f"![Mop/s and share of time in MPI]({plot})", ""] if plot else [""]
    lines.append("| " + " | ".join(heads(base)) + " |")
    lines.append("| --- | --- |" + " ---: |" * (len(heads(base)) - 2))
    lines += ["| " + " | ".join(row) + " |" for row in rows(comparisons, base)]
    lines.append("")
    readings = []
    for one in comparisons:
        readings += [f"- {one.reading(peer, base)}" for peer in one.figures if peer != base]
    lines += [*readings, ""] if readings else []
    lines += [
        "Medians of the verified runs, the transports run alternately. Mop/s are counted by NPB's "
        "formula. Spread: (largest - smallest) / median of Mop/s. In MPI: share of the timed "
        "part spent inside MPI calls, mean of all ranks. A run counts only when the program found "
        "the published norms to 1e-8.",
    ]
    if failures:
        lines += ["", "## Runs without a result", ""]
        lines += [
            f"- {run.case.label}, {run.peer}, round {run.round}: {run.failure}" for run in failures
        ]
    return "\n".join(lines) + "\n"


def write_plot(path, comparisons, base):
    """Mop/s relative to the base transport, and the share of time in MPI, as bars."""
    try:
        import matplotlib
    except ImportError as error:
        raise NasError(
            "no plot: matplotlib is missing; install Debian's python3-matplotlib"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    peers = list(comparisons[0].figures)
    width = 0.8 / len(peers)
    figure, (rate, share) = pyplot.subplots(
        1, 2, figsize=(3.5 + 2.6 * len(comparisons), 4.6), constrained_layout=True
    )
    for position, peer in enumerate(peers):
        places = [n + (position - (len(peers) - 1) / 2) * width for n in range(len(comparisons))]
        ratios = [one.ratio(peer, base) or 0.0 for one in comparisons]
        shares = [one.figures[peer].mpi_share or 0.0 for one in comparisons]
        style = {"width": width * 0.94, "color": COLOURS[peer], "label": peer}
        bars = rate.bar(places, ratios, **style)
        texts = [_number(one.figures[peer].mops, ".0f") for one in comparisons]
        rate.bar_label(bars, texts, fontsize=8, padding=2)
        share.bar_label(share.bar(places, shares, **style), fmt="%.0f", fontsize=8, padding=2)
    rate.axhline(1.0, color="#444", linewidth=0.8)
    rate.set_ylim(0, 1.25 * rate.dataLim.ymax)
    rate.set_ylabel(f"Mop/s relative to {base} (figures: Mop/s)")
    rate.set_title("Speed (higher is better)")
    share.set_ylabel("share of run time inside MPI (%)")
    share.set_ylim(0, 125)  # room for the legend
    share.set_yticks(range(0, 101, 20))
    share.set_title("Time in MPI (lower is better)")
    for axes in (rate, share):
        axes.set_xticks(range(len(comparisons)))
        names = [one.case.label.replace(", ", "\n").replace(" on ", "\non ") for one in comparisons]
        axes.set_xticklabels(names, fontsize=9)
        axes.legend(fontsize=9, loc="upper right", ncol=len(peers), frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def write_all(directory, comparisons, base, facts, failures):
    """All files of the report into a folder; their names, and why there is no plot, or None."""
    names, trouble = ["report.md", "summary.csv"], None
    write_csv(directory / "summary.csv", comparisons, base)
    try:
        write_plot(directory / "summary.png", comparisons, base)
        names.append("summary.png")
    except NasError as error:
        trouble = str(error)
    text = markdown(comparisons, base, facts, failures, None if trouble else "summary.png")
    (directory / "report.md").write_text(text, encoding="utf-8")
    return names, trouble
