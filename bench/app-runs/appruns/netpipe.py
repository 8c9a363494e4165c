# SPDX-License-Identifier: BSD-3-Clause
"""NetPIPE: one message to and fro between two ranks, over sizes; first its integrity check."""

import re
from typing import ClassVar

from benchlib.program import Check, Result, incomplete
from benchlib.summary import Metric

from .application import Application

# "  0:       1 bytes    500 times -->     78.82 Mbps in       0.10 usec"
LINE = re.compile(
    r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+(\S+) Mbps in\s+(\S+) usec", re.MULTILINE
)
INTEGRITY = re.compile(
    r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+(Integrity .*?)\s*$", re.MULTILINE
)
LATENCY_BYTES = 64  # NetPIPE's latency: what shorter messages take on average
SMALL, LARGE = 4096, 65536


class Netpipe(Application):
    """NetPIPE's ping-pong."""

    name = "netpipe"
    title = "NetPIPE"
    program = "NPopenmpi"
    package = "netpipe-openmpi"
    metrics = (
        Metric("latency_us", f"latency below {LATENCY_BYTES} bytes", "µs", False),
        Metric("small_us", f"{SMALL >> 10} KiB", "µs", False),
        Metric("large_us", f"{LARGE >> 10} KiB", "µs", False),
        Metric("peak_mbits", "highest rate", "Mbit/s", True),
    )
    # Largest message, of the integrity check and of the measurement; repetitions of each size.
    checked = "its integrity check of each size, and all sizes measured"
    sizes: ClassVar = {"quick": (20000, 70000, 300), "full": (1100000, 4400000, 500)}

    def why_not(self, size, ranks):
        return None if ranks == 2 else "NetPIPE runs on two ranks"

    def commands(self, found, case):
        checked, largest, repetitions = self.sizes[case.size]
        return [
            [found, "-i", "-p", "0", "-u", str(checked), "-n", "20", "-o", "integrity.out"],
            [found, "-p", "0", "-u", str(largest), "-n", str(repetitions), "-o", "np.out"],
        ]

    def read(self, output, files, case):
        lines = {int(size): (float(rate), float(us)) for size, rate, us in LINE.findall(output)}
        short = [us for size, (_, us) in lines.items() if size < LATENCY_BYTES]
        checks = INTEGRITY.findall(output)
        largest = max([0, *lines])
        if not short or LARGE not in lines or SMALL not in lines or not checks:
            raise incomplete("values of all sizes, or integrity checks", output)
        wrong = [
            f"{size} bytes: {text}" for size, text in checks if text != "Integrity check passed"
        ]
        checked, wanted, _ = self.sizes[case.size]
        last_checked = max(int(size) for size, _ in checks)
        return Result(
            {
                "latency_us": sum(short) / len(short),
                "small_us": lines[SMALL][1],
                "large_us": lines[LARGE][1],
                "peak_mbits": max(rate for rate, _ in lines.values()),
            },
            [
                Check("integrity", not wrong, "; ".join(wrong)),
                # Sizes grow by at most a half: the last one is above that.
                Check("sizes checked", last_checked > checked / 1.6, f"up to {last_checked} bytes"),
                Check("sizes measured", largest > wanted / 1.6, f"up to {largest} bytes"),
            ],
        )
