# SPDX-License-Identifier: BSD-3-Clause
"""A program that is compared as a whole: its input, command line, metrics and checks."""

import re
import shutil
from dataclasses import dataclass, field
from typing import ClassVar

from .error import BenchError

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
    """What one run gave. `steady` are results of its computation: the same in all good runs."""

    metrics: dict = field(default_factory=dict)  # key -> value
    checks: list = field(default_factory=list)
    steady: dict = field(default_factory=dict)

    @property
    def failed_checks(self):
        """What did not hold, as text; empty when all was well."""
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
