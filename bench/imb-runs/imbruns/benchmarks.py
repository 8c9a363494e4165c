# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks: the suites that run them, over which sizes, and their tables and plots."""

from dataclasses import dataclass, replace

from benchlib.page import Line, LineChart, size_text
from benchlib.summary import Metric, Row, Table
from benchlib.transports import BASELINE, TITLES

# IMB-MPI1's, but for Reduce_local, which sends nothing.
POINT_TO_POINT = ("PingPong", "PingPing", "PingPongAnySource", "PingPingAnySource", "Sendrecv")
POINT_TO_POINT += ("Exchange", "Uniband", "Biband", "UnibandCold", "BibandCold", "Isend")
IMB_COLLECTIVES = ("Bcast", "Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block")
IMB_COLLECTIVES += ("Allgather", "Allgatherv", "Gather", "Gatherv", "Scatter", "Scatterv")
IMB_COLLECTIVES += ("Alltoall", "Alltoallv", "Barrier")
# The tests of the predecessors: MPBench's eight, GAMMA's two, ESP's.
MPBENCH = ("MpBandwidth", "MpRoundtrip", "MpLatency", "MpBidirectional")
MPBENCH_COLLECTIVES = ("MpBroadcast", "MpReduce", "MpAllreduce", "MpAlltoall")
SEEDS = (*MPBENCH, *MPBENCH_COLLECTIVES, "CacheHot", "CacheCold", "SendCall")
COLLECTIVES = IMB_COLLECTIVES + MPBENCH_COLLECTIVES
BENCHMARKS = POINT_TO_POINT + IMB_COLLECTIVES + SEEDS
# The streams, and the same received into several buffers instead of one.
COLD = {"Uniband": "UnibandCold", "Biband": "BibandCold"}
OWN_ONLY = (*COLD.values(), "Isend", *SEEDS)  # IMB-MPI1 has no such benchmarks
# These run on two ranks, however many there are.
PAIRS = (
    *(name for name in POINT_TO_POINT if name.startswith("Ping")),
    "Isend",
    *(name for name in SEEDS if name not in MPBENCH_COLLECTIVES),
)
METRICS = {
    one.key: one
    for one in (
        Metric("time_us", "time", "µs", False),
        Metric("mbytes_per_s", "bandwidth", "MB/s", True),
        Metric("messages_per_s", "message rate", "messages/s", True),
    )
}


@dataclass(frozen=True)
class Part:
    """Benchmarks that run in one mpirun, over the sizes 0 and 2^low ... 2^high."""

    name: str
    benchmarks: tuple
    low: int
    high: int


SUITES = {
    "default": (
        Part("latency", ("PingPong",), 0, 22),
        Part("rate", ("Uniband", "Isend"), 0, 21),
        Part("collectives", ("Bcast", "Allreduce", "Allgather", "Alltoall", "Barrier"), 2, 16),
    ),
    "latency": (
        Part("latency", ("PingPong", "PingPing", "Sendrecv", "Exchange"), 0, 22),
        Part("calls", ("Isend",), 0, 16),
    ),
    "rate": (Part("rate", ("Uniband", "Biband"), 0, 12), Part("calls", ("Isend",), 0, 12)),
    "bandwidth": (
        Part("bandwidth", ("Uniband", "Biband"), 10, 22),
        Part("latency", ("PingPong",), 10, 22),
    ),
    "collectives": (Part("collectives", IMB_COLLECTIVES, 2, 20),),
    "seeds": (
        Part("mpbench", MPBENCH, 0, 22),
        Part("mpbench-collectives", MPBENCH_COLLECTIVES, 2, 20),
        Part("cache", ("CacheHot", "CacheCold"), 0, 20),
        Part("calls", ("SendCall", "Isend"), 0, 16),
    ),
    # A change of the data path must not slow these down: 1 B, 4 KiB, 64 KiB; 64 B, 256 KiB.
    "change": (
        Part("1-byte", ("PingPong",), 0, 0),
        Part("4-kib", ("PingPong",), 12, 12),
        Part("64-kib", ("PingPong",), 16, 16),
        Part("rate", ("Uniband",), 6, 6),
        Part("stream", ("Uniband",), 18, 18),
    ),
    # The mean cost of loss, including rare long waits. 1 B and 256 KiB.
    "loss": (Part("latency", ("PingPong",), 0, 0), Part("rate", ("Uniband",), 18, 18)),
    "all": (
        Part("latency", ("PingPong", "PingPing", "Sendrecv", "Exchange"), 0, 22),
        Part("any-source", ("PingPongAnySource", "PingPingAnySource"), 0, 22),
        Part("rate", ("Uniband", "Biband", "Isend"), 0, 22),
        Part("collectives", IMB_COLLECTIVES, 2, 20),
    ),
}


def benchmark_named(name):
    """The benchmark's proper spelling; ValueError when there is none."""
    for benchmark in BENCHMARKS:
        if benchmark.lower() == name.strip().lower():
            return benchmark
    raise ValueError(f"no benchmark is called {name!r}; there are: {', '.join(BENCHMARKS)}")


def parts_of(suite, benchmarks=(), msglog=None):
    """The Parts of a suite, or of a list of benchmarks; msglog is (low, high) or None."""
    if benchmarks:
        parts = [
            Part(
                "chosen-collectives" if collective else "chosen",
                tuple(name for name in benchmarks if (name in COLLECTIVES) == collective),
                2 if collective else 0,
                16 if collective else 22,
            )
            for collective in (False, True)
        ]
    else:
        parts = SUITES[suite]
    low, high = msglog or (None, None)
    return [
        part if msglog is None else replace(part, low=low, high=high)
        for part in parts
        if part.benchmarks
    ]


def with_cold(parts):
    """The parts, each stream followed by its cold form."""
    found = []
    for part in parts:
        names = [
            one for name in part.benchmarks for one in (name, COLD.get(name)) if one is not None
        ]
        found.append(replace(part, benchmarks=tuple(dict.fromkeys(names))))
    return found


def parts_for(parts, with_pairs):
    """The parts less, unless `with_pairs`, the benchmarks that run on two ranks anyway."""
    kept = [
        replace(part, benchmarks=tuple(n for n in part.benchmarks if with_pairs or n not in PAIRS))
        for part in parts
    ]
    return [part for part in kept if part.benchmarks]


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
WINDOWED = (*COLD, *COLD.values())
BANDWIDTHS = ("MpBandwidth", "MpBidirectional")


def title_of(benchmark, ranks, metric):
    """Title of a table, without unit."""
    name = NAMES.get(benchmark, benchmark)
    if benchmark in WINDOWED:
        way = "one way" if benchmark.startswith("Uni") else "both ways"
        way += ", several receive buffers" if benchmark in COLD.values() else ""
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
    return size > 0 or benchmark not in COLLECTIVES or benchmark == "Barrier"


def tables_of(medians, about):
    """A Table for each benchmark, number of ranks and metric."""
    rows = {}
    for key, found in medians.items():
        if is_shown(key):
            label = "" if key.benchmark == "Barrier" else size_text(key.size)
            kind = key.benchmark, key.ranks, METRICS[key.metric.key]
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
    metric = METRICS[metric]
    return LineChart(f"{benchmark}, {ranks} ranks", f"{metric.title} in {metric.unit}", lines)
