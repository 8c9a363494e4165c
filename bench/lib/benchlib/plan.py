# SPDX-License-Identifier: BSD-3-Clause
"""Which runs to make: cases, and the runs of each case over transports and rounds."""

from dataclasses import dataclass, field

from .error import BenchError

HOSTS_MOST = 4  # virtual ones, unless asked for


def count_text(number, noun):
    """A number with its noun: 1 rank, 2 ranks."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Case:
    """What is compared: a program with its problem, ranks and hosts."""

    program: str
    size: str  # of the problem; empty where the program has no sizes
    ranks: int
    hosts: int  # 0 when a hostfile decides
    title: str = field(default="", compare=False)  # the program's, for people

    @property
    def label(self):
        """Short name in tables and plots."""
        text = f"{self.title}, {count_text(self.ranks, 'rank')}"
        return f"{text} on {count_text(self.hosts, 'host')}" if self.hosts else text

    @property
    def key(self):
        """The same, usable in a file name."""
        name = f"{self.program}.{self.size}" if self.size else self.program
        return f"{name}.{self.ranks}x{self.hosts}"

    @property
    def shares_hosts(self):
        """Whether several ranks may be on one host."""
        return self.hosts == 0 or self.ranks > self.hosts


@dataclass(frozen=True)
class Run:
    """One round of a case over a transport."""

    round: int  # from 1
    transport: str
    case: Case
    commands: tuple  # mpirun's arguments, a tuple for each mpirun, one after the other

    @property
    def name(self):
        """Of its files."""
        return f"{self.case.key}.{self.transport}.round{self.round}"


def possible(programs, wanted):
    """The Cases among `wanted` (program, size, ranks, hosts) that can run, and why others cannot.

    `programs` maps names to Programs. BenchError when none can run.
    """
    cases, left_out = [], []
    for name, size, ranks, hosts in wanted:
        case = Case(name, size, ranks, hosts, programs[name].title_of(size))
        reason = programs[name].why_not(size, ranks)
        if reason is None and hosts > ranks:
            reason = f"{hosts} hosts are more than {count_text(ranks, 'rank')}"
        if reason is None:
            cases.append(case)
        else:
            left_out.append(f"{case.title} on {count_text(ranks, 'rank')}: {reason}")
    if not cases:
        raise BenchError("nothing to run: " + "; ".join(left_out))
    return cases, left_out
