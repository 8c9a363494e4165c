# SPDX-License-Identifier: BSD-3-Clause
"""The driver of the applications: which ones there are, and on how many ranks."""

from typing import ClassVar

from benchlib.driver import CaseDriver
from benchlib.options import list_of
from benchlib.program import HOSTS_MOST

from .applications import Abinit, Bitonic, Cannon, Hpcc, Lammps, Netpipe

PROGRAMS = {one.name: one for one in (Netpipe(), Hpcc(), Lammps(), Abinit(), Bitonic(), Cannon())}
# One rank of LAMMPS uses no network: it is the base of the scaling, and tcp and rawe differ there
# by the machine's spread only.
RANKS = {
    "full": {
        "netpipe": (2,),
        "hpcc": (2, 4),
        "lammps": (1, 2, 4),
        "abinit": (2, 4),
        "bitonic": (2, 4),
        "cannon": (4,),
    },
    "quick": {
        "netpipe": (2,),
        "hpcc": (2,),
        "lammps": (1, 2, 4),
        "abinit": (2,),
        "bitonic": (4,),
        "cannon": (4,),
    },
}
EPILOG = """Without --apps: all of them, on one rank a host, one to four hosts.
Without --hostfile: virtual hosts on this machine (as root). With it, the results' folder
(--output) must be visible under the same path on every host: applications run there.
NetPIPE runs on 2 ranks, HPCC on 2 and more, bitonic on powers of two, Cannon on squares; other
combinations are left out.

examples:
  compare --quick
  compare --apps lammps,abinit --np 4 --mtu 9000
  compare --apps hpcc --np 16 --hostfile hosts --interface eth1 --output /home/me/results

Exit status: 0 all runs passed their checks, 1 some did not or a transport is missing, 2 nothing
could be measured, 130 interrupted; the report holds what was measured until then."""


class AppDriver(CaseDriver):
    """compare of bench/app-runs."""

    name = "app-runs"
    description = "Measure applications over raw Ethernet frames (rawe) against TCP."
    epilog = EPILOG
    quick = "small problems, 2 rounds; 3 minutes"
    packages = ("build", "bench", "apps")
    works_in_directory = True
    programs: ClassVar = PROGRAMS
    page_title = "Applications over raw Ethernet frames and over TCP"

    def add_options(self, parser):
        names = tuple(PROGRAMS)
        parser.add_argument(
            "--apps",
            type=list_of(names, "application"),
            default=list(names),
            metavar="A,B",
            help=f"of {', '.join(names)}",
        )

    def wanted(self, options):
        size, virtual = "quick" if options.quick else "full", options.hostfile is None
        for name in options.apps:
            for ranks in options.np or RANKS[size][name]:
                hosts = options.hosts or min(ranks, HOSTS_MOST)
                yield name, size, ranks, hosts if virtual else 0
