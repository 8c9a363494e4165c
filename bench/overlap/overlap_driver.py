# SPDX-License-Identifier: BSD-3-Clause
"""The driver of messages that move while ranks compute."""

import re
from typing import ClassVar

from benchlib.program import Result, incomplete
from benchlib.rate_driver import RateDriver, RateProgram
from benchlib.summary import Metric

MESSAGES = ("sender", "receiver", "both")
COLLECTIVES = ("bcast", "alltoall", "allreduce")
SIZES = (65536, 1048576, 16777216)  # collectives: without the last


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
        if name in COLLECTIVES:
            self.title = f"MPI_I{name}"
            self.metrics = (
                Metric("waiting", "time of the collective, nobody computes", "us", False),
                Metric("overlap", "share of it beside computing (IMB-NBC)", "", True),
            )

    def title_of(self, size):
        return f"{self.title}, {int(size) >> 10} KiB"

    def read(self, output, files, case):
        found = dict(re.findall(r"^(\w+): ([\d.-]+)", output, re.MULTILINE))
        if len(found) != len(self.metrics):
            raise incomplete("time", output)
        return Result({name: float(value) for name, value in found.items()})


class OverlapDriver(RateDriver):
    """compare of bench/overlap."""

    name = "overlap"
    description = "Measure messages beside computing over raw Ethernet frames (rawe) against TCP."
    epilog = (
        "Rank 0 sends to rank 1 while one of them, or both, compute for 40 ms. Shown is\nhow long "
        "the other rank waits or, where both compute, what is left to wait for afterwards.\nOf "
        "nonblocking collectives the share is shown that went on while both computed. With\n"
        "OMPI_MCA_btl_rawe_async_progress=1 in the environment a thread makes progress meanwhile."
    )
    page_title = "Messages beside computing over raw Ethernet frames and over TCP"
    programs: ClassVar = {name: Overlap(name) for name in MESSAGES + COLLECTIVES}

    def add_options(self, parser):
        super().add_options(parser)
        parser.add_argument("--suite", choices=("messages", "collectives"), help="default: both")

    def wanted(self, options):
        wanted = []
        if options.suite != "collectives":
            wanted += [(name, size) for name in MESSAGES for size in SIZES]
        if options.suite != "messages":
            wanted += [(name, size) for name in COLLECTIVES for size in SIZES[:-1]]
        return self.cases(options, wanted)
