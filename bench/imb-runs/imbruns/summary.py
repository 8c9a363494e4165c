# SPDX-License-Identifier: BSD-3-Clause
"""Turns a session's samples into tables: medians, ratios to the base transport and to the floor."""

from dataclasses import dataclass, field

from . import stats, suites
from .session import FLOOR

RATE_BELOW = 1024  # bytes; Uniband and Biband are messages per second below, bandwidth from here on
TITLES = {
    "PingPong": "PingPong: half the round trip",
    "PingPing": "PingPing: both send at once",
    "Isend": "Isend: time in the MPI_Isend call (median)",
    "Barrier": "Barrier",
}
UNITS = {"time_us": "µs", "mbytes_per_s": "MB/s", "messages_per_s": "messages/s"}


@dataclass
class Row:
    """One message size: the median of each peer, the ratios, the spread of the rounds."""

    size: int
    medians: dict
    floor: float = None
    ratios: dict = field(default_factory=dict)  # peer -> median / the base's median
    to_floor: dict = field(default_factory=dict)  # peer -> median / the floor's


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
        if self.benchmark in ("Uniband", "Biband"):
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
    def against_floor(self):
        """The transport whose ratio to the floor is shown: rawe, or the last one."""
        return "rawe" if "rawe" in self.peers else self.peers[-1]

    @property
    def has_floor(self):
        """True when at least one size has a floor."""
        return any(row.floor is not None for row in self.rows)

    def mean_ratio(self, peer):
        """Geometric mean of the peer's ratios over the sizes shown; None without any."""
        return stats.geometric_mean([row.ratios.get(peer) for row in self.rows])


def is_shown(benchmark, size, metric):
    """Which of a benchmark's metrics counts at a size."""
    if benchmark in ("Uniband", "Biband"):
        return metric == ("messages_per_s" if size < RATE_BELOW else "mbytes_per_s")
    if metric != "time_us":
        return False
    # A collective of no bytes is no communication.
    return size > 0 or benchmark not in suites.COLLECTIVES or benchmark == "Barrier"


def tables(record, peers, base):
    """All Tables of a record."""
    found = {}
    for benchmark, processes, size, metric in record.keys():
        if not is_shown(benchmark, size, metric):
            continue
        values = {
            peer: record.values(peer, benchmark, processes, size, metric) for peer in peers
        }
        row = Row(size, {peer: stats.median(got) for peer, got in values.items() if got})
        floor = record.values(FLOOR, benchmark, 2, size, metric)
        if floor and processes == 2:
            row.floor = stats.median(floor)
        for peer, got in values.items():
            if peer != base:
                row.ratios[peer] = stats.ratio_of_medians(got, values.get(base, []))
            row.to_floor[peer] = stats.ratio_of_medians(got, floor) if row.floor else None
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
            if len(values) > 1 and is_shown(key[0], key[2], key[3]):
                spreads.append(stats.spread(values))
    known = [one for one in spreads if one is not None]
    return stats.median(known) if known else None


def is_power_of_four(size):
    """True for 0 and 1, 4, 16, ...: the sizes that printed tables show."""
    return size == 0 or (size & (size - 1) == 0 and size.bit_length() % 2 == 1)


def reading(table, peer):
    """One sentence that says what a table shows of a peer; None when it shows nothing."""
    ratios = [(row.ratios[peer], row.size) for row in table.rows if row.ratios.get(peer)]
    if not ratios:
        return None
    mean = stats.geometric_mean([ratio for ratio, _ in ratios])
    better = [ratio < 1 if table.lower_is_better else ratio > 1 for ratio, _ in ratios]
    low, high = min(ratios), max(ratios)
    what = "time" if table.lower_is_better else "rate"
    if len(ratios) == 1:
        return f"{peer} has {mean:.2f} × the {what} of {table.base}."
    return (
        f"Over {len(ratios)} sizes {peer} has {mean:.2f} × the {what} of {table.base} "
        f"(geometric mean; from {low[0]:.2f} at {size_text(low[1])} to {high[0]:.2f} at "
        f"{size_text(high[1])}); it is ahead at {sum(better)} of them."
    )


def size_text(size):
    """Bytes as a person writes them: 16 KiB, 4 MiB."""
    if size >= 1 << 20 and size % (1 << 20) == 0:
        return f"{size >> 20} MiB"
    if size >= 1 << 10 and size % (1 << 10) == 0:
        return f"{size >> 10} KiB"
    return f"{size} B"
