# SPDX-License-Identifier: BSD-3-Clause
"""The selection of values for tables and plots, and their titles."""

from benchlib.page import Line, LineChart, size_text
from benchlib.summary import Row, Table
from benchlib.transports import BASELINE, TITLES

from . import suites

FLOAT_BYTES = 4
RATE_BELOW = 1024  # bytes; streams are messages per second below, bandwidth from here on
NAMES = {
    "PingPong": "PingPong: half the round trip",
    "PingPing": "PingPing: both send at once",
    "PingPongAnySource": "PingPong, received from any source: half the round trip",
    "PingPingAnySource": "PingPing, received from any source",
    "Isend": "Isend: time in the MPI_Isend call (median)",
    "SendCall": "ESP: time in the MPI_Send call (median)",
    "MpBandwidth": "MPBench: bandwidth, successive sends",
    "MpBidirectional": "MPBench: bandwidth both ways",
    "MpRoundtrip": "MPBench: round trip",
    "MpLatency": "MPBench: application latency, time in each of many successive MPI_Send calls",
    "MpBroadcast": "MPBench: broadcast",
    "MpReduce": "MPBench: reduce",
    "MpAllreduce": "MPBench: allreduce",
    "MpAlltoall": "MPBench: all-to-all",
    "CacheHot": "GAMMA: ping-pong in warm memory, half the round trip",
    "CacheCold": "GAMMA: ping-pong in memory that is in no cache, half the round trip",
}
WINDOWED = (*suites.COLD, *suites.COLD.values())
BANDWIDTHS = ("MpBandwidth", "MpBidirectional")


def title_of(benchmark, ranks, metric):
    """Title of a table, without unit."""
    name = NAMES.get(benchmark, benchmark)
    if benchmark in WINDOWED:
        way = "one way" if benchmark.startswith("Uni") else "both ways"
        way += ", several receive buffers" if benchmark in suites.COLD.values() else ""
        name = f"{benchmark}: {metric.title} {way}, 64 messages in flight"
    return f"{name}, {ranks} ranks"


def is_shown(key):
    """Return true if a benchmark's metric is shown at this size."""
    benchmark, size, metric = key.benchmark, key.size, key.metric.key
    if benchmark in WINDOWED:
        return metric == ("messages_per_s" if size < RATE_BELOW else "mbytes_per_s")
    if benchmark in BANDWIDTHS:
        return metric == "mbytes_per_s" and size > 0
    if metric != "time_us":
        return False
    if benchmark == "Reduce_scatter_block" and size < FLOAT_BYTES * key.ranks:
        return False  # less than one number for each rank: nothing is sent
    # A collective of no bytes is no communication.
    return size > 0 or benchmark not in suites.COLLECTIVES or benchmark == "Barrier"


def tables_of(medians, about):
    """A Table for each benchmark, number of ranks and metric."""
    rows = {}
    for key, found in medians.items():
        if is_shown(key):
            label = "" if key.benchmark == "Barrier" else size_text(key.size)
            kind = key.benchmark, key.ranks, suites.METRICS[key.metric.key]
            rows.setdefault(kind, []).append(Row([label], key, found, about["base"]))
    # IMB measures 0 bytes whatever sizes are asked for: alone they are no table.
    return [
        Table(title_of(*kind), ["size"], about["transports"], about["base"], found, True)
        for kind, found in rows.items()
        if kind[0] == "Barrier" or any(row.size > 0 for row in found)
    ]


def _points(medians, panel, name):
    """(size, median) of a transport, without what a logarithmic axis cannot show."""
    return [
        (key.size, found[name].median)
        for key, found in medians.items()
        if (key.benchmark, key.ranks, key.metric.key) == panel
        and name in found
        and key.size > 0
        and found[name].median > 0
    ]


def panels(medians):
    """(benchmark, ranks, metric) of each panel of the plots, for the most ranks of each benchmark;
    benchmarks with a single size have none."""
    sizes = {}
    for key in medians:
        wanted = "mbytes_per_s" if key.benchmark in WINDOWED + BANDWIDTHS else "time_us"
        if key.metric.key == wanted and key.size > 0:
            sizes.setdefault((key.benchmark, key.ranks, wanted), set()).add(key.size)
    found = [panel for panel, several in sizes.items() if len(several) > 1]
    names = {name for name, _, _ in found}
    if "PingPong" in names and not names & set(WINDOWED):
        found.insert(1, ("PingPong", 2, "mbytes_per_s"))
    largest = {name: ranks for name, ranks, _ in sorted(found)}
    return [panel for panel in found if panel[1] == largest[panel[0]]]


def panel_chart(medians, panel, transports):
    """One panel: a line for each transport, the baseline dashed."""
    benchmark, ranks, metric = panel
    names = [*transports, *([BASELINE] if ranks == 2 else [])]
    lines = [
        Line(name, TITLES[name], _points(medians, panel, name), dashed=name == BASELINE)
        for name in names
    ]
    metric = suites.METRICS[metric]
    return LineChart(f"{benchmark}, {ranks} ranks", f"{metric.title} in {metric.unit}", lines)
