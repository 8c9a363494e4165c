# SPDX-License-Identifier: BSD-3-Clause
"""The project's own kernels: bitonic merge sort and Cannon's matrix multiplication."""

import math
import re
from pathlib import Path

from benchlib.compile import compile_mpi

from .app import App, Check, Figure, Result, incomplete

SOURCES = Path(__file__).resolve().parents[2] / "kernels"
# "Time in seconds =   1.23", as NPB's programs write their results.
LINE = re.compile(r"^\s*([A-Za-z][A-Za-z/() %]*?)\s*=\s*(\S.*?)\s*$", re.MULTILINE)


class Kernel(App):
    """A program of bench/kernels."""

    source = ""
    rate = ""  # the result line that holds its rate

    def find(self, programs):
        sources = [SOURCES / self.source, SOURCES / "kernel.c"]
        target = programs / self.program
        return str(compile_mpi(target, sources, [SOURCES / "kernel.h"], (), ["-lm"]).resolve())

    def commands(self, program, case):
        return [[program, *(str(number) for number in self.sizes[case.size])]]

    def read(self, output, files, case):
        found = dict(LINE.findall(output))
        wanted = ("Total processes", "Time in seconds", self.rate, "MPI share (%)", "Verification")
        missing = [name for name in wanted if name not in found]
        if missing:
            raise incomplete(", ".join(missing), output)
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
    figures = (
        Figure("rate", "rate", "Mkey/s", True),
        Figure("seconds", "time of all sorts", "s", False),
        Figure("mpi_percent", "share of time in MPI", "%", False),
    )
    sizes = {"quick": (16384, 50), "full": (65536, 100)}  # keys a rank, repetitions

    def why_not(self, ranks):
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
    figures = (
        Figure("rate", "rate", "Mflop/s", True),
        Figure("seconds", "time of all products", "s", False),
        Figure("mpi_percent", "share of time in MPI", "%", False),
    )
    sizes = {"quick": (240, 50), "full": (720, 40)}  # rows and columns, repetitions

    def why_not(self, ranks):
        edge = math.isqrt(max(ranks, 0))
        if ranks < 1 or edge * edge != ranks:
            return "Cannon's algorithm needs a square as number of ranks"
        for rows, _ in self.sizes.values():
            if rows % edge:
                return f"{rows} rows are no multiple of {edge}"
        return None
