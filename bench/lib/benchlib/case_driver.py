# SPDX-License-Identifier: BSD-3-Clause
"""The driver of programs that are compared as a whole; subclasses name programs and options."""

import math
from typing import ClassVar

from . import case_report, case_summary, stats, transports
from .driver import Driver
from .plan import Run, possible
from .session import Rejected


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
    page_title = ""

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

    def write_csv(self, directory, record, about):
        comparisons = self.condense(record.done, about)
        case_report.write_runs(directory / "runs.csv", self.programs, record.done)
        case_report.write_summary(directory / "summary.csv", comparisons, about)

    def load(self, directory, about):
        return case_summary.load(directory, self.programs, about["base"])

    def condense(self, done, about):
        return case_summary.condense(self.programs, done, about["transports"])

    def wide(self, data, about):
        return [
            f"{one.case.label}, {row.metric.title}: {name}"
            for one in data
            for row in one.rows
            for name in about["transports"]
            if name != about["base"] and row.is_wide(name, about["base"])
        ]

    def texts(self, data, about):
        return [case_report.table_text(data, about), "", *case_report.readings(data, about)]

    def spread(self, data):
        spreads = [
            value
            for one in data
            for row in one.rows
            for value in row.spreads.values()
            if value is not None and row.metric.higher_is_better is not None
        ]
        rounds = max([count for one in data for count in one.good.values()], default=0)
        return stats.median(spreads) if spreads and rounds > 1 else None

    def title(self, data, about):
        return f"{self.page_title}, {about['date']}"

    def lead(self, data, about):
        return case_report.LEAD.format(base=about["base"])

    def body(self, page, data, about):
        case_report.body(page, self.programs, data, about)
