# SPDX-License-Identifier: BSD-3-Clause
"""What an application is to the driver: its input, its command line, its figures, its checks."""

import shutil
from dataclasses import dataclass, field


class AppError(Exception):
    """Something a person can act on: the text says what happened, where, and what to do."""


@dataclass(frozen=True)
class Figure:
    """A figure that an application tells about itself."""

    key: str
    title: str
    unit: str
    higher_is_better: bool


@dataclass
class Check:
    """One of the checks that decide whether a run counts."""

    what: str
    passed: bool
    detail: str = ""


@dataclass
class Result:
    """What one run told. `steady` are results of its computation: the same in all good runs."""

    figures: dict = field(default_factory=dict)  # key -> value
    checks: list = field(default_factory=list)
    steady: dict = field(default_factory=dict)

    @property
    def failed_checks(self):
        """What did not hold, as text; empty when all was well."""
        return "; ".join(
            f"{check.what}: {check.detail or 'failed'}" for check in self.checks if not check.passed
        )


class App:
    """One application; subclasses say how to run it and how to read what it wrote."""

    name = ""
    title = ""  # with what it computes
    program = ""  # found on PATH
    package = ""  # Debian's
    figures = ()  # of Figure, the most telling one first
    sizes = {}  # name of a size ("full", "quick") -> whatever the input depends on
    keeps = ()  # files of the run's directory that belong to its output
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    steady_tolerance = 1e-8  # relative

    def why_not(self, ranks):
        """Why it cannot run on so many ranks, or None when it can."""
        return f"{ranks} ranks" if ranks < 1 else None

    def find(self, _programs):
        """The program's path; AppError when it is not there."""
        path = shutil.which(self.program)
        if path is None:
            raise AppError(
                f"{self.program} is not on PATH: test/install-deps apps installs Debian's "
                f"{self.package}; on other systems install {self.title}, or leave it out with "
                "--apps"
            )
        return path

    def prepare(self, directory, case):
        """Write the input into the run's directory."""

    def commands(self, program, case):
        """Command lines to run one after the other; most have one."""
        raise NotImplementedError

    def read(self, output, files, case):
        """The Result in what the commands printed, standard output and then standard error, and in
        the files kept; AppError when it is not there."""
        raise NotImplementedError


def incomplete(what, output):
    """The AppError for an output that lacks something."""
    lines = output.strip().splitlines()
    last = f"its last line is '{lines[-1].strip()}'" if lines else "it printed nothing"
    return AppError(f"the output has no {what}, {last}")
