# SPDX-License-Identifier: BSD-3-Clause
"""Draws time and bandwidth over message size, one line a transport, the floor dashed."""

from . import stats, suites
from .session import FLOOR
from .summary import size_text

COLOURS = {
    "tcp": "#d95f02",
    "rawe": "#1b6ca8",
    "ucx": "#2ca25f",
    "ofi": "#8856a7",
    "vader": "#7f7f7f",
    FLOOR: "#222222",
}
MARKERS = {"tcp": "s", "rawe": "o", "ucx": "^", "ofi": "D", "vader": "v"}
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
        wanted = "mbytes_per_s" if benchmark in ("Uniband", "Biband") else "time_us"
        key = (benchmark, processes, metric)
        if metric == wanted and benchmark != "Barrier" and key not in found:
            found.append(key)
    names = {name for name, _, _ in found}
    if "PingPong" in names and not names & {"Uniband", "Biband"}:
        found.insert(1, ("PingPong", 2, "mbytes_per_s"))
    return found


def _draw(axes, record, peers, benchmark, processes, metric):
    from matplotlib.ticker import NullLocator  # imported late: the report can do without a plot

    lines = [(peer, "-") for peer in peers]
    if processes == 2:
        lines.append((FLOOR, "--"))
    drawn = False
    for peer, style in lines:
        points = series(record, peer, benchmark, processes, metric)
        if points:
            axes.plot(
                *zip(*points),
                style,
                color=COLOURS[peer],
                marker=MARKERS.get(peer),
                markersize=4,
                linewidth=1.5,
                label=suites.PEER_TITLES[peer],
            )
            drawn = True
    axes.set_title(f"{benchmark}, {processes} ranks")
    axes.set_xlabel("message size")
    axes.set_ylabel(LABELS[metric])
    if drawn:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        low, high = axes.get_xlim()
        ticks = [1 << power for power in range(0, 31, 4) if low <= 1 << power <= high]
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.legend(fontsize=8)
    axes.grid(True, which="major", linewidth=0.4, alpha=0.6)


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
        _draw(axes, record, peers, *panel)
    for axes in flat[len(chosen) :]:
        axes.set_visible(False)
    figure.suptitle(title.replace(" (", "\n(") if wide == 1 else title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw(record, peers, directory, title):
    """Write plot.png, and collectives.png where there are some; (file name, title) of each."""
    point_to_point = [panel for panel in panels(record) if panel[0] not in suites.COLLECTIVES]
    collectives = [panel for panel in panels(record) if panel[0] in suites.COLLECTIVES]
    images = []
    for chosen, name, what in (
        (point_to_point, "plot.png", "Time and bandwidth over message size"),
        (collectives, "collectives.png", "Collectives: time over message size"),
    ):
        if chosen:
            _save(record, peers, chosen, directory / name, f"{what} ({title})")
            images.append((name, what))
    return images
