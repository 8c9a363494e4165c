# SPDX-License-Identifier: BSD-3-Clause
"""The project's own kernels: bitonic merge sort and Cannon's matrix multiplication."""

import math
from pathlib import Path
from typing import ClassVar

from benchlib.program import Check, Result, compile_mpi, result_lines
from benchlib.summary import Metric

from .application import Application

SOURCES = Path(__file__).resolve().parents[2] / "kernels"


class Kernel(Application):
    """A program of bench/kernels."""

    source = ""
    rate = ""  # the result line that holds its rate

    def find(self, folder, case):
        sources = [SOURCES / self.source, SOURCES / "kernel.c"]
        target = folder / self.program
        return str(compile_mpi(target, sources, [SOURCES / "kernel.h"], (), ["-lm"]).resolve())

    def commands(self, found, case):
        return [[found, *(str(number) for number in self.sizes[case.size])]]

    def read(self, output, files, case):
        needed = ("Total processes", "Time in seconds", self.rate, "MPI share (%)", "Verification")
        found = result_lines(output, needed)
        return Result(
            {
                "rate": float(found[self.rate]),
                "seconds": float(found["Time in seconds"]),
                "mpi_percent": float(found["MPI share (%)"]),
            },
            [
                Check(
                    "processes", found["Total processes"] == str(case.ranks),
                    found["Total processes"],
                ),
                Check(
                    "verification", found["Verification"] == "SUCCESSFUL", found["Verification"]
                ),
            ],
        )  # fmt: skip


class Bitonic(Kernel):
    """Bitonic merge sort."""

    name = "bitonic"
    title = "Bitonic merge sort"
    program = "rawe-bitonic"
    source = "bitonic.c"
    rate = "Mkey/s"
    checked = "order over all ranks, no key lost, doubled or changed"
    metrics = (
        Metric("rate", "rate", "Mkey/s", True),
        Metric("seconds", "time of all sorts", "s", False),
        Metric("mpi_percent", "share of time in MPI", "%", False),
    )
    sizes: ClassVar = {"quick": (16384, 50), "full": (65536, 100)}  # keys a rank, repetitions

    def why_not(self, size, ranks):
        if ranks < 1 or ranks & (ranks - 1):
            return "bitonic sort needs a power of two as number of ranks"
        return None


class Cannon(Kernel):
    """Cannon's matrix multiplication."""

    name = "cannon"
    title = "Cannon's multiplication"
    program = "rawe-cannon"
    source = "cannon.c"
    rate = "Mflop/s"
    checked = "the product against `A (B x)`, exactly"
    metrics = (
        Metric("rate", "rate", "Mflop/s", True),
        Metric("seconds", "time of all products", "s", False),
        Metric("mpi_percent", "share of time in MPI", "%", False),
    )
    sizes: ClassVar = {"quick": (240, 50), "full": (720, 40)}  # rows and columns, repetitions

    def why_not(self, size, ranks):
        edge = math.isqrt(max(ranks, 0))
        if ranks < 1 or edge * edge != ranks:
            return "Cannon's algorithm needs a square as number of ranks"
        rows, _ = self.sizes[size]
        return f"{rows} rows are no multiple of {edge}" if rows % edge else None
