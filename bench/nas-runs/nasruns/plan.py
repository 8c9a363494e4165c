# SPDX-License-Identifier: BSD-3-Clause
"""Which runs to make: benchmark, class, ranks, hosts; and which of them make sense."""

import math
from dataclasses import dataclass

from .error import NasError

CLASSES = "SWABC"
POINTS = {
    "LU": {"S": 12, "W": 33, "A": 64, "B": 102, "C": 162},
    "SP": {"S": 12, "W": 36, "A": 64, "B": 102, "C": 162},
}
LEAST_POINTS = 3  # of a rank along an axis


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Case:
    """One comparison."""

    benchmark: str  # LU or SP
    problem: str  # class
    ranks: int
    hosts: int  # 0 when a hostfile decides

    @property
    def label(self):
        """Short name in tables and plots."""
        text = f"{self.benchmark} {self.problem}, {_count(self.ranks, 'rank')}"
        return f"{text} on {_count(self.hosts, 'host')}" if self.hosts else text

    @property
    def key(self):
        """The same, usable in a file."""
        return f"{self.benchmark}.{self.problem}.{self.ranks}x{self.hosts}"


# The predecessors' claims: LU +8 %, SP +16 %.
DEFAULT = (Case("LU", "A", 2, 2), Case("LU", "W", 4, 4), Case("SP", "W", 4, 4))
# Small enough for a test suite.
QUICK = (Case("LU", "S", 2, 2), Case("LU", "W", 2, 2), Case("SP", "S", 4, 4), Case("SP", "W", 4, 4))


def why_not(benchmark, problem, ranks):
    """Why this benchmark cannot run on so many ranks, or None when it can."""
    if ranks < 1:
        return f"{ranks} ranks"
    if benchmark == "LU":
        if ranks & (ranks - 1):
            return "LU needs a power of two as number of ranks"
        parts = 1 << math.ceil(math.log2(ranks) / 2)
    else:
        parts = math.isqrt(ranks)
        if parts * parts != ranks:
            return "SP needs a square as number of ranks"
    if POINTS[benchmark][problem] // parts < LEAST_POINTS:
        return f"class {problem} is too small for {ranks} ranks"
    return None


def make(benchmarks, problems, ranks, hosts, virtual=True):
    """Cases for every combination that can run, and the reasons why others were left out.

    `hosts` None means one host a rank, four at most. Without virtual hosts it is not used.
    """
    wanted = [
        Case(benchmark, problem, count, (hosts or min(count, 4)) if virtual else 0)
        for benchmark in benchmarks
        for problem in problems
        for count in ranks
    ]
    return _possible(wanted)


def relocate(cases, hosts):
    """The same cases on another number of hosts; cases and reasons as make() has them."""
    return _possible([Case(one.benchmark, one.problem, one.ranks, hosts) for one in cases])


def _possible(wanted):
    cases, left_out = [], []
    for case in wanted:
        reason = why_not(case.benchmark, case.problem, case.ranks)
        if reason is None and case.hosts > case.ranks:
            reason = f"{case.hosts} hosts are more than {case.ranks} ranks"
        if reason is None:
            cases.append(case)
        else:
            left_out.append(
                f"{case.benchmark} class {case.problem} on {case.ranks} ranks: {reason}"
            )
    if not cases:
        raise NasError("nothing to run: " + "; ".join(left_out))
    return cases, left_out
