# SPDX-License-Identifier: BSD-3-Clause
"""The driver of programs that are compared as a whole; subclasses name programs and options."""

import math
from typing import ClassVar

from . import stats, transports
from .driver import Driver
from .plan import Case, Run, possible
from .session import Rejected
from .summary import Key, Metric, Row, Table

# What every program has: from mpirun's start to its end, start and finish of MPI included.
WHOLE = Metric("mpirun_s", "whole run of mpirun", "s", False)


def _differences(program, steady, others):
    """Which results of the computation differ from those of an earlier run, as text."""
    found = []
    for name, value in steady.items():
        wanted = others.get(name, value)
        if not math.isclose(value, wanted, rel_tol=program.steady_tolerance, abs_tol=1e-12):
            found.append(f"{name} is {value!r}, in an earlier run {wanted!r}")
    return "; ".join(found)


class CaseDriver(Driver):
    """Runs each case of some Programs over each transport."""

    programs: ClassVar = {}  # name -> Program
    times_mpirun = True  # whether the time of the whole run is a metric, too

    def __init__(self):
        self.found = {}  # case -> what its program's find() returned

    def wanted(self, options):
        """(program, size, ranks, hosts) of each case that the options ask for."""
        raise NotImplementedError

    def finish(self, parser, options):
        options.cases, options.left_out = possible(self.programs, self.wanted(options))

    def prepare(self, options, say):
        # All of them before the first run: a missing one is an error at once.
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
        """One Run."""
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
            f"that passed all checks, each ratio a ratio of such medians. {stats.DOUBT}"
        )

    def ending(self, page, tables):
        names = list(dict.fromkeys(row.key.benchmark for table in tables for row in table.rows))
        checks = [self.programs[name] for name in names if self.programs[name].checked]
        if checks:
            page.heading("What was checked")
            page.bullets([f"**{one.title}**: {one.checked}" for one in checks])
            page.text("A run that fails one of these is listed as failed and is in no median.")
