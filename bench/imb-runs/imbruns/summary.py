# SPDX-License-Identifier: BSD-3-Clause
"""Turns a session's samples into tables: medians, ratios to the base transport and to the baseline."""

from dataclasses import dataclass, field

from benchlib.chart import size_text

from . import stats, suites
from .session import BASELINE

FLOAT_BYTES = 4
RATE_BELOW = 1024  # bytes; Uniband and Biband are messages per second below, bandwidth from here on
TITLES = {
    "PingPong": "PingPong: half the round trip",
    "PingPing": "PingPing: both send at once",
    "PingPongAnySource": "PingPong, received from any source: half the round trip",
    "PingPingAnySource": "PingPing, received from any source",
    "Isend": "Isend: time in the MPI_Isend call (median)",
    "SendCall": "ESP: time in the MPI_Send call (median)",
    "MpBandwidth": "MPBench: bandwidth, sends in a row",
    "MpBidirectional": "MPBench: bandwidth both ways",
    "MpRoundtrip": "MPBench: round trip",
    "MpLatency": "MPBench: application latency, time in MPI_Send of many in a row",
    "MpBroadcast": "MPBench: broadcast",
    "MpReduce": "MPBench: reduce",
    "MpAllreduce": "MPBench: allreduce",
    "MpAlltoall": "MPBench: all-to-all",
    "CacheHot": "GAMMA: ping-pong in warm memory, half the round trip",
    "CacheCold": "GAMMA: ping-pong in memory that is in no cache, half the round trip",
    "Barrier": "Barrier",
}
WINDOWED = ("Uniband", "Biband")
BANDWIDTHS = ("MpBandwidth", "MpBidirectional")
ALIKE = 0.005  # a ratio this close to 1 is neither faster nor slower
UNITS = {"time_us": "µs", "mbytes_per_s": "MB/s", "messages_per_s": "messages/s"}


@dataclass
class Row:
    """One message size: the median of each peer, the ratios, the spread of the rounds."""

    size: int
    medians: dict
    baseline: float = None
    ratios: dict = field(default_factory=dict)  # peer -> median / the base's median
    to_baseline: dict = field(default_factory=dict)  # peer -> median / the baseline's


@dataclass
class Table:
    """One benchmark on so many processes, in one unit."""

    benchmark: str
    processes: int
    metric: str
    peers: list
    base: str
    rows: list

    @property
    def title(self):
        """Title without unit."""
        name = TITLES.get(self.benchmark, self.benchmark)
        if self.benchmark in WINDOWED:
            way = "one way" if self.benchmark == "Uniband" else "both ways"
            kind = "message rate" if self.metric == "messages_per_s" else "bandwidth"
            name = f"{self.benchmark}: {kind} {way}, 64 messages in flight"
        return f"{name}, {self.processes} ranks"

    @property
    def unit(self):
        """Unit of the medians."""
        return UNITS[self.metric]

    @property
    def lower_is_better(self):
        """True for times."""
        return suites.LOWER_IS_BETTER[self.metric]

    @property
    def others(self):
        """The transports that are compared with the base."""
        return [peer for peer in self.peers if peer != self.base]

    @property
    def against_baseline(self):
        """The transport whose ratio to the baseline is shown: rawe, or the last one."""
        return "rawe" if "rawe" in self.peers else self.peers[-1]

    @property
    def has_baseline(self):
        """True when at least one size has a baseline."""
        return any(row.baseline is not None for row in self.rows)

    def mean_ratio(self, peer):
        """Geometric mean of the peer's ratios over the sizes; None without any."""
        return stats.geometric_mean([row.ratios[peer] for row in compared_rows(self, peer)])


def is_shown(benchmark, processes, size, metric):
    """Which of a benchmark's metrics counts at a size."""
    if benchmark in WINDOWED:
        return metric == ("messages_per_s" if size < RATE_BELOW else "mbytes_per_s")
    if benchmark in BANDWIDTHS:
        return metric == "mbytes_per_s" and size > 0
    if metric != "time_us":
        return False
    if benchmark == "Reduce_scatter_block" and size < FLOAT_BYTES * processes:
        return False  # less than one number for each rank: nothing is sent
    # A collective of no bytes is no communication.
    return size > 0 or benchmark not in suites.COLLECTIVES or benchmark == "Barrier"


def tables(record, peers, base):
    """All Tables of a record."""
    found = {}
    for benchmark, processes, size, metric in record.keys():
        if not is_shown(benchmark, processes, size, metric):
            continue
        values = {
            peer: record.values(peer, benchmark, processes, size, metric) for peer in peers
        }
        row = Row(size, {peer: stats.median(got) for peer, got in values.items() if got})
        baseline = record.values(BASELINE, benchmark, 2, size, metric)
        if baseline and processes == 2:
            row.baseline = stats.median(baseline)
        for peer, got in values.items():
            if peer != base:
                row.ratios[peer] = stats.ratio_of_medians(got, values.get(base, []))
            row.to_baseline[peer] = stats.ratio_of_medians(got, baseline) if row.baseline else None
        key = (benchmark, processes, metric)
        if key not in found:
            found[key] = Table(benchmark, processes, metric, [], base, [])
        found[key].rows.append(row)
    for table in found.values():
        # Without the transports that failed throughout: their columns would be empty.
        table.peers = [peer for peer in peers if any(peer in row.medians for row in table.rows)]
    # IMB measures 0 bytes whatever sizes are asked for: alone they are no table.
    return [
        table
        for table in found.values()
        if table.benchmark == "Barrier" or any(row.size > 0 for row in table.rows)
    ]


def unrest(record, peers):
    """How much a typical figure differs between rounds: the median of (max - min) / median over
    all figures of the transports; None with fewer than two rounds."""
    spreads = []
    for key in record.keys():
        for peer in peers:
            values = record.values(peer, *key)
            if len(values) > 1 and is_shown(*key):
                spreads.append(stats.spread(values))
    known = [one for one in spreads if one is not None]
    return stats.median(known) if known else None


def is_power_of_four(size):
    """True for 0 and 1, 4, 16, ...: the sizes that printed tables show."""
    return size == 0 or (size & (size - 1) == 0 and size.bit_length() % 2 == 1)


def spans(rows, is_member):
    """Where `is_member` holds, as texts: "1 B", "4 KiB to 16 KiB"; sizes in between count."""
    found, run = [], []
    for row in [*rows, None]:
        if row is not None and is_member(row):
            run.append(row.size)
        elif run:
            first, last = size_text(run[0]), size_text(run[-1])
            found.append(first if len(run) == 1 else f"{first} to {last}")
            run = []
    return found


def listed(texts):
    """Texts as a sentence lists them: a, b and c."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _worst(rows, ratio_of, lower_is_better):
    return (max if lower_is_better else min)(rows, key=ratio_of)


def compared_rows(table, peer):
    """The rows that have a ratio; without 0 bytes, unless there is nothing else."""
    rows = [row for row in table.rows if row.ratios.get(peer)]
    return [row for row in rows if row.size > 0] or rows


def reading(table, peer):
    """A sentence or two that say what a table shows of a peer; None when it shows nothing."""
    rows = compared_rows(table, peer)
    if not rows:
        return None

    def ratio_of(row):
        return row.ratios[peer]

    sign = 1 if table.lower_is_better else -1
    faster = [row for row in rows if sign * (ratio_of(row) - 1) < -ALIKE]
    slower = [row for row in rows if sign * (ratio_of(row) - 1) > ALIKE]
    first, last = rows[0], rows[-1]
    of_base = f"of {table.base}'s {'time' if table.lower_is_better else 'rate'}"
    verb = "takes" if table.lower_is_better else "reaches"
    if table.benchmark == "Barrier":
        return f"{peer} {verb} {ratio_of(first):.2f} {of_base}."
    text = f"{peer} {verb} {ratio_of(first):.2f} {of_base} at {size_text(first.size)}"
    if last is not first:
        text += f" and {ratio_of(last):.2f} at {size_text(last.size)}"
        mean = table.mean_ratio(peer)
        text += f"; {mean:.2f} over {len(rows)} sizes (geometric mean)"
    if len(faster) == len(rows) > 1:
        return f"{text}. It is faster at every size."
    if len(slower) == len(rows) > 1:
        return f"{text}. It is slower at every size."
    if slower and len(rows) > 1:
        worst = _worst(slower, ratio_of, table.lower_is_better)
        where = listed(spans(rows, lambda row: row in slower))
        at = "" if where == size_text(worst.size) else f" at {size_text(worst.size)}"
        text += f". It is slower at {where} (ratio {ratio_of(worst):.2f}{at})"
    return f"{text}."
