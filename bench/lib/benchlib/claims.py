# SPDX-License-Identifier: BSD-3-Clause
"""What the predecessors claimed, and what a reference run says of each claim today."""

import math
from dataclasses import dataclass
from statistics import geometric_mean

from .chart import size_text
from .summary import ratio

TESTED, BASE = "rawe", "tcp"
HALF_FROM = "Uniband"  # whose curve shows where half the bandwidth is reached
FOUR = ("Allreduce", "Alltoall", "Allgather", "Bcast")


@dataclass
class Claim:
    """A predecessor's claim, and today's value."""

    who: str
    said: str
    part: str  # of the reference run
    today: object  # function of a Reference: rawe against btl/tcp in words; empty without values


def _change(ratio):
    """A time's ratio with its change in per cent."""
    return f"{ratio:.2f} × ({100 * (ratio - 1):+.0f} %)"


def found_at(reference, part, benchmark, size, metric="time_us", ranks=2):
    """{transport: Median} of a comparison, or an empty dictionary."""
    wanted = (benchmark, size, metric, ranks)
    found = reference.select(
        part, lambda key: (key.benchmark, key.size, key.metric.key, key.ranks) == wanted
    )
    return next(iter(found.values()), {})


def time_at(part, benchmark, sizes):
    """A function that gives the ratio of times at some sizes."""

    def answer(reference):
        parts = []
        for size in sizes:
            found = found_at(reference, part, benchmark, size)
            value = ratio(found, TESTED, BASE)
            if value is not None:
                times = " against ".join(f"{found[name].median:.2f}" for name in (TESTED, BASE))
                parts.append(f"{size_text(size)}: {_change(value)}, {times} µs")
        return "; ".join(parts)

    return answer


def collectives(ranks):
    """A function that gives the geometric mean over four collectives, 4 B to 64 KiB."""

    def answer(reference):
        texts, every = [], []
        for benchmark in FOUR:
            found = [
                ratio(found_at(reference, "imb", benchmark, 1 << power, ranks=ranks), TESTED, BASE)
                for power in range(2, 17)
            ]
            mine = [value for value in found if value]
            if mine:
                texts.append(f"{benchmark} {geometric_mean(mine):.2f}")
                every += mine
        if not every:
            return ""
        return f"{_change(geometric_mean(every))} ({', '.join(texts)})"

    return answer


def half_bandwidth_bytes(points):
    """The message size at which half of the largest bandwidth is reached, from (bytes, MB/s)
    points; between two of them on the straight line of a logarithmic axis. None without any."""
    points = sorted(point for point in points if point[0] > 0)
    if not points:
        return None
    half = max(rate for _, rate in points) / 2
    before = None
    for size, rate in points:
        if rate >= half:
            if before is None:
                return float(size)
            share = (half - before[1]) / (rate - before[1])
            return 2 ** (math.log2(before[0]) + share * math.log2(size / before[0]))
        before = (size, rate)
    return None


def half_bandwidth(part):
    """A function that finds where half the bandwidth is reached."""

    def wanted(key):
        return (key.benchmark, key.ranks, key.metric.key) == (HALF_FROM, 2, "mbytes_per_s")

    def answer(reference):
        rows = reference.select(part, wanted).items()
        texts = []
        for name in (TESTED, BASE):
            points = [(key.size, found[name].median) for key, found in rows if name in found]
            size = half_bandwidth_bytes(points)
            if size is None:
                return ""
            most = max(rate for _, rate in points)
            texts.append(f"{name}: half of {most:,.0f} MB/s at {size:,.0f} B")
        return "; ".join(texts)

    return answer


def program(part, name, metric, text_of):
    """A function that gives `text_of` the ratio of a program's metric, for each case."""
    wanted = (name, metric)

    def answer(reference):
        texts = []
        found = reference.select(part, lambda key: (key.benchmark, key.metric.key) == wanted)
        for key, one in found.items():
            if (value := ratio(one, TESTED, BASE)) is not None:
                size = f"class {key.size}, " if part == "nas" else ""
                case = f"{size}{key.ranks} ranks on {key.hosts} hosts"
                texts.append(f"{case}: {text_of(value)}")
        return "; ".join(texts)

    return answer


def nas(name):
    """A function that gives the gain in Mop/s of LU or SP."""
    return program("nas", name, "mops", lambda value: f"{100 * (value - 1):+.1f} % Mop/s")


def _against_lossless(percent, text_of, *key):
    """A function that compares each transport's value under loss with the one without."""

    def median(reference, loss, transport):
        found = found_at(reference, f"loss-{loss}", *key).get(transport)
        return found and found.median

    def answer(reference):
        texts = []
        for transport in (TESTED, BASE):
            clean, lossy = (median(reference, loss, transport) for loss in (0, percent))
            if clean is None or (lossy is None and transport == TESTED):
                return ""
            # btl/tcp sometimes hangs under loss, and is left out after the second time.
            texts.append(
                f"{transport} " + ("did not end" if lossy is None else text_of(clean, lossy))
            )
        return "; ".join(texts)

    return answer


def times_lossless(percent):
    """A function that counts the lossless half round trips of 1 B that one takes under loss."""
    return _against_lossless(
        percent,
        lambda clean, lossy: f"{lossy / clean:.1f} × ({clean:.2f} to {lossy:.1f} µs)",
        *("PingPong", 1),
    )


def share_lossless(percent):
    """A function that gives the share of the lossless goodput that is left, window 64, 256 KiB."""
    return _against_lossless(
        percent,
        lambda clean, lossy: f"{lossy / clean:.2f} ({clean:,.0f} to {lossy:,.0f} MB/s)",
        *(HALF_FROM, 1 << 18, "mbytes_per_s"),
    )


SARDA = "Sarda 2003"
HOEFLER = "Hoefler et al. 2006"
CLAIMS = (
    Claim(SARDA, "raw frames halve the round trip", "imb", time_at("imb", "PingPong", (1, 1024))),
    Claim(HOEFLER, "latency -25 %", "switch", time_at("switch", "PingPong", (1,))),
    Claim(
        HOEFLER,
        "time in the send call -50 % (MPI_Send)",
        "seeds",
        time_at("seeds", "SendCall", (64, 4096)),
    ),
    Claim(HOEFLER, "the same, MPI_Isend", "imb", time_at("imb", "Isend", (64, 4096))),
    Claim(HOEFLER, "NAS LU +8 %", "nas", nas("LU")),
    Claim(HOEFLER, "NAS SP +16 %", "nas", nas("SP")),
    Claim(
        HOEFLER,
        "ABINIT's run time nearly halved on 4 nodes",
        "apps",
        program("apps", "abinit", "mpirun_s", _change),
    ),
    Claim(
        "Chang et al. 1996",
        "collectives gain from reliable frames (time, 4 B to 64 KiB, 4 ranks on 4 hosts)",
        "imb",
        collectives(4),
    ),
    Claim(
        "Chang et al. 1996, GAMMA 1996",
        "half the bandwidth is reached with small messages",
        "imb",
        half_bandwidth("imb"),
    ),
    Claim(
        "GAMMA 1996",
        "ping-pong with cold caches",
        "seeds",
        time_at("seeds", "CacheCold", (1, 1024)),
    ),
)
# The cost of random loss in each direction, which the predecessors did not measure.
LOSS = tuple(
    Claim(f"{percent} % loss", said, f"loss-{percent}", today(percent))
    for percent in (1, 5)
    for said, today in (
        ("mean half round trip of 1 B, times the lossless one", times_lossless),
        ("goodput, 64 messages of 256 KiB in flight, share of the lossless one", share_lossless),
    )
)
