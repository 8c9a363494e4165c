# SPDX-License-Identifier: BSD-3-Clause
"""Writes the tables on the terminal, as CSV, and as a report page in HTML and Markdown."""

import csv

from benchlib.chart import Line, LineChart, size_text
from benchlib.page import Page, anchor

from . import stats, suites
from .session import BASELINE
from .summary import compared_rows, is_power_of_four, reading

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
    if table.has_baseline:
        heads += [BASELINE, f"{table.against_baseline}/{BASELINE}"]
    return heads


def cells(table, row):
    """The cells of one row, as text."""
    size = "" if table.benchmark == "Barrier" else size_text(row.size)
    line = [size, *(figure(row.medians.get(peer), table.metric) for peer in table.peers)]
    line += [ratio(row.ratios.get(peer)) for peer in table.others]
    if table.has_baseline:
        line.append(figure(row.baseline, table.metric))
        line.append(ratio(row.to_baseline.get(table.against_baseline)))
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
            + [f"ratio_to_{base}", "ratio_to_baseline"]
        )
        for benchmark, processes, size, metric in record.keys():
            key = (benchmark, processes, size, metric)
            baseline = record.values(BASELINE, *key) if processes == 2 else []
            based = record.values(base, *key)
            for peer in [*peers, BASELINE]:
                values = baseline if peer == BASELINE else record.values(peer, *key)
                if values:
                    writer.writerow(
                        [*key, peer, len(values)]
                        + [f"{stats.median(values):g}", f"{min(values):g}", f"{max(values):g}"]
                        + [_number(stats.ratio_of_medians(values, based))]
                        + [_number(stats.ratio_of_medians(values, baseline))]
                    )


def _number(value):
    return "" if value is None else f"{value:.4f}"


def _sense_of(table):
    return f"In {table.unit}; ratios: {_sense(table)}."


def _charts(table):
    """The figures over message size, and their ratio to the base."""
    if len(table.rows) < 2:
        return []
    lines = [
        Line(peer, suites.PEER_TITLES[peer], _points(table, lambda row, p=peer: row.medians.get(p)))
        for peer in table.peers
    ]
    if table.has_baseline:
        baseline = _points(table, lambda row: row.baseline)
        lines.append(Line(BASELINE, suites.PEER_TITLES[BASELINE], baseline, dashed=True))
    what = {"time_us": "time", "mbytes_per_s": "bandwidth", "messages_per_s": "message rate"}
    kind = what[table.metric]
    name = f"{table.benchmark}, {table.processes} ranks"
    found = [LineChart(name, f"{kind} in {table.unit}", lines, description=_described(table))]
    if table.others:
        ratios = [
            Line(peer, peer, _points(table, lambda row, p=peer: row.ratios.get(p)))
            for peer in table.others
        ]
        label = f"{kind} / {table.base}'s ({_sense(table)})"
        found.append(LineChart(f"{name}: ratio to {table.base}", label, ratios, reference=1.0))
    return [(chart, None) for chart in found]


def _points(table, value_of):
    return [(row.size, value) for row in table.rows if (value := value_of(row))]


def _described(table):
    texts = [text for peer in table.others if (text := reading(table, peer))]
    return " ".join([f"{table.title}, in {table.unit}, over message size.", *texts])


def _overview(found):
    """One line a table: the ratio at its ends, and the mean."""
    rows = []
    for table in found:
        for peer in table.others:
            known = compared_rows(table, peer)
            if not known:
                continue
            ends = [(known[0].size, known[0].ratios[peer]), (known[-1].size, known[-1].ratios[peer])]
            texts = [f"{value:.2f} at {size_text(size)}" for size, value in ends]
            if table.benchmark == "Barrier":
                texts = [ratio(ends[0][1]), BARE]
            elif len(known) == 1:
                texts[1] = BARE
            title = f"[{table.title}](#{anchor(table.title)})"
            better = "lower" if table.lower_is_better else "higher"
            rows.append([title, peer, *texts, ratio(table.mean_ratio(peer)), better])
    return rows


def _problems(record):
    items = [
        f"**{peer}** was not measured: {reason}." for peer, reason in record.unavailable.items()
    ]
    for failure in record.failures:
        run = failure.run
        said = " / ".join(failure.last_lines[-3:]).replace("`", "'")
        items.append(
            f"{run.processes} ranks, round {run.round}, {run.peer}, {run.part}: {failure.reason}. "
            f"Repeat with `{failure.command}`" + (f". It said: `{said}`" if said else "")
        )
    return items + record.notes


def _shaped(page, shaped):
    if not shaped:
        return
    page.heading("What the shaping allows")
    page.text(
        "MB/s of payload in one direction: reached, and the share of what the line lets through, "
        "first if frames held nothing but payload, then with the transport's own headers."
    )
    heads = ["transport", "size", "reached", "bare line", "share", "with its headers", "share"]
    page.table(heads, [line.cells() for line in shaped])


def write_page(directory, record, found, facts, images, command, shaped=()):
    """report.html and report.md: a page that reads by itself. Returns the names of the files."""
    peers = dict.fromkeys(peer for table in found for peer in table.peers)
    titles = ", ".join(f"{peer} = {suites.PEER_TITLES[peer]}" for peer in peers)
    title = f"{' against '.join(peers)}: MPI benchmarks, {facts['date']}"
    page = Page(title, contents=False)  # the overview links to all sections
    if record.interrupted:
        page.text(
            f"**Interrupted after {record.finished} of {record.planned} runs.** "
            "`compare --resume` with this directory goes on."
        )
    page.facts(facts["table"])
    page.text(
        f"Transports: {titles}. They ran in turn; each figure is the median over the rounds, each "
        "ratio a ratio of such medians. The baseline is what a bare program reaches with the same raw "
        "frames on the same wire without any protocol: for Uniband with one message in a frame, so "
        "that a transport that packs small messages can be above it."
    )
    problems = _problems(record)
    if problems:
        page.heading("What went wrong")
        page.bullets(problems)
    overview = _overview(found)
    if len(overview) > 1:
        page.heading("At a glance")
        page.text(
            f"Ratios to {found[0].base} for the smallest and the largest messages, and their "
            "geometric mean over all sizes. `better` says which way is good: times should be "
            "lower, rates higher."
        )
        heads = ["benchmark", "transport", "smallest", "largest", "mean", "better"]
        page.table(heads, overview, texts=2)
    for image, title in images:
        page.image(image, title)
    _shaped(page, shaped)
    for table in found:
        page.heading(table.title)
        texts = [line for peer in table.others if (line := reading(table, peer))]
        page.text(" ".join([*texts, _sense_of(table)]))
        page.charts(_charts(table))
        page.table(columns(table), [cells(table, row) for row in _shown_rows(table)])
    page.heading("Repeating it")
    page.code(command)
    page.text(
        "All figures of all rounds are in `samples.csv`, medians with their range in "
        "`medians.csv`, the programs' own output below `raw/`."
    )
    return page.write(directory)
