# SPDX-License-Identifier: BSD-3-Clause
"""A program that is compared as a whole: cases, runs, input, command line, metrics and checks."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import ClassVar

from . import BenchError

HOSTS_MOST = 4  # virtual ones, unless asked for


def count_text(number, noun):
    """A number with its noun: 1 rank, 2 ranks."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Case:
    """A program with its problem size, ranks and hosts."""

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
        """True if several ranks may share a host."""
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


# "Time in seconds =   1.23", as NPB's programs write their results.
LINE = re.compile(r"^\s*([A-Za-z][A-Za-z/() %]*?)\s*=\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass
class Check:
    """One of the checks that decide whether a run counts."""

    what: str
    passed: bool
    detail: str = ""


@dataclass
class Result:
    """The result of one run. `steady` are computed values, which are equal in all good runs."""

    metrics: dict = field(default_factory=dict)  # key -> value
    checks: list = field(default_factory=list)
    steady: dict = field(default_factory=dict)

    @property
    def failed_checks(self):
        """Describe the failed checks; empty when all passed."""
        return "; ".join(
            f"{check.what}: {check.detail or 'failed'}" for check in self.checks if not check.passed
        )


class Program:
    """One program; subclasses say how to run it and how to read its output."""

    name = ""
    title = ""
    program = ""  # found on PATH
    package = ""  # Debian's
    metrics = ()  # of Metric, the most important one first
    sizes: ClassVar = {}  # name of a size -> whatever the input depends on
    keeps = ()  # files of the run's directory that belong to its output
    checked = ""  # what a run has to pass to count, for the report
    environment: ClassVar = {}
    steady_tolerance = 1e-8  # relative

    def title_of(self, size):
        """Its title with a size, where people have to know it."""
        return self.title

    def why_not(self, size, ranks):
        """Why it cannot run on that number of ranks, or None when it can."""
        return f"{ranks} ranks" if ranks < 1 else None

    def find(self, folder, case):
        """Whatever commands() needs to start it; `folder` is for what is compiled. BenchError when
        it is not there."""
        path = shutil.which(self.program)
        if path is None:
            raise BenchError(
                f"{self.program} is not on PATH: test/install-deps apps installs Debian's "
                f"{self.package}; on other systems install {self.title}, or leave it out"
            )
        return path

    def mpirun_arguments(self, found):
        """Arguments of mpirun that it needs."""
        return [
            word for name, value in self.environment.items() for word in ("-x", f"{name}={value}")
        ]

    def prepare(self, directory, case):
        """Write the input into the run's directory."""

    def commands(self, found, case):
        """Command lines to run one after the other; most programs have one."""
        raise NotImplementedError

    def read(self, output, files, case):
        """The Result in what the commands printed, standard output and then standard error, and in
        the files kept; BenchError when it is not there."""
        raise NotImplementedError


def incomplete(what, output):
    """The BenchError for an output that lacks something."""
    lines = output.strip().splitlines()
    last = f"its last line is '{lines[-1].strip()}'" if lines else "it printed nothing"
    return BenchError(f"the output has no {what}, {last}")


def result_lines(output, needed):
    """The "name = value" lines of an output as a dictionary; BenchError when a needed one is
    missing."""
    found = dict(LINE.findall(output))
    missing = [name for name in needed if name not in found]
    if missing:
        raise incomplete(", ".join(missing), output)
    return found


def npb_result(output, case, names, needed=()):
    """Read result lines in NPB's layout. `names` maps keys of metrics to lines, of which `needed`
    must be there."""
    found = result_lines(output, ("Total processes", *needed))
    verdict = found.get("Verification", "NOT PERFORMED")
    processes = found["Total processes"]
    return Result(
        {key: float(found[name]) for key, name in names.items() if name in found},
        [
            Check("processes", processes == str(case.ranks), processes),
            Check("verification", verdict == "SUCCESSFUL", verdict),
        ],
    )


FLAGS = ("-O3", "-std=c11")


def _newest(paths):
    return max(path.stat().st_mtime for path in paths)


def compile_mpi(target, sources, headers=(), extra=(), libraries=()):
    """Make `target` of the C files `sources` with mpicc, unless it is newer than all of them."""
    if target.exists() and target.stat().st_mtime >= _newest([*sources, *headers]):
        return target
    if shutil.which("mpicc") is None:
        raise BenchError("mpicc is not on PATH; install Debian's libopenmpi-dev")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")  # no other run may find half a program
    words = ["mpicc", *FLAGS, *extra, "-o", str(fresh), *map(str, sources), *libraries]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"cannot build {target.name}: {' '.join(words)}\n{done.stderr.strip()}")
    fresh.replace(target)
    return target
