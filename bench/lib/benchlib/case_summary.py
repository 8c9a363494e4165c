# SPDX-License-Identifier: BSD-3-Clause
"""Medians of each case, metric and transport, and their ratios."""

import csv
from dataclasses import dataclass

from . import stats
from .error import BenchError
from .plan import Case
from .program import Metric
from .transports import base_of

# What every program has: from mpirun's start to its end, start and finish of MPI included.
WHOLE = Metric("mpirun_s", "whole run of mpirun", "s", False)


@dataclass
class Row:
    """One metric of one case, over all transports."""

    metric: Metric
    medians: dict  # transport -> median, None when no run of it counts
    spreads: dict  # transport -> (max - min) / median, or None
    intervals: dict  # transport -> doubt of its ratio to the base

    def ratio(self, transport, base):
        """Median of a transport over that of another; None when one has none."""
        one, other = self.medians.get(transport), self.medians.get(base)
        return one / other if one is not None and other else None

    def gain(self, transport, base):
        """How many times better the transport is: above 1 is better, whatever the metric. None for
        a metric that knows no better."""
        ratio = self.ratio(transport, base)
        if ratio is None or self.metric.higher_is_better is None:
            return None
        if self.metric.higher_is_better:
            return ratio
        return 1.0 / ratio if ratio else None

    def gain_interval(self, transport):
        """The doubt of gain() over the base, or None."""
        doubt = self.intervals.get(transport)
        if doubt is None or self.metric.higher_is_better:
            return doubt
        return (1.0 / doubt[1], 1.0 / doubt[0]) if doubt[0] > 0 else None

    def is_wide(self, transport, base):
        """Whether there is a gain whose interval is not narrow."""
        gain = self.gain(transport, base)
        return gain is not None and not stats.is_narrow(self.gain_interval(transport), gain)


@dataclass
class Comparison:
    """All metrics of one case."""

    case: Case
    rows: list
    good: dict  # transport -> runs that count
    failed: dict  # transport -> runs that do not

    def reading(self, transport, base):
        """One sentence on what its first metric says."""
        row = self.rows[0]
        gain = row.gain(transport, base)
        if gain is None:
            return f"{self.case.label}: no comparison, a transport has no run that counts."
        word = "better" if gain >= 1 else "worse"
        word += f": {'higher' if row.metric.higher_is_better else 'lower'} is better"
        if not stats.differs(row.intervals.get(transport)):
            word = "no difference shown"
        change = 100.0 * (row.ratio(transport, base) - 1.0)
        return (
            f"{self.case.label}: {row.metric.title} of {transport} is {change:+.1f} % against "
            f"{base} ({word})."
        )


def _metrics(programs, case):
    return (*programs[case.program].metrics, WHOLE)


def value_of(done, metric):
    """A run's value of a metric, or None."""
    return done.seconds if metric is WHOLE else done.result.metrics.get(metric.key)


def condense(programs, done, transports):
    """A Comparison for each case that has runs, in the order of the runs."""
    comparisons = []
    for case in dict.fromkeys(one.run.case for one in done):
        good = {name: [] for name in transports}
        failed = dict.fromkeys(transports, 0)
        for one in done:
            if one.run.case == case and one.failure:
                failed[one.run.transport] += 1
            elif one.run.case == case:
                good[one.run.transport].append(one)
        rows = []
        for metric in _metrics(programs, case):
            row, by_transport = Row(metric, {}, {}, {}), {}
            for name, runs in good.items():
                values = {
                    one.run.round: value
                    for one in runs
                    if (value := value_of(one, metric)) is not None
                }
                row.medians[name] = stats.median(values.values()) if values else None
                row.spreads[name] = stats.spread(values.values()) if values else None
                by_transport[name] = values
            for name, values in by_transport.items():
                row.intervals[name] = stats.interval(values, by_transport[base_of(transports)])
            if any(value is not None for value in row.medians.values()) or not any(good.values()):
                rows.append(row)
        counts = {name: len(runs) for name, runs in good.items()}
        comparisons.append(Comparison(case, rows, counts, failed))
    return comparisons


def case_of(line):
    """What names the case in a line of summary.csv or runs.csv."""
    return tuple(line[name] for name in ("program", "size", "ranks", "hosts"))


def intervals(lines, base):
    """(*case_of(), metric) -> {transport: doubt of its ratio to the base}, of runs.csv's lines."""
    values = {}
    for line in lines:
        if line["value"]:
            of_key = values.setdefault((*case_of(line), line["metric"]), {})
            of_key.setdefault(line["transport"], {})[int(line["round"])] = float(line["value"])
    return {
        key: {name: stats.interval(rounds, found.get(base, {})) for name, rounds in found.items()}
        for key, found in values.items()
    }


def _lines(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error}") from error


def load(directory, programs, base):
    """The Comparisons in summary.csv, their intervals from runs.csv."""
    found, doubts = {}, intervals(_lines(directory / "runs.csv"), base)
    for line in _lines(directory / "summary.csv"):
        name, size = line["program"], line["size"]
        title = programs[name].title_of(size)
        case = Case(name, size, int(line["ranks"]), int(line["hosts"]), title)
        one = found.setdefault(case, Comparison(case, [], {}, {}))
        metric = next(one for one in _metrics(programs, case) if one.key == line["metric"])
        if not one.rows or one.rows[-1].metric != metric:
            doubt = doubts.get((*case_of(line), metric.key), {})
            one.rows.append(Row(metric, {}, {}, doubt))
        transport = line["transport"]
        one.good[transport] = int(line["good_runs"])
        one.failed[transport] = int(line["failed_runs"])
        one.rows[-1].medians[transport] = float(line["median"]) if line["median"] else None
        one.rows[-1].spreads[transport] = float(line["spread"]) if line["spread"] else None
    return list(found.values())


def scaling(comparisons, program, transports):
    """Speed-up and efficiency of a program over the case with the fewest ranks.

    Lists of (case, {transport: (speed-up, efficiency)}), one for each size; the speed is that of
    the program's first metric. Sizes with a single case have none.
    """
    lists = []
    mine = [one for one in comparisons if one.case.program == program]
    for size in dict.fromkeys(one.case.size for one in mine):
        same = sorted((one for one in mine if one.case.size == size), key=lambda c: c.case.ranks)
        lines, first = [], same[0]
        for one in same if len(same) > 1 else ():
            values = {}
            for name in transports:
                start, now = first.rows[0].medians[name], one.rows[0].medians[name]
                if start and now:
                    ratio = now / start if one.rows[0].metric.higher_is_better else start / now
                    values[name] = (ratio, ratio * first.case.ranks / one.case.ranks)
            lines.append((one.case, values))
        if lines:
            lists.append(lines)
    return lists
