# SPDX-License-Identifier: BSD-3-Clause
"""The base class of all drivers, and programs that are compared as a whole, with their driver."""

import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import ClassVar

from . import BenchError, Rejected, report, summary, transports
from .summary import Key, Metric, Row, Table

HOSTS_MOST = 4  # default maximum of virtual hosts


def count_text(number, noun):
    """Return a number and its noun: 1 rank, 2 ranks."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Case:
    """A program with its problem size, ranks and hosts."""

    program: str
    size: str  # of the problem; empty if the program has no sizes
    ranks: int
    hosts: int  # 0 if a hostfile decides
    title: str = field(default="", compare=False)  # the program's, for people

    @property
    def label(self):
        """The name in tables and plots."""
        text = f"{self.title}, {count_text(self.ranks, 'rank')}"
        return f"{text} on {count_text(self.hosts, 'host')}" if self.hosts else text

    @property
    def key(self):
        """A name for files."""
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
    commands: tuple  # arguments of each mpirun; they run in turn

    @property
    def name(self):
        """The name of its files."""
        return f"{self.case.key}.{self.transport}.round{self.round}"


class Driver:
    """One folder of bench/ with a `compare`.

    The order of calls: add_options(), finish(), prepare(), plan(); read() and line_of() for each
    run; write_csv(), load(); then texts() for the terminal, and title(), lead(), body() and
    ending() for the page. A report is made of what load() returns alone.
    """

    name = ""  # of the folder
    description = ""
    epilog = ""  # examples and exit status, for --help
    quick = ""  # what --quick does
    page_title = ""
    packages = ("build", "bench")  # groups of test/install-deps
    timeout = 900.0  # seconds of one mpirun, by default
    transports_said = "tcp,rawe"  # for --help: the transports compared by default
    works_in_directory = False  # each run gets a directory, visible to all ranks

    def add_options(self, parser):
        """Add the driver's own options."""

    def transports(self, options):
        """Return the transports to compare by default."""
        return ["tcp", "rawe"]

    def finish(self, parser, options):
        """Fill in options.cases (Cases) and options.left_out (reasons); refuse contradictions."""
        raise NotImplementedError

    def prepare(self, options, say):
        """Find the programs, once everything is built. Returns notes for the report."""
        raise NotImplementedError

    def facts(self):
        """Return facts about the programs for the report: (name, value). Call prepare() first."""
        return []

    def plan(self, options, interface):
        """Return all Runs in their order."""
        raise NotImplementedError

    def prepare_run(self, run, directory):
        """Write the input of a run into its directory."""

    def kept_files(self, run):
        """Return the names of the files in a run's directory that belong to its output."""
        return ()

    def read(self, run, outcome, earlier):
        """Return the result of a run; `earlier` is the list of runs done before it. Raises
        BenchError if the output is incomplete, Rejected if it is wrong."""
        raise NotImplementedError

    def line_of(self, done):
        """Return a line about a good run, or an empty string."""
        return ""

    def values(self, done):
        """Return {Key: {transport: {round: value}}} of these Done, in the report's order."""
        raise NotImplementedError

    def medians(self, done, transports):
        """Return {Key: {transport: Median}} of these Done."""
        return summary.condense(self.values(done), transports)

    def tables(self, medians, about):
        """Return the Tables of a report."""
        raise NotImplementedError

    def write_csv(self, directory, record, about):
        """Write the CSV files of a comparison."""
        summary.write_samples(directory / "samples.csv", self.values(record.done))
        medians = self.medians(record.done, about["transports"])
        summary.write_medians(directory / "medians.csv", medians)

    def load(self, directory, about):
        """Return the Tables of the CSV files."""
        return self.tables(summary.read_medians(directory / "medians.csv"), about)

    def texts(self, tables, about):
        """Return tables and sentences for the terminal."""
        return report.texts(tables)

    def title(self, about):
        """Return the title of the page."""
        return f"{self.page_title}, {about['date']}"

    def lead(self, about):
        """Return the first paragraph of the page: what was measured, and how to read it."""
        raise NotImplementedError

    def body(self, page, tables, about):
        """Add the driver's own sections above the tables."""

    def ending(self, page, tables):
        """Add the driver's own sections below the tables."""


def possible(programs, wanted):
    """Return the Cases in `wanted` that can run, and the reasons why others cannot.

    `wanted`: (program, size, ranks, hosts). `programs` maps names to Programs. Raises BenchError if
    none can run.
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


# "Time in seconds =   1.23": the layout of NPB's results.
LINE = re.compile(r"^\s*([A-Za-z][A-Za-z/() %]*?)\s*=\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass
class Check:
    """A check that a run must pass to count."""

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
        """Return descriptions of the failed checks; empty if all passed."""
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
    sizes: ClassVar = {}  # name of a size -> what the input depends on
    keeps = ()  # files of the run's directory that belong to its output
    checked = ""  # the checks, for the report
    environment: ClassVar = {}
    steady_tolerance = 1e-8  # relative

    def title_of(self, size):
        """Return the title, with the size if a reader has to know it."""
        return self.title

    def why_not(self, size, ranks):
        """Return why the program cannot run on this number of ranks, or None if it can."""
        return f"{ranks} ranks" if ranks < 1 else None

    def find(self, folder, case):
        """Return what commands() needs to start the program; `folder` is for compiled programs.
        Raises BenchError if the program is missing."""
        path = shutil.which(self.program)
        if path is None:
            raise BenchError(
                f"{self.program} is not on PATH: test/install-deps apps installs Debian's "
                f"{self.package}; on other systems install {self.title}, or leave it out"
            )
        return path

    def mpirun_arguments(self, found):
        """Return the mpirun arguments that the program needs."""
        return [
            word for name, value in self.environment.items() for word in ("-x", f"{name}={value}")
        ]

    def prepare(self, directory, case):
        """Write the input into the run's directory."""

    def commands(self, found, case):
        """Return the command lines to run in turn; most programs have only one."""
        raise NotImplementedError

    def read(self, output, files, case):
        """Return the Result, from standard output and standard error of the commands and from the
        files kept. Raises BenchError if it is incomplete."""
        raise NotImplementedError


def incomplete(what, output):
    """Return the BenchError for an incomplete output."""
    lines = output.strip().splitlines()
    last = f"its last line is '{lines[-1].strip()}'" if lines else "it printed nothing"
    return BenchError(f"the output has no {what}, {last}")


def result_lines(output, needed):
    """Return an output's "name = value" lines. Raises BenchError if a needed one is missing."""
    found = dict(LINE.findall(output))
    missing = [name for name in needed if name not in found]
    if missing:
        raise incomplete(", ".join(missing), output)
    return found


def npb_result(output, case, names, needed=()):
    """Return the Result of lines in NPB's layout. `names` maps keys of metrics to names of lines;
    those in `needed` must exist."""
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


def compile_mpi(target, sources, headers=(), extra=(), libraries=()):
    """Compile `target` with mpicc unless it is newer than its sources. Returns `target`."""
    newest = max(path.stat().st_mtime for path in [*sources, *headers])
    if target.exists() and target.stat().st_mtime >= newest:
        return target
    if shutil.which("mpicc") is None:
        raise BenchError("mpicc is not on PATH; install Debian's libopenmpi-dev")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")  # another run must not find a partial program
    words = ["mpicc", *FLAGS, *extra, "-o", str(fresh), *map(str, sources), *libraries]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"cannot build {target.name}: {' '.join(words)}\n{done.stderr.strip()}")
    fresh.replace(target)
    return target


# A metric of every program: the whole time of mpirun, with MPI_Init and MPI_Finalize.
WHOLE = Metric("mpirun_s", "whole run of mpirun", "s", False)


def _differences(program, steady, others):
    """Describe the results that differ from those of an earlier run."""
    found = []
    for name, value in steady.items():
        wanted = others.get(name, value)
        if not math.isclose(value, wanted, rel_tol=program.steady_tolerance, abs_tol=1e-12):
            found.append(f"{name} is {value!r}, in an earlier run {wanted!r}")
    return "; ".join(found)


class CaseDriver(Driver):
    """Runs each case of some Programs over each transport."""

    programs: ClassVar = {}  # name -> Program
    times_mpirun = True  # adds the time of the whole run as a metric

    def __init__(self):
        self.found = {}  # case -> what its program's find() returned

    def wanted(self, options):
        """Yield (program, size, ranks, hosts) of each case that the options ask for."""
        raise NotImplementedError

    def finish(self, parser, options):
        options.cases, options.left_out = possible(self.programs, self.wanted(options))

    def prepare(self, options, say):
        # Find all programs before the first run, so that a missing one is reported at once.
        folder = options.build / "bench" / self.name / "programs"
        for case in options.cases:
            self.found[case] = self.programs[case.program].find(folder, case)
        return []

    def plan(self, options, interface):
        return [
            self.run_of(options, case, transport, number, interface)
            for case in options.cases
            for number in range(1, options.rounds + 1)
            for transport in transports.order(options.transports, number)
        ]

    def run_of(self, options, case, transport, number, interface):
        program, found = self.programs[case.program], self.found[case]
        start = ["-np", str(case.ranks)]
        start += transports.arguments(transport, interface, case.shares_hosts, options.against)
        start += [*program.mpirun_arguments(found), *options.starter]
        commands = program.commands(found, case)
        return Run(number, transport, case, tuple((*start, *words) for words in commands))

    def prepare_run(self, run, directory):
        self.programs[run.case.program].prepare(directory, run.case)

    def kept_files(self, run):
        return self.programs[run.case.program].keeps

    def read(self, run, outcome, earlier):
        program = self.programs[run.case.program]
        result = program.read(f"{outcome.output}\n{outcome.errors}", outcome.files, run.case)
        if result.failed_checks:
            raise Rejected(result.failed_checks)
        for one in earlier:
            if one.run.case == run.case and not one.failure:
                differences = _differences(program, result.steady, one.result.steady)
                if differences:
                    raise Rejected(differences)
                break
        return result

    def line_of(self, done):
        metric = self.programs[done.run.case.program].metrics[0]
        value = f"{metric.title} {done.result.metrics[metric.key]:.4g} {metric.unit}"
        return f"{done.seconds:.2f} s, {value}, checks passed"

    def _metrics(self, program):
        return (*self.programs[program].metrics, *([WHOLE] if self.times_mpirun else []))

    def values(self, done):
        found = {}
        for case in dict.fromkeys(one.run.case for one in done):
            for metric in self._metrics(case.program):
                key = Key(case.program, case.size, case.ranks, case.hosts, metric)
                for one in done:
                    if one.run.case != case or one.failure:
                        continue
                    value = one.seconds if metric is WHOLE else one.result.metrics.get(metric.key)
                    if value is not None:
                        rounds = found.setdefault(key, {}).setdefault(one.run.transport, {})
                        rounds[one.run.round] = value
        return found

    def tables(self, medians, about):
        names = list(dict.fromkeys(key.benchmark for key in medians))
        rows = {name: [] for name in names}
        for key, found in medians.items():
            title = self.programs[key.benchmark].title_of(key.size)
            label = Case(key.benchmark, key.size, key.ranks, key.hosts, title).label
            known = {one.key: one.title for one in self._metrics(key.benchmark)}
            labels = [label, known.get(key.metric.key, key.metric.key), key.metric.unit]
            rows[key.benchmark].append(Row(labels, key, found, about["base"]))
        heads = ["case", "metric", "unit"]
        return [
            Table(self.programs[name].title, heads, about["transports"], about["base"], rows[name])
            for name in names
        ]

    def lead(self, about):
        return (
            "The transports ran alternately. Each value is the median over the rounds of the runs "
            f"that passed all checks, each ratio a ratio of such medians. {summary.DOUBT}"
        )

    def ending(self, page, tables):
        names = list(dict.fromkeys(row.key.benchmark for table in tables for row in table.rows))
        checks = [self.programs[name] for name in names if self.programs[name].checked]
        if checks:
            page.heading("What was checked")
            page.bullets([f"**{one.title}**: {one.checked}" for one in checks])
            page.text("A run that fails one of these is listed as failed and is in no median.")
