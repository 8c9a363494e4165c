# SPDX-License-Identifier: BSD-3-Clause
"""Reads the result lines of an NPB program, or of the project's own, from its output."""

import re
from dataclasses import dataclass

from .error import NasError

# "Mop/s total     =   1234.56", "MPI share (%)   =  12.3"; NPB's "Size = 12x 12x 12" has spaces.
LINE = re.compile(r"^\s*([A-Za-z][A-Za-z/() %]*?)\s*=\s*(\S.*?)\s*$")
NEEDED = ("Class", "Iterations", "Time in seconds", "Total processes", "Mop/s total")


@dataclass
class Result:
    """What one run of LU or SP printed."""

    benchmark: str  # LU or SP
    problem: str  # class: S, W, A, B, ...
    processes: int
    iterations: int
    seconds: float
    mops: float  # million operations a second, all processes
    verification: str  # SUCCESSFUL, UNSUCCESSFUL or NOT PERFORMED
    mpi_share: float = None  # percent of the run time inside MPI calls, mean of all ranks
    messages: int = None  # sent point to point by all ranks
    bytes_sent: int = None

    @property
    def verified(self):
        """Whether the program found the published norms."""
        return self.verification == "SUCCESSFUL"


def parse(output):
    """The Result in a program's output; NasError when the result lines are not there."""
    found = {}
    benchmark = re.search(r"^\s*(LU|SP) Benchmark Completed", output, re.MULTILINE)
    for line in output.splitlines():
        match = LINE.match(line)
        if match:
            found[match.group(1)] = match.group(2)
    missing = [name for name in NEEDED if name not in found]
    if benchmark is None or missing:
        what = ", ".join(missing) or "'LU/SP Benchmark Completed'"
        tail = "\n".join(output.strip().splitlines()[-15:]) or "(nothing)"
        raise NasError(
            f"the program printed no complete result (missing: {what}); it did not run to its "
            f"end. The last it printed:\n{tail}"
        )

    def optional(name, kind):
        return kind(float(found[name])) if name in found else None

    return Result(
        benchmark=benchmark.group(1),
        problem=found["Class"],
        processes=int(found["Total processes"]),
        iterations=int(found["Iterations"]),
        seconds=float(found["Time in seconds"]),
        mops=float(found["Mop/s total"]),
        verification=found.get("Verification", "NOT PERFORMED"),
        mpi_share=optional("MPI share (%)", float),
        messages=optional("Messages sent", int),
        bytes_sent=optional("Bytes sent", int),
    )
