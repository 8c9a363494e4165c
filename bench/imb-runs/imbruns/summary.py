# SPDX-License-Identifier: BSD-3-Clause
"""Medians over the rounds, and tables of them: ratios to the base transport and to the baseline."""

import csv
import statistics
from dataclasses import dataclass, field

from benchlib import stats
from benchlib.chart import size_text
from benchlib.error import BenchError
from benchlib.transports import BASELINE, base_of

from . import suites

FLOAT_BYTES = 4
RATE_BELOW = 1024  # bytes; streams are messages per second below, bandwidth from here on
TITLES = {
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
    "Barrier": "Barrier",
}
WINDOWED = (*suites.COLD, *suites.COLD.values())
BANDWIDTHS = ("MpBandwidth", "MpBidirectional")
UNITS = {"time_us": "µs", "mbytes_per_s": "MB/s", "messages_per_s": "messages/s"}


@dataclass(frozen=True)
class Key:
    """What is measured."""

    benchmark: str
    processes: int
    size: int  # bytes; 0 for Barrier
    metric: str  # time_us, mbytes_per_s, messages_per_s


@dataclass
class Median:
    """The rounds of one transport."""

    rounds: int
    median: float
    low: float
    high: float
    way: str = ""  # of the baseline, in most rounds
    intervals: dict = field(default_factory=dict)  # divided by this -> doubt of the ratio

    @property
    def spread(self):
        """(max - min) / median, or None."""
        return (self.high - self.low) / self.median if self.median else None


def medians_of(done, transports):
    """{Key: {transport: Median}} in the order of the benchmarks; the baseline is among the
    transports where it was measured."""
    values, ways = {}, {}
    for one in done:
        for sample in one.result or ():
            key = Key(sample.benchmark, sample.processes, sample.size, sample.metric)
            rounds = values.setdefault(key, {}).setdefault(one.run.transport, {})
            rounds[one.run.round] = sample.value
            if sample.way:
                ways.setdefault(key, []).append(sample.way)
    order = {name: index for index, name in enumerate(suites.BENCHMARKS)}
    bases = (base_of(transports), BASELINE)
    keys = [key for key, found in values.items() if set(found) != {BASELINE}]
    keys.sort(
        key=lambda key: (
            order.get(key.benchmark, len(order)),
            (key.benchmark, key.processes, key.size, key.metric),
        )
    )
    return {
        key: {
            name: Median(
                len(found),
                stats.median(found.values()),
                min(found.values()),
                max(found.values()),
                statistics.mode(ways.get(key, [""])) if name == BASELINE else "",
                _intervals(values[key], name, bases),
            )
            for name in (*transports, BASELINE)
            if (found := values[key].get(name))
        }
        for key in keys
    }


def _intervals(found, name, bases):
    """The doubt of a transport's ratios, by what it is divided by."""
    return {base: stats.interval(found[name], found[base]) for base in bases if base in found}


def read_medians(path, base):
    """medians.csv as medians_of() gives it."""
    found, lines = {}, {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                key = Key(
                    line["benchmark"], int(line["processes"]), int(line["bytes"]), line["metric"]
                )
                found.setdefault(key, {})[line["transport"]] = Median(
                    int(line["rounds"]),
                    *(float(line[name]) for name in ("median", "min", "max")),
                    line.get("way", ""),
                )
                lines.setdefault(key, {})[line["transport"]] = line
        for key, of_key in lines.items():
            for name, line in of_key.items():
                for other, prefix in ((base, ""), (BASELINE, "baseline_")):
                    if other in of_key:
                        doubt = stats.kept_interval(line, of_key[other], prefix)
                        found[key][name].intervals[other] = doubt
    except (OSError, KeyError, ValueError) as error:
        raise BenchError(f"cannot read {path}: {error!r}") from error
    return found


def ratio(medians, name, base):
    """Median of a transport over that of another, or None."""
    if name not in medians or base not in medians or not medians[base].median:
        return None
    return medians[name].median / medians[base].median


@dataclass
class Row:
    """One message size: the median of each transport, and the ratios."""

    size: int
    medians: dict
    baseline: float = None
    way: str = ""  # of the baseline
    ratios: dict = field(default_factory=dict)  # transport -> median / the base's median
    to_baseline: dict = field(default_factory=dict)  # transport -> median / the baseline's
    intervals: dict = field(default_factory=dict)  # (transport, divided by) -> doubt of the ratio


@dataclass
class Table:
    """One benchmark on a number of processes, in one unit."""

    benchmark: str
    processes: int
    metric: str
    transports: list
    base: str
    rows: list

    @property
    def title(self):
        """Title without unit."""
        name = TITLES.get(self.benchmark, self.benchmark)
        if self.benchmark in WINDOWED:
            way = "one way" if self.benchmark.startswith("Uni") else "both ways"
            way += ", several receive buffers" if self.benchmark in suites.COLD.values() else ""
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
        return [transport for transport in self.transports if transport != self.base]

    @property
    def against_baseline(self):
        """The transport whose ratio to the baseline is shown: rawe, or the last one."""
        return "rawe" if "rawe" in self.transports else self.transports[-1]

    @property
    def has_baseline(self):
        """True when at least one size has a baseline."""
        return any(row.baseline is not None for row in self.rows)

    def differs(self, row, transport):
        """Whether a row shows a difference between a transport and the base."""
        return stats.differs(row.intervals.get((transport, self.base)))

    def is_narrow(self, row, transport):
        """Whether the interval of a row's ratio to the base is narrow."""
        doubt = row.intervals.get((transport, self.base))
        return stats.is_narrow(doubt, row.ratios[transport])

    def mean_ratio(self, transport):
        """Geometric mean of the transport's ratios over the sizes; None without any."""
        return stats.geometric_mean(
            [row.ratios[transport] for row in compared_rows(self, transport)]
        )


def is_shown(key):
    """Whether a benchmark's metric counts at a size."""
    benchmark, size, metric = key.benchmark, key.size, key.metric
    if benchmark in WINDOWED:
        return metric == ("messages_per_s" if size < RATE_BELOW else "mbytes_per_s")
    if benchmark in BANDWIDTHS:
        return metric == "mbytes_per_s" and size > 0
    if metric != "time_us":
        return False
    if benchmark == "Reduce_scatter_block" and size < FLOAT_BYTES * key.processes:
        return False  # less than one number for each rank: nothing is sent
    # A collective of no bytes is no communication.
    return size > 0 or benchmark not in suites.COLLECTIVES or benchmark == "Barrier"


class Tables:
    """All Tables of a comparison, made of its medians."""

    def __init__(self, medians, about):
        self.medians = medians
        self.transports = about["transports"]
        self.tables = _tables(medians, self.transports, about["base"])

    def spread(self):
        """The median spread of what the tables show; None with fewer than two rounds."""
        spreads = [
            found[name].spread
            for key, found in self.medians.items()
            for name in self.transports
            if name in found and found[name].rounds > 1 and is_shown(key)
        ]
        known = [one for one in spreads if one is not None]
        return stats.median(known) if known else None

    def points(self, transport, benchmark, processes, metric):
        """(size, median) of a transport, without what a logarithmic axis cannot show."""
        return [
            (key.size, found[transport].median)
            for key, found in self.medians.items()
            if (key.benchmark, key.processes, key.metric) == (benchmark, processes, metric)
            and transport in found
            and key.size > 0
            and found[transport].median > 0
        ]


def _tables(medians, transports, base):
    found = {}
    for key, by_transport in medians.items():
        if not is_shown(key):
            continue
        row = Row(
            key.size,
            {name: by_transport[name].median for name in transports if name in by_transport},
        )
        if BASELINE in by_transport:
            row.baseline = by_transport[BASELINE].median
            row.way = by_transport[BASELINE].way
        for name in transports:
            if name != base:
                row.ratios[name] = ratio(by_transport, name, base)
            row.to_baseline[name] = ratio(by_transport, name, BASELINE)
        row.intervals = {
            (name, other): doubt
            for name, one in by_transport.items()
            for other, doubt in one.intervals.items()
        }
        kind = (key.benchmark, key.processes, key.metric)
        table = found.setdefault(kind, Table(*kind, [], base, []))
        table.rows.append(row)
    for table in found.values():
        # Without the transports that failed throughout: their columns would be empty.
        table.transports = [
            name for name in transports if any(name in row.medians for row in table.rows)
        ]
    # IMB measures 0 bytes whatever sizes are asked for: alone they are no table.
    return [
        table
        for table in found.values()
        if table.benchmark == "Barrier" or any(row.size > 0 for row in table.rows)
    ]


def is_power_of_four(size):
    """True for 0 and 1, 4, 16, ...: the sizes that printed tables show."""
    return size == 0 or (size & (size - 1) == 0 and size.bit_length() % 2 == 1)


def spans(rows, is_member):
    """The sizes where `is_member` holds, as texts: "1 B", "4 KiB to 16 KiB"."""
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


def _sizes(table, transport, is_member):
    """The sizes with a ratio where `is_member` holds, in words; empty for Barrier, which has none,
    and None where there are no such."""
    rows = [row for row in table.rows if row.ratios.get(transport)]
    found = spans(rows, is_member)
    if not found:
        return None
    return "" if table.benchmark == "Barrier" else listed(found)


def wide_sizes(table, transport):
    """The sizes whose interval is not narrow, as _sizes() has them."""
    return _sizes(table, transport, lambda row: not table.is_narrow(row, transport))


def without_difference(table, transport):
    """Where the interval contains 1, as a sentence's end; empty when there is no such size."""
    where = _sizes(table, transport, lambda row: not table.differs(row, transport))
    if where is None:
        return ""
    return f"no difference shown at {where}" if where else "no difference shown"


def _worst(rows, ratio_of, lower_is_better):
    return (max if lower_is_better else min)(rows, key=ratio_of)


def compared_rows(table, transport):
    """The rows that have a ratio; without 0 bytes, unless there is nothing else."""
    rows = [row for row in table.rows if row.ratios.get(transport)]
    return [row for row in rows if row.size > 0] or rows


def reading(table, transport):
    """A sentence or two on what a table shows of a transport; None when it shows nothing."""
    rows = compared_rows(table, transport)
    if not rows:
        return None

    def ratio_of(row):
        return row.ratios[transport]

    sign = 1 if table.lower_is_better else -1
    differing = [row for row in rows if table.differs(row, transport)]
    faster = [row for row in differing if sign * (ratio_of(row) - 1) < 0]
    slower = [row for row in differing if sign * (ratio_of(row) - 1) > 0]
    first, last = rows[0], rows[-1]
    of_base = f"of {table.base}'s {'time' if table.lower_is_better else 'rate'}"
    verb = "takes" if table.lower_is_better else "reaches"
    if table.benchmark == "Barrier":
        none = without_difference(table, transport)
        return f"{transport} {verb} {ratio_of(first):.2f} {of_base}{none and ': '}{none}."
    text = f"{transport} {verb} {ratio_of(first):.2f} {of_base} at {size_text(first.size)}"
    if last is not first:
        text += f" and {ratio_of(last):.2f} at {size_text(last.size)}"
        mean = table.mean_ratio(transport)
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
    none = without_difference(table, transport)
    return f"{text}. {none[0].upper()}{none[1:]}." if none else f"{text}."
