# SPDX-License-Identifier: BSD-3-Clause
"""The driver of messages that move while ranks compute."""

import re
from typing import ClassVar

from benchlib.program import Result, incomplete
from benchlib.rate_driver import RateDriver, RateProgram
from benchlib.summary import Metric

SIZES = (65536, 1048576, 16777216)


class Overlap(RateProgram):
    """One message after the other, while one side or both compute for 40 ms."""

    def __init__(self, name):
        super().__init__(name, "")
        self.title = f"{name} computes" if name != "both" else "both compute"
        self.words = (name,)
        self.metrics = (
            Metric("waiting", "time of a message, nobody computes", "us", False),
            Metric("computing", "the same beside 40 ms of computing", "us", False),
        )

    def title_of(self, size):
        return f"{self.title}, {int(size) >> 10} KiB"

    def read(self, output, files, case):
        found = dict(re.findall(r"^(\w+): ([\d.-]+) us", output, re.MULTILINE))
        if len(found) != len(self.metrics):
            raise incomplete("time", output)
        return Result({name: float(value) for name, value in found.items()})


class OverlapDriver(RateDriver):
    """compare of bench/overlap."""

    name = "overlap"
    description = "Measure messages beside computing over raw Ethernet frames (rawe) against TCP."
    epilog = (
        "Rank 0 sends to rank 1 while one of them, or both, compute for 40 ms. Shown is\nhow long "
        "the other rank waits or, where both compute, what is left to wait for afterwards."
    )
    page_title = "Messages beside computing over raw Ethernet frames and over TCP"
    programs: ClassVar = {name: Overlap(name) for name in ("sender", "receiver", "both")}

    def wanted(self, options):
        return self.cases(options, [(name, size) for name in self.programs for size in SIZES])
