# SPDX-License-Identifier: BSD-3-Clause
"""The driver of after-computing: programs that compute, then communicate, again and again."""

import re
from typing import ClassVar

from benchlib import Rejected, transports
from benchlib.cli import seconds
from benchlib.driver import CaseDriver, Program, Result, Run, incomplete
from benchlib.prepare import program
from benchlib.summary import Metric
from benchlib.transports import BASELINE
from rawelab import launch

WAYS = 3  # the baseline sends in up to three ways
BARE = r"^baseline exchange .*_us=(.*) mean_us=(.*) p90_us=(.*) lost="
BARE_LINE = re.compile(BARE, re.MULTILINE)
WRONG = re.compile(r" wrong=([1-9]\d*)")
LINE = re.compile(r"^ *(\d+) +\d+ +([\d.]+) +([\d.]+) +([\d.]+)$", re.MULTILINE)
METRICS = (
    Metric("median", "median time", "us", False),
    Metric("mean", "mean time", "us", False),
    Metric("p90", "90th percentile", "us", False),
)
# Name -> sizes, and the numbers of ranks.
EXCHANGES = (64, 1024, 4096, 16384, 32768, 65536, 102400, 262144, 1048576)
SUITES = {
    "exchange": (EXCHANGES, (2,)),
    "halo": ((1024, 16384, 65536), (2,)),
    "allreduce": ((8,), (2, 4)),
    "put": ((64, 4096, 65536), (2,)),
}
TITLES = {
    "exchange": "MPI_Sendrecv with one rank",
    "halo": "six MPI_Irecv and MPI_Isend, MPI_Waitall",
    "allreduce": "MPI_Allreduce",
    "put": "MPI_Put and MPI_Win_fence",
}
QUICK_SIZES = 2


class AfterComputing(Program):
    """One kind of communication after computing."""

    metrics = METRICS

    def __init__(self, name):
        self.name = name
        self.title = TITLES[name]
        self.seconds = 1.0
        self.compute_us = 1000
        self.touch_bytes = 8 << 20

    def title_of(self, size):
        return f"{self.name} of {size} B"

    def why_not(self, size, ranks):
        if self.name != "allreduce" and ranks % 2:
            return "an even number of ranks is needed"
        return super().why_not(size, ranks)

    def find(self, folder, case):
        return str(program(folder.parents[2], "programs/after-computing"))

    def mpirun_arguments(self, found):
        # Debian's configuration excludes osc/pt2pt, without which tcp has no windows.
        return ["--mca", "osc", "^ucx"] if self.name == "put" and launch.open_mpi()[0] < 5 else []

    def commands(self, found, case):
        words = (self.name, self.compute_us, self.touch_bytes, self.seconds, case.size)
        return [[found, *map(str, words)]]

    def read(self, output, files, case):
        line = LINE.search(output)
        if line is None or line.group(1) != case.size:
            raise incomplete("time", output)
        values = map(float, line.groups()[1:])
        return Result(dict(zip((metric.key for metric in METRICS), values, strict=True)))


class ProgramsDriver(CaseDriver):
    """compare of bench/programs."""

    name = "programs"
    quick = "2 rounds of a fifth of a second, and two sizes"
    timeout = 120.0
    times_mpirun = False
    description = (
        "Measure how long programs that compute wait for communication over raw Ethernet frames "
        "(rawe) and over TCP."
    )
    epilog = (
        "All ranks compute for --compute microseconds, in which they read and write --touch bytes\n"
        "of memory, then communicate. Code and data of the transport have left the caches by\n"
        "then, and no earlier message keeps a timer or a window warm: this is what programs see,\n"
        "and loops that only communicate do not. Median, mean and 90th percentile of rank 0.\n"
        "The baseline is the same exchange of bare frames or batches, without any protocol.\n"
        "\n"
        "  compare --suite exchange --compute 100\n"
        "  compare --nic cut --touch 16384 --rounds 7\n"
    )
    page_title = "Communication after computing, over raw Ethernet frames and over TCP"
    programs: ClassVar = {name: AfterComputing(name) for name in SUITES}
    baseline = ""  # the path of its program

    def add_options(self, parser):
        parser.add_argument("--suite", nargs="+", choices=SUITES, help="default: all")
        parser.add_argument("--time", type=seconds, help="seconds of a run (default 1)")
        parser.add_argument(
            "--compute", type=int, default=1000, help="microseconds of computing (default 1000)"
        )
        parser.add_argument(
            "--touch", type=int, default=8 << 20, help="bytes touched meanwhile (default 8 MiB)"
        )

    def finish(self, parser, options):
        if options.compute < 0 or options.touch < 0:
            parser.error("--compute and --touch cannot be negative")
        for one in self.programs.values():
            one.seconds = options.time or (0.2 if options.quick else 1.0)
            one.compute_us = options.compute
            one.touch_bytes = options.touch
        super().finish(parser, options)

    def prepare(self, options, say):
        self.baseline = str(program(options.build, "baseline/baseline-pingpong"))
        return super().prepare(options, say)

    def plan(self, options, interface):
        """Return all Runs; an exchange also has a baseline in each round."""
        runs = []
        for run in super().plan(options, interface):
            first = run.transport == options.transports[0]
            # Without computing, the baseline would be a ping-pong.
            if first and run.case.program == "exchange" and run.case.ranks == 2 and options.compute:
                runs.append(self._baseline_run(options, run, interface))
            runs.append(run)
        return runs

    def _baseline_run(self, options, run, interface):
        one = self.programs["exchange"]
        words = ["-np", "2", *transports.arguments("tcp", interface), *options.starter]
        words += [self.baseline, "--sizes", run.case.size, "--seconds", f"{one.seconds / WAYS:g}"]
        words += ["--compute", str(one.compute_us), "--touch", str(one.touch_bytes)]
        words += ["--interface", interface] if interface else []
        return Run(run.round, BASELINE, run.case, (tuple(words),))

    def read(self, run, outcome, earlier):
        if run.transport != BASELINE:
            return super().read(run, outcome, earlier)
        if wrong := WRONG.search(outcome.output):
            raise Rejected(f"{wrong.group(1)} bytes arrived wrong")
        ways = [tuple(map(float, found)) for found in BARE_LINE.findall(outcome.output)]
        if not ways:
            raise incomplete("time", outcome.output)
        fastest = min(ways)
        return Result(dict(zip((metric.key for metric in METRICS), fastest, strict=True)))

    def wanted(self, options):
        found = []
        for name in options.suite or SUITES:
            sizes, ranks = SUITES[name]
            for size in sizes[:QUICK_SIZES] if options.quick else sizes:
                for number in options.np or ranks:
                    hosts = 0 if options.hostfile else options.hosts or min(number, 4)
                    found.append((name, str(size), number, hosts))
        return found
