# SPDX-License-Identifier: BSD-3-Clause
"""The driver of programs of the build that print a rate: "... a second: 123"."""

import re

from .case_driver import CaseDriver
from .options import seconds
from .prepare import program
from .program import Program, Result, incomplete
from .summary import Metric


class RateProgram(Program):
    """A program that is started with words, its size, and the seconds that it runs for."""

    words = ()  # in front of the size
    more = ()  # between size and seconds

    def __init__(self, name, unit):
        self.name = self.title = name
        self.metrics = (Metric("rate", "rate", unit, True),)
        self.seconds = 0.0

    def find(self, folder, case):
        return str(program(folder.parents[2], f"{folder.parent.name}/{folder.parent.name}"))

    def commands(self, found, case):
        return [[found, *map(str, (*self.words, case.size, *self.more, self.seconds))]]

    def read(self, output, files, case):
        rate = re.search(r"^\w+ a second: (\d+)", output, re.MULTILINE)
        if rate is None:
            raise incomplete("rate", output)
        return Result({"rate": float(rate.group(1))})


class RateDriver(CaseDriver):
    """Two ranks on two hosts; batches are cut unless --nic says otherwise."""

    quick = "2 rounds of a fifth of a second"
    timeout = 120.0
    times_mpirun = False

    def add_options(self, parser):
        parser.add_argument("--time", type=seconds, help="seconds of a run (default 2)")

    def finish(self, parser, options):
        if options.np not in (None, [2]):
            parser.error("--np: these programs run on 2 ranks")
        if options.hostfile is None:
            options.shape["nic"] = options.shape["nic"] or "cut"
        for one in self.programs.values():
            one.seconds = options.time or (0.2 if options.quick else 2.0)
        super().finish(parser, options)

    def cases(self, options, wanted):
        """The cases of (program, size)."""
        hosts = 0 if options.hostfile else options.hosts or 2
        return [(name, str(size), 2, hosts) for name, size in wanted]
