# SPDX-License-Identifier: BSD-3-Clause
"""Reads the output of IMB-MPI1, of rawe-imb in the same layout, and of the baseline programs."""

import re
from dataclasses import dataclass

HEADER = re.compile(r"^#\s*Benchmarking\s+(?:Multi-)?(\S+)")
PROCESSES = re.compile(r"^#\s*#processes\s*=\s*(\d+)")
GROUPS = re.compile(r"^#\s*\(\s*\d+ groups of (\d+) processes")

# Column of the output -> key of the metric.
METRICS = {
    "t[usec]": "time_us",
    "t_avg[usec]": "time_us",
    "t_median[usec]": "time_us",
    "Mbytes/sec": "mbytes_per_s",
    "Msg/sec": "messages_per_s",
}
# If a benchmark has several times, the later column of METRICS wins: Isend's mean is left out,
# because one interrupt among a thousand calls of 100 ns shifts it.

BASELINE_HEADER_BYTES = 24  # behind the MAC header of each frame of the baseline programs


@dataclass(frozen=True)
class Sample:
    """One value of one run."""

    benchmark: str
    processes: int
    size: int  # bytes; 0 for Barrier
    metric: str  # time_us, mbytes_per_s, messages_per_s
    value: float
    repetitions: int = 0
    way: str = ""  # of the baseline: how it sent


class WrongContents(Exception):
    """A run with -check received wrong bytes."""


def _row(columns, line):
    """Return the numbers of a line by column, or None if it is not a row."""
    words = line.split()
    if not columns or len(words) != len(columns):
        return None
    try:
        return dict(zip(columns, map(float, words)))
    except ValueError:
        return None


def parse_imb(text):
    """Return the Samples of IMB-MPI1's output. Skips unknown lines; the output may be cut off."""
    samples = []
    benchmark, processes, columns = None, 0, None
    for line in text.splitlines():
        header = HEADER.match(line)
        count = PROCESSES.match(line) or GROUPS.match(line)
        if header:
            benchmark, processes, columns = header.group(1), 0, None
        elif count:
            processes = int(count.group(1))
        elif "#repetitions" in line:
            columns = line.split()
        elif benchmark is not None:
            row = _row(columns, line)
            if row is not None:
                samples += _samples(benchmark, processes, row)
    return samples


def _samples(benchmark, processes, row):
    if row.get("defects"):
        raise WrongContents(
            f"{benchmark} with {processes} processes, {row.get('#bytes', 0):.0f} bytes: "
            f"{row['defects']:.0f} bytes arrived wrong"
        )
    found = {METRICS[name]: value for name, value in row.items() if name in METRICS}
    return [
        Sample(
            benchmark, processes, int(row.get("#bytes", 0)), metric, value, int(row["#repetitions"])
        )
        for metric, value in found.items()
    ]


def _fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def parse_baseline(text):
    """Return the Samples of the baseline programs, under the names of the MPI benchmarks.

    If a size was sent in several ways, the fastest one is the baseline.
    """
    best = {}
    largest_frame = 0

    def offer(benchmark, size, metric, value, better):
        key = (benchmark, size, metric)
        if key not in best or better(value, best[key][0]) == value:
            best[key] = (value, fields["way"])

    for line in text.splitlines():
        fields = _fields(line)
        if fields.get("wrong", "0") != "0":
            raise WrongContents(f"{fields['wrong']} bytes arrived wrong: {line.strip()}")
        if line.startswith("baseline link "):
            largest_frame = int(fields["mtu"]) - BASELINE_HEADER_BYTES
        elif line.startswith("baseline pingpong ") and "median_us" in fields:
            offer("PingPong", int(fields["bytes"]), "time_us", float(fields["median_us"]), min)
        elif line.startswith("baseline stream "):
            size = int(fields["bytes"])
            for name in ("Uniband", "UnibandCold"):
                offer(name, size, "mbytes_per_s", float(fields["mbytes_per_s"]), max)
                offer(name, size, "messages_per_s", float(fields["messages_per_s"]), max)
            if size <= largest_frame:
                # One send() call; a larger message needs several, which MPI_Isend may defer.
                offer("Isend", size, "time_us", float(fields["send_us"]), min)
    return [
        Sample(name, 2, size, metric, value, way=way)
        for (name, size, metric), (value, way) in best.items()
    ]
