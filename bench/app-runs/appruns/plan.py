# SPDX-License-Identifier: BSD-3-Clause
"""Which runs to make: application, size, ranks, hosts; and which of them make sense."""

from dataclasses import dataclass

from .abinit import Abinit
from .app import AppError
from .hpcc import Hpcc
from .kernels import Bitonic, Cannon
from .lammps import Lammps
from .netpipe import Netpipe

APPS = {app.name: app for app in (Netpipe(), Hpcc(), Lammps(), Abinit(), Bitonic(), Cannon())}
MOST_HOSTS = 4


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Case:
    """One comparison."""

    app: str
    size: str  # quick or full
    ranks: int
    hosts: int  # 0 when a hostfile decides

    @property
    def label(self):
        """Short name in tables and plots."""
        text = f"{APPS[self.app].title}, {_count(self.ranks, 'rank')}"
        return f"{text} on {_count(self.hosts, 'host')}" if self.hosts else text

    @property
    def key(self):
        """The same, usable in a file."""
        return f"{self.app}.{self.size}.{self.ranks}x{self.hosts}"


# One rank of LAMMPS uses no network: it is the base of the scaling, and what tcp and rawe differ
# by there is the unrest of the machine.
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


def make(apps, size, ranks, hosts, virtual=True):
    """Cases for the applications, and the reasons why others were left out.

    `ranks` None means the table above; `hosts` None means one host a rank, four at most. Without
    virtual hosts it is not used.
    """
    cases, left_out = [], []
    for app in apps:
        for count in ranks or RANKS[size][app]:
            reason = APPS[app].why_not(count)
            on = (hosts or min(count, MOST_HOSTS)) if virtual else 0
            if reason is None and on > count:
                reason = f"{on} hosts are more than {_count(count, 'rank')}"
            if reason is None:
                cases.append(Case(app, size, count, on))
            else:
                left_out.append(f"{APPS[app].title} on {_count(count, 'rank')}: {reason}")
    if not cases:
        raise AppError("nothing to run: " + "; ".join(left_out))
    return cases, left_out
