# SPDX-License-Identifier: BSD-3-Clause
"""Writes the tables on the terminal, as CSV and as a Markdown report."""

import csv
import os
import platform
import subprocess

from . import stats, suites
from .session import FLOOR
from .summary import is_power_of_four, reading, size_text

BARE = "-"


def figure(value, metric):
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


def columns(table):
    """Header cells of a table."""
    heads = ["size", *table.peers]
    heads += [f"{peer}/{table.base}" for peer in table.others]
    if table.has_floor:
        heads += [FLOOR, f"{table.against_floor}/{FLOOR}"]
    return heads


def cells(table, row):
    """The cells of one row, as text."""
    size = "" if table.benchmark == "Barrier" else size_text(row.size)
    line = [size, *(figure(row.medians.get(peer), table.metric) for peer in table.peers)]
    line += [ratio(row.ratios.get(peer)) for peer in table.others]
    if table.has_floor:
        line.append(figure(row.floor, table.metric))
        line.append(ratio(row.to_floor.get(table.against_floor)))
    return line


def _shown_rows(table):
    rows = [row for row in table.rows if is_power_of_four(row.size)]
    return rows or table.rows


def _sense(table):
    return "below 1 is faster" if table.lower_is_better else "above 1 is faster"


def terminal_table(table):
    """A table in plain text with aligned columns."""
    lines = [columns(table)] + [cells(table, row) for row in _shown_rows(table)]
    if len(table.rows) > 1 and any(table.mean_ratio(peer) for peer in table.others):
        mean = [""] * len(lines[0])
        mean[0] = "geometric mean"
        for index, peer in enumerate(table.others):
            mean[1 + len(table.peers) + index] = ratio(table.mean_ratio(peer))
        lines.append(mean)
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    text = [f"{table.title}, {table.unit} (ratios: {_sense(table)})"]
    for line in lines:
        text.append("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    return "\n".join(text)


def write_csv(directory, record, peers, base):
    """samples.csv holds every figure of every round, medians.csv the medians and ratios."""
    with open(directory / "samples.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            "round transport benchmark processes bytes metric value repetitions".split()
        )
        for number, peer, sample in record.samples:
            writer.writerow(
                [number, peer, sample.benchmark, sample.processes, sample.size, sample.metric]
                + [f"{sample.value:g}", sample.repetitions]
            )
    with open(directory / "medians.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            "benchmark processes bytes metric transport rounds median min max".split()
            + [f"ratio_to_{base}", "ratio_to_floor"]
        )
        for benchmark, processes, size, metric in record.keys():
            key = (benchmark, processes, size, metric)
            floor = record.values(FLOOR, *key) if processes == 2 else []
            based = record.values(base, *key)
            for peer in [*peers, FLOOR]:
                values = floor if peer == FLOOR else record.values(peer, *key)
                if values:
                    writer.writerow(
                        [*key, peer, len(values)]
                        + [f"{stats.median(values):g}", f"{min(values):g}", f"{max(values):g}"]
                        + [_number(stats.ratio_of_medians(values, based))]
                        + [_number(stats.ratio_of_medians(values, floor))]
                    )


def _number(value):
    return "" if value is None else f"{value:.4f}"


def _first_line(argv):
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
    except OSError:
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0]


def machine():
    """Name and value of what matters about this machine."""
    model = "unknown"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            models = [line.split(":", 1)[1].strip() for line in file if line[:10] == "model name"]
        model = models[0] if models else platform.machine()
    except OSError:
        pass  # no /proc: the report does without
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("Processor", f"{model}, {os.cpu_count()} cores"),
        ("Memory", f"{memory:.0f} GiB"),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("MPI", _first_line(["mpirun", "--version"])),
    ]


def _markdown_table(table):
    lines = [columns(table)] + [cells(table, row) for row in _shown_rows(table)]
    text = ["| " + " | ".join(lines[0]) + " |", "| " + " | ".join(["---:"] * len(lines[0])) + " |"]
    text += ["| " + " | ".join(line) + " |" for line in lines[1:]]
    return text


def _failures(record):
    text = []
    for peer, reason in record.unavailable.items():
        text.append(f"- **{peer}** was not measured: {reason}.")
    for failure in record.failures:
        run = failure.run
        text.append(f"- Round {run.round}, {run.peer}, {run.part}: {failure.reason}. Repeat with")
        text += ["", "      " + failure.command, ""]
        text += ["      " + line for line in failure.last_lines]
    text += [f"- {note}" for note in record.notes]
    return text


def write_markdown(directory, record, found, facts, images, command):
    """report.md: a page that reads by itself."""
    peers = dict.fromkeys(peer for table in found for peer in table.peers)
    titles = ", ".join(f"{peer} = {suites.PEER_TITLES[peer]}" for peer in peers)
    text = [f"# {' against '.join(peers)}: MPI benchmarks, {facts['date']}", ""]
    if record.interrupted:
        text += [f"**Interrupted after {record.rounds_done} complete rounds.**", ""]
    text += ["| | |", "| --- | --- |"]
    text += [f"| {name} | {value} |" for name, value in facts["table"]]
    text += [
        "",
        f"Transports: {titles}. They ran in turn; each figure is the median over the rounds, each "
        "ratio a ratio of such medians. The floor is what a bare program reaches with the same raw "
        "frames on the same wire without any protocol: for Uniband with one message in a frame, so "
        "that a transport that packs small messages can be above it.",
        "",
    ]
    problems = _failures(record)
    if problems:
        text += ["## What went wrong", "", *problems, ""]
    text += [line for image, title in images for line in (f"![{title}]({image})", "")]
    for table in found:
        text += [f"## {table.title}", "", f"In {table.unit}; ratios: {_sense(table)}.", ""]
        text += _markdown_table(table)
        text.append("")
        text += [line for peer in table.others if (line := reading(table, peer))]
        text.append("")
    text += [
        "## Repeating it",
        "",
        f"    {command}",
        "",
        "All figures of all rounds are in `samples.csv`, medians with their range in "
        "`medians.csv`, the programs' own output below `raw/`.",
        "",
    ]
    (directory / "report.md").write_text("\n".join(text), encoding="utf-8")
