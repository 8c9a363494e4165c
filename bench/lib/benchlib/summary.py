# SPDX-License-Identifier: BSD-3-Clause
"""The medians of a comparison over its rounds, their CSV files, and tables of them.

samples.csv    key, transport, round_1 ... round_N: every value
medians.csv    key, then for each transport its median, range, number of rounds, and the
               interval of its ratio to the base; reports are made of this file
"""

import csv
import functools
import random
import statistics
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from . import BenchError
from .transports import BASELINE, base_of

OF_KEY = ("benchmark", "size", "ranks", "hosts", "metric", "unit", "better")
OF_MEDIAN = ("", "_min", "_max", "_rounds", "_ratio_low", "_ratio_high")


BETTER = {True: "higher", False: "lower", None: ""}


@dataclass(frozen=True)
class Metric:
    """A value that a program reports about itself."""

    key: str
    title: str = field(compare=False)
    unit: str
    higher_is_better: bool  # None: neither direction is better


@dataclass(frozen=True)
class Key:
    """The identity of a measured value."""

    benchmark: str
    size: object  # bytes of a message, or the name of a problem's size
    ranks: int
    hosts: int  # 0 where a hostfile decides
    metric: Metric

    def cells(self):
        """Return the key as cells of a CSV file."""
        metric = self.metric
        start = [self.benchmark, self.size, self.ranks, self.hosts]
        return [*start, metric.key, metric.unit, BETTER[metric.higher_is_better]]

    @staticmethod
    def of(line):
        """Read the key from a line of a CSV file."""
        size = int(line["size"]) if line["size"].isdigit() else line["size"]
        better = {text: sense for sense, text in BETTER.items()}[line["better"]]
        metric = Metric(line["metric"], line["metric"], line["unit"], better)
        return Key(line["benchmark"], size, int(line["ranks"]), int(line["hosts"]), metric)


@dataclass
class Median:
    """The rounds of one transport."""

    rounds: int
    median: float
    low: float
    high: float
    interval: tuple = None  # (low, high) of its ratio to the base
    way: str = ""  # of the baseline: how it sent in most rounds

    @property
    def spread(self):
        """(max - min) / median, or None."""
        return (self.high - self.low) / self.median if self.median else None


def condense(values, transports):
    """Return {Key: {transport: Median}} of {Key: {transport: {round: value}}}, in that order."""
    base = base_of(transports)
    return {
        key: {
            name: Median(
                len(rounds),
                statistics.median(rounds.values()),
                min(rounds.values()),
                max(rounds.values()),
                interval(rounds, of_key.get(base, {})) if name != BASELINE else None,
            )
            for name, rounds in of_key.items()
            if rounds
        }
        for key, of_key in values.items()
    }


def write_csv(path, lines):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)


def write_samples(path, values):
    """Write every value; `values` are those of condense()."""
    most = max([number for of in values.values() for one in of.values() for number in one] or [0])
    numbers = range(1, most + 1)
    lines = [[*OF_KEY, "transport", *(f"round_{number}" for number in numbers)]]
    for key, of_key in values.items():
        for name, rounds in of_key.items():
            cells = [f"{rounds[number]:g}" if number in rounds else "" for number in numbers]
            lines.append([*key.cells(), name, *cells])
    write_csv(path, lines)


def write_medians(path, medians):
    """Write the medians that condense() returns."""
    names = list(dict.fromkeys(name for found in medians.values() for name in found))
    heads = [f"{name}{what}" for name in names for what in OF_MEDIAN]
    lines = [[*OF_KEY, *heads, "way"]]
    for key, found in medians.items():
        cells = []
        for one in (found.get(name) for name in names):
            if one is None:
                cells += [""] * len(OF_MEDIAN)
                continue
            cells += [f"{value:g}" for value in (one.median, one.low, one.high)] + [one.rounds]
            cells += [f"{end:.6g}" for end in one.interval] if one.interval else ["", ""]
        way = found[BASELINE].way if BASELINE in found else ""
        lines.append([*key.cells(), *cells, way])
    write_csv(path, lines)


def read_medians(path):
    medians = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            heads = reader.fieldnames or ()
            names = [head.removesuffix("_rounds") for head in heads if head.endswith("_rounds")]
            for line in reader:
                found = medians.setdefault(Key.of(line), {})
                for name in names:
                    cells = [line[f"{name}{what}"] for what in OF_MEDIAN]
                    if cells[0]:
                        median, low, high = map(float, cells[:3])
                        doubt = tuple(map(float, cells[4:])) if all(cells[4:]) else None
                        way = line["way"] if name == BASELINE else ""
                        found[name] = Median(int(cells[3]), median, low, high, doubt, way)
    except (OSError, KeyError, ValueError) as error:
        raise BenchError(f"cannot read {path}: {error!r}") from error
    return medians


def ratio(found, name, base):
    """Return the median of a transport divided by that of another, or None."""
    if name not in found or base not in found or not found[base].median:
        return None
    return found[name].median / found[base].median


@dataclass
class Row:
    """One line of a table."""

    labels: list  # texts: a message size; or a case, its metric and unit
    key: Key
    found: dict  # transport -> Median
    base: str

    @property
    def size(self):
        return self.key.size

    def median(self, name):
        return self.found[name].median if name in self.found else None

    def ratio(self, name):
        return ratio(self.found, name, self.base)

    def gain(self, name):
        """Return the factor by which a transport is better than the base: above 1 is better, for
        times and rates alike. None without a ratio, or if neither direction is better."""
        value = self.ratio(name)
        better = self.key.metric.higher_is_better
        if not value or better is None:
            return None
        return value if better else 1 / value

    def interval(self, name):
        return self.found[name].interval if name in self.found else None

    def differs(self, name):
        """Returns true if the ratio shows a difference."""
        return differs(self.interval(name))


@dataclass
class Table:
    """Rows of a common kind."""

    title: str
    heads: list  # of the rows' labels
    transports: list
    base: str
    rows: list = field(default_factory=list)
    over_sizes: bool = False  # whether the rows are message sizes, in ascending order

    def __post_init__(self):
        # Transports that failed in all runs would have empty columns.
        self.transports = [
            name for name in self.transports if any(name in row.found for row in self.rows)
        ]

    @property
    def unit(self):
        """The unit of all rows; empty if they differ."""
        units = {row.key.metric.unit for row in self.rows}
        return units.pop() if len(units) == 1 else ""

    @property
    def others(self):
        return [name for name in self.transports if name != self.base]

    @property
    def against_baseline(self):
        """The transport whose ratio to the baseline is shown: rawe, or the last one."""
        return "rawe" if "rawe" in self.transports else self.transports[-1]

    @property
    def has_baseline(self):
        """True if at least one row has a baseline."""
        return any(BASELINE in row.found for row in self.rows)

    @property
    def lower_is_better(self):
        """True if lower is better in all rows; None if they differ."""
        senses = {row.key.metric.higher_is_better for row in self.rows}
        return not senses.pop() if len(senses) == 1 and None not in senses else None

    def compared(self, name):
        """Return the rows that have a ratio, without 0 bytes unless they are the only ones."""
        rows = [row for row in self.rows if row.ratio(name)]
        return [row for row in rows if row.size != 0] or rows

    def mean_ratio(self, name):
        """Return the geometric mean of a transport's ratios over the sizes, or None without any."""
        rows = self.compared(name) if self.over_sizes else []
        return statistics.geometric_mean([row.ratio(name) for row in rows]) if rows else None


RESAMPLES = 1000
TAIL = 0.025  # of the resamples, on each side of a 95 % interval
# With n values the bootstrap of a median covers it with 1 - 2^(1 - n) at most: 94 % with 5.
ROUNDS_LEAST = 5
DOUBT = (
    "A ratio is followed by its 95 % interval: bootstrap over the rounds, or with fewer than "
    f"{ROUNDS_LEAST} rounds the widest that they allow. ~: no difference shown, because the "
    "interval contains 1."
)


def ratio_of_medians(values, base):
    """Return median(values) / median(base), or None if one has no values or the base is 0."""
    if not values or not base:
        return None
    below = median(base)
    return median(values) / below if below else None


@functools.lru_cache
def _resamples(count):
    """Return samples of `count` rounds out of `count` with their frequencies, always the same."""
    dice = random.Random(1)
    return Counter(
        tuple(sorted(dice.choices(range(count), k=count))) for _ in range(RESAMPLES)
    ).items()


def interval(values, base):
    """Return the interval (low, high) of the ratio of medians, or None with fewer than two rounds.

    Both arguments are {round: value}. It is the 95 % bootstrap interval over the rounds. A round is
    drawn with the values of both transports, so that a drifting machine does not widen it. With few
    rounds it is the widest that they allow.
    """
    if min(len(values), len(base)) < ROUNDS_LEAST:
        if min(len(values), len(base)) < 2 or min(base.values()) <= 0:
            return None
        ours, theirs = values.values(), base.values()
        return min(ours) / max(theirs), max(ours) / min(theirs)
    rounds = sorted({*values, *base})
    ratios = []
    for drawn, times in _resamples(len(rounds)):
        picked = [[one[rounds[at]] for at in drawn if rounds[at] in one] for one in (values, base)]
        ratio = ratio_of_medians(*picked)
        if ratio is not None:
            ratios += [ratio] * times
    if not ratios:
        return None
    ratios.sort()
    cut = int(len(ratios) * TAIL)
    return ratios[cut], ratios[-1 - cut]


def differs(doubt):
    """Returns true if an interval shows a difference, because it does not contain 1."""
    return doubt is not None and not doubt[0] <= 1 <= doubt[1]


def doubt_text(text, doubt):
    """Format a ratio with its interval, behind a tilde if that shows no difference."""
    mark = "" if differs(doubt) else "~"
    return mark + text + (f" ({doubt[0]:.2f}-{doubt[1]:.2f})" if doubt else "")
