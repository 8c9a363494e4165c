# SPDX-License-Identifier: BSD-3-Clause
"""The driver of bench/rates: what a program in this folder measures between two ranks."""

import re
from typing import ClassVar

from benchlib.cli import seconds
from benchlib.driver import CaseDriver, Program, Result, incomplete
from benchlib.prepare import program
from benchlib.summary import Metric
from rawelab import launch

MESSAGES = ("sender", "receiver", "both")
COLLECTIVES = ("bcast", "alltoall", "allreduce")
OPERATIONS = ("put", "get", "accumulate", "fetch")
LARGE = 65536
SUITES = {
    "messages": [(name, size) for name in MESSAGES for size in (LARGE, 1 << 20, 1 << 24)],
    "collectives": [(name, size) for name in COLLECTIVES for size in (LARGE, 1 << 20)],
    "threads": [("threads", number) for number in (1, 2, 4, 8)],
    "windows": [(name, 8) for name in OPERATIONS] + [(name, LARGE) for name in OPERATIONS[:-1]],
}


class RateProgram(Program):
    """A measurement of `rates NAME SIZE SECONDS`, which prints a rate: "... a second: 123"."""

    def __init__(self, name, unit=""):
        self.name = self.title = name
        self.metrics = (Metric("rate", "rate", unit, True),)
        self.seconds = 0.0

    def find(self, folder, case):
        return str(program(folder.parents[2], "rates/rates"))

    def commands(self, found, case):
        return [[found, self.name, case.size, str(self.seconds)]]

    def read(self, output, files, case):
        rate = re.search(r"^\w+ a second: (\d+)", output, re.MULTILINE)
        if rate is None:
            raise incomplete("rate", output)
        return Result({"rate": float(rate.group(1))})


class Overlap(RateProgram):
    """Successive messages while one side or both compute for 40 ms."""

    def __init__(self, name):
        super().__init__(name)
        self.title = f"{name} computes" if name != "both" else "both compute"
        self.metrics = (
            Metric("waiting", "time of a message, nobody computes", "us", False),
            Metric("computing", "the same during 40 ms of computing", "us", False),
        )
        if name in COLLECTIVES:
            self.title = f"MPI_I{name}"
            self.metrics = (
                Metric("waiting", "time of the collective, nobody computes", "us", False),
                Metric("overlap", "its overlap with computing (IMB-NBC)", "", True),
            )

    def title_of(self, size):
        return f"{self.title}, {int(size) >> 10} KiB"

    def read(self, output, files, case):
        found = dict(re.findall(r"^(\w+): ([\d.-]+)", output, re.MULTILINE))
        if len(found) != len(self.metrics):
            raise incomplete("time", output)
        return Result({name: float(value) for name, value in found.items()})


class Threads(RateProgram):
    """Windows of 64 messages of 8 bytes from several threads, whose number is the size."""

    def title_of(self, size):
        return f"{size} thread{'' if str(size) == '1' else 's'}"


class Operation(RateProgram):
    """One operation on the window of the other rank, in bursts that are flushed."""

    def title_of(self, size):
        return f"{self.name} of {size} B"

    def mpirun_arguments(self, found):
        # Debian's configuration excludes osc/pt2pt, without which tcp has no windows.
        return ["--mca", "osc", "^ucx"] if launch.open_mpi()[0] < 5 else []


class RatesDriver(CaseDriver):
    """compare of bench/rates; batches are cut unless --nic says otherwise."""

    name = "rates"
    quick = "2 rounds of a fifth of a second"
    timeout = 120.0
    times_mpirun = False
    description = (
        "Measure messages during computation, messages of several threads, and one-sided "
        "operations over raw Ethernet frames (rawe) against TCP."
    )
    epilog = (
        "messages: rank 0 sends to rank 1 while one or both of them compute for 40 ms. The value\n"
        "is the wait of the other rank or, if both compute, the wait after the computation.\n"
        "collectives: the share of a nonblocking collective that overlaps with computing.\n"
        "--transports tcp,rawe,async adds rawe with a progress thread.\n"
        "threads: rank 0 sends under MPI_THREAD_MULTIPLE. Each rank has one core, which its\n"
        "threads share. windows: rank 0 accesses the window of rank 1. Open MPI 4.1 turns the\n"
        "operations into messages (osc/pt2pt), over rawe unless the environment has\n"
        "OMPI_MCA_btl_rawe_windows=1; 5.0 does so below its osc/rdma (am-rdma), over tcp."
    )
    page_title = "Computing, threads and windows over raw Ethernet frames and over TCP"
    programs: ClassVar = {
        **{name: Overlap(name) for name in MESSAGES + COLLECTIVES},
        "threads": Threads("threads", "messages/s"),
        **{name: Operation(name, "operations/s") for name in OPERATIONS},
    }

    def add_options(self, parser):
        parser.add_argument("--suite", nargs="+", choices=SUITES, help="default: all")
        parser.add_argument("--time", type=seconds, help="seconds of a run (default 2)")

    def finish(self, parser, options):
        if options.np not in (None, [2]):
            parser.error("--np: these programs run on 2 ranks")
        if options.hostfile is None:
            options.shape["nic"] = options.shape["nic"] or "cut"
        for one in self.programs.values():
            one.seconds = options.time or (0.2 if options.quick else 2.0)
        super().finish(parser, options)

    def wanted(self, options):
        hosts = 0 if options.hostfile else options.hosts or 2
        chosen = [pair for suite in options.suite or SUITES for pair in SUITES[suite]]
        return [(name, str(size), 2, hosts) for name, size in chosen]

    def texts(self, tables, about):
        found = super().texts(tables, about)
        for table in tables:
            for name in table.transports if table.title == "threads" else ():
                first, *others = table.rows
                of_one = first.median(name)
                found += [
                    f"{name}: {row.labels[0]}: {row.median(name) / of_one:.2f} times the rate of "
                    f"{first.labels[0]}"
                    for row in others
                    if of_one and row.median(name)
                ]
        return found
