# SPDX-License-Identifier: BSD-3-Clause
"""NAS LU and SP: which classes run on how many ranks. The programs are NPB's own in NPB_BIN, if it
is set, or the project's."""

import math
import os
import re
from pathlib import Path
from typing import ClassVar

from benchlib import BenchError
from benchlib.cli import list_of
from benchlib.driver import (
    FLAGS,
    HOSTS_MOST,
    CaseDriver,
    Check,
    Program,
    compile_mpi,
    incomplete,
    npb_result,
    result_lines,
)
from benchlib.summary import Metric

SOURCES = Path(__file__).resolve().parent.parent / "src"
CLASSES = "SWABC"
POINTS_MIN = 3  # of a rank along an axis
NEEDED = ("Class", "Iterations", "Time in seconds", "Mop/s total")


def build_own(name, directory):
    """Compile the project's own LU or SP into `directory`, unless it is up to date."""
    common = sorted(SOURCES.glob("nas_*.c"))
    parts = sorted(SOURCES.glob(f"{name.lower()}*.c"))
    flags = f'-DNAS_COMPILE_FLAGS="mpicc {" ".join(FLAGS)}"'
    target, headers = Path(directory) / f"rawe-{name.lower()}", sorted(SOURCES.glob("*.h"))
    return compile_mpi(target, [*parts, *common], headers, [flags], ["-lm"])


def find_npb(directory, case):
    """Return NPB's binary in `directory`: lu.A.x (3.4), or lu.A.4, built for that many ranks."""
    names = [f"{case.program.lower()}.{case.size}.{suffix}" for suffix in ("x", case.ranks)]
    for name in names:
        path = Path(directory) / name
        if path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
    raise BenchError(
        f"NPB_BIN={directory} has neither {names[0]} nor {names[1]}; build it there "
        f"(`make {case.program} CLASS={case.size}` in NPB's MPI directory), choose another class "
        "or number of ranks, or unset NPB_BIN to run the project's own program"
    )


class Nas(Program):
    """One of the two pseudo-applications; its sizes are NPB's classes."""

    points: ClassVar = {}  # class -> points along an axis
    metrics = (
        Metric("mops", "rate", "Mop/s", True),
        Metric("seconds", "time of the iterations", "s", False),
        Metric("mpi_percent", "share of time in MPI", "%", False),
        Metric("messages", "messages of all ranks", "", None),
        Metric("bytes_sent", "bytes sent by all ranks", "B", None),
    )
    checked = "the published norms, found to 1e-8"

    def title_of(self, size):
        return f"{self.title} class {size}"

    def parts(self, ranks):
        """Return the largest number of ranks along an axis."""
        raise NotImplementedError

    def why_not(self, size, ranks):
        if ranks >= 1 and self.points[size] // self.parts(ranks) < POINTS_MIN:
            return f"class {size} is too small for {ranks} ranks"
        return super().why_not(size, ranks)

    def find(self, folder, case):
        npb = os.environ.get("NPB_BIN")
        if npb:
            return (str(find_npb(npb, case)),)
        return (str(build_own(case.program, folder).resolve()), case.size)

    def commands(self, found, case):
        return [found]

    def read(self, output, files, case):
        names = {"mpi_percent": "MPI share (%)", "messages": "Messages sent"}
        names.update(mops="Mop/s total", seconds="Time in seconds", bytes_sent="Bytes sent")
        result = npb_result(output, case, names, NEEDED)
        ended = re.search(r"^\s*(LU|SP) Benchmark Completed", output, re.MULTILINE)
        if ended is None:
            raise incomplete("'LU/SP Benchmark Completed'", output)
        size = result_lines(output, NEEDED)["Class"]
        result.checks += [
            Check("benchmark", ended.group(1) == case.program, ended.group(1)),
            Check("class", size == case.size, size),
        ]
        return result


class Lu(Nas):
    """LU: symmetric successive over-relaxation."""

    name = title = "LU"
    points: ClassVar = {"S": 12, "W": 33, "A": 64, "B": 102, "C": 162}

    def parts(self, ranks):
        return 1 << math.ceil(math.log2(ranks) / 2)

    def why_not(self, size, ranks):
        if ranks & (ranks - 1):
            return "LU needs a power of two as number of ranks"
        return super().why_not(size, ranks)


class Sp(Nas):
    """SP: scalar pentadiagonal solver."""

    name = title = "SP"
    points: ClassVar = {"S": 12, "W": 36, "A": 64, "B": 102, "C": 162}

    def parts(self, ranks):
        return math.isqrt(ranks)

    def why_not(self, size, ranks):
        if math.isqrt(max(ranks, 0)) ** 2 != ranks:
            return "SP needs a square as number of ranks"
        return super().why_not(size, ranks)


# Program, class, ranks. The predecessors' claims: LU +8 %, SP +16 %.
DEFAULT = (("LU", "A", 2), ("LU", "W", 4), ("SP", "W", 4))
QUICK = (("LU", "S", 2), ("LU", "W", 2), ("SP", "S", 4), ("SP", "W", 4))
EPILOG = """Without --class and --np: LU class A on 2 hosts, LU class W and SP class W on 4 hosts.
Without --hostfile: virtual hosts on this machine (as root), one for each rank, four at most.
LU runs on 1, 2, 4, 8, ... ranks, SP on 1, 4, 9, 16, ...; other combinations are left out.
NPB_BIN=DIR runs NPB's own binaries in DIR (lu.A.x, or lu.A.4 built for 4 ranks) instead of the
project's own implementation of the two from the NAS specification.

examples:
  compare --quick
  compare --bench lu --class S,W --np 2,4 --mtu 9000
  NPB_BIN=~/NPB3.4-MPI/bin compare --class A --np 4 --hostfile hosts

Exit status: 0 all runs verified, 1 some did not or a transport is missing, 2 nothing could be
measured, 130 interrupted; the report holds what was measured until then."""


class NasDriver(CaseDriver):
    """compare of bench/nas-runs."""

    name = "nas-runs"
    description = "Measure NAS LU and SP over raw Ethernet frames (rawe) against TCP."
    epilog = EPILOG
    quick = "classes S and W, 2 rounds; within 3 minutes"
    programs: ClassVar = {one.name: one for one in (Lu(), Sp())}
    page_title = "NAS LU and SP over raw Ethernet frames and over TCP"

    def add_options(self, parser):
        add = parser.add_argument
        names = list_of(tuple(self.programs), "benchmark")
        add("--bench", type=names, default=list(self.programs), metavar="A,B", help="default lu,sp")
        classes = list_of(tuple(CLASSES), "class")
        text = f"of {', '.join(CLASSES)} (default W)"
        add("--class", dest="problems", type=classes, metavar="A,B", help=text)

    def facts(self):
        own = "own implementation of RNR-94-007, mpicc -O3"
        return [("Programs", "NPB's own binaries (NPB_BIN)" if os.environ.get("NPB_BIN") else own)]

    def wanted(self, options):
        chosen = [one for one in (QUICK if options.quick else DEFAULT) if one[0] in options.bench]
        if options.problems or options.np:
            problems = options.problems or (["S", "W"] if options.quick else ["W"])
            chosen = [
                (name, problem, ranks)
                for name in options.bench
                for problem in problems
                for ranks in options.np or [4]
            ]
        for name, problem, ranks in chosen:
            hosts = options.hosts or min(ranks, HOSTS_MOST)
            yield name, problem, ranks, 0 if options.hostfile else hosts
