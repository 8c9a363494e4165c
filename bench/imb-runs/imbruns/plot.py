# SPDX-License-Identifier: BSD-3-Clause
"""Draws time and bandwidth over message size, one line a transport, the baseline dashed."""

from benchlib.chart import Line, LineChart, available, draw_lines

from . import stats, suites
from .session import BASELINE
from .summary import BANDWIDTHS, WINDOWED

PANEL_INCHES = (5.6, 4.2)
LABELS = {
    "time_us": "time in µs",
    "mbytes_per_s": "bandwidth in MB/s",
    "messages_per_s": "messages per second",
}


def series(record, peer, benchmark, processes, metric):
    """Sizes above 0 and the medians there."""
    sizes = sorted(
        {
            sample.size
            for _, who, sample in record.samples
            if who == peer and sample.benchmark == benchmark and sample.metric == metric
        }
        - {0}
    )
    points = [
        (size, stats.median(values))
        for size in sizes
        if (values := record.values(peer, benchmark, processes, size, metric))
    ]
    return [point for point in points if point[1] > 0]


def panels(record):
    """(benchmark, processes, metric) of each panel, point-to-point first."""
    found = []
    for benchmark, processes, _, metric in record.keys():
        wanted = "mbytes_per_s" if benchmark in WINDOWED + BANDWIDTHS else "time_us"
        key = (benchmark, processes, metric)
        if metric == wanted and benchmark != "Barrier" and key not in found:
            found.append(key)
    names = {name for name, _, _ in found}
    if "PingPong" in names and not names & set(WINDOWED):
        found.insert(1, ("PingPong", 2, "mbytes_per_s"))
    return found


def chart_of(record, peers, benchmark, processes, metric):
    """One panel: a line for each transport, the baseline dashed."""
    lines = [
        Line(peer, suites.PEER_TITLES[peer], series(record, peer, benchmark, processes, metric))
        for peer in peers
    ]
    if processes == 2:
        points = series(record, BASELINE, benchmark, processes, metric)
        lines.append(Line(BASELINE, suites.PEER_TITLES[BASELINE], points, dashed=True))
    return LineChart(f"{benchmark}, {processes} ranks", LABELS[metric], lines)


def _save(record, peers, chosen, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    wide = 2 if len(chosen) == 4 else min(len(chosen), 3)
    high = -(-len(chosen) // wide)
    figure, grid = pyplot.subplots(
        high,
        wide,
        figsize=(PANEL_INCHES[0] * wide, PANEL_INCHES[1] * high + 0.5),
        squeeze=False,
    )
    flat = [axes for line in grid for axes in line]
    for axes, panel in zip(flat, chosen):
        draw_lines(axes, chart_of(record, peers, *panel))
    for axes in flat[len(chosen) :]:
        axes.set_visible(False)
    figure.suptitle(title.replace(" (", "\n(") if wide == 1 else title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw(record, peers, directory, title):
    """Write plot.png, and collectives.png where there are some, both for the largest number of
    ranks; (file name, title) of each. None of them without matplotlib."""
    if not available():
        return []
    largest = {name: processes for name, processes, _ in sorted(panels(record))}
    chosen = [panel for panel in panels(record) if panel[1] == largest[panel[0]]]
    point_to_point = [panel for panel in chosen if panel[0] not in suites.COLLECTIVES]
    collectives = [panel for panel in chosen if panel[0] in suites.COLLECTIVES]
    images = []
    for chosen, name, what in (
        (point_to_point, "plot.png", "Time and bandwidth over message size"),
        (collectives, "collectives.png", "Collectives: time over message size"),
    ):
        if chosen:
            _save(record, peers, chosen, directory / name, f"{what} ({title})")
            images.append((name, what))
    return images
