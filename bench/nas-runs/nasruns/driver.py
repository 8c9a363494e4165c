# SPDX-License-Identifier: BSD-3-Clause
"""The driver of NAS LU and SP: which classes on how many ranks."""

import os
from typing import ClassVar

from benchlib.driver import CaseDriver
from benchlib.options import list_of
from benchlib.program import HOSTS_MOST

from .programs import CLASSES, Lu, Sp

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
