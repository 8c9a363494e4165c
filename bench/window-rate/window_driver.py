# SPDX-License-Identifier: BSD-3-Clause
"""The driver of one-sided operations."""

from dataclasses import replace
from typing import ClassVar

from benchlib.rate_driver import RateDriver, RateProgram
from rawelab import launch

LARGE = 65536
OPERATIONS = {"put": (8, LARGE), "get": (8, LARGE), "accumulate": (8, LARGE), "fetch": (8,)}


class Operation(RateProgram):
    """One operation on the window of the other rank, in bursts that are flushed."""

    def __init__(self, name):
        super().__init__(name, "operations/s")
        self.words = (name,)

    def title_of(self, size):
        return f"{self.name} of {size} B"


class WindowDriver(RateDriver):
    """compare of bench/window-rate."""

    name = "window-rate"
    description = "Measure one-sided operations over raw Ethernet frames (rawe) against TCP."
    epilog = (
        "Rank 0 of one host accesses the window of rank 1 of the other. Open MPI\n4.1 makes "
        "messages of the operations (osc/pt2pt), over rawe unless the environment\nhas "
        "OMPI_MCA_btl_rawe_windows=1; 5.0 does so below its osc/rdma (am-rdma), over tcp."
    )
    page_title = "One-sided operations over raw Ethernet frames and over TCP"
    programs: ClassVar = {name: Operation(name) for name in OPERATIONS}

    def wanted(self, options):
        pairs = [(name, size) for name, sizes in OPERATIONS.items() for size in sizes]
        return self.cases(options, pairs)

    def run_of(self, options, case, transport, number, interface):
        run = super().run_of(options, case, transport, number, interface)
        if launch.open_mpi()[0] >= 5:
            return run
        # Debian's configuration excludes osc/pt2pt, without which tcp has no windows.
        ((start, ranks, *words),) = run.commands
        return replace(run, commands=((start, ranks, "--mca", "osc", "^ucx", *words),))
