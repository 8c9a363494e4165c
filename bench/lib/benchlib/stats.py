# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of a comparison: medians, their ratio and its doubt, geometric means."""

import functools
import math
import random
from collections import Counter

RESAMPLES = 1000
TAIL = 0.025  # of the resamples, on each side of a 95 % interval
# With n values the bootstrap of a median covers it with 1 - 2^(1 - n) at most: 94 % with 5.
ROUNDS_LEAST = 5
DOUBT = (
    "Behind a ratio stands its 95 % interval: bootstrap over the rounds, or with fewer than "
    f"{ROUNDS_LEAST} rounds the widest that they allow. ~: no difference shown, as it contains 1."
)
NARROW = 0.05  # half width of an interval, as a share of the ratio, that --minutes works for


def median(values):
    """The middle value, or the mean of the two in the middle; ValueError without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values to take a median of")
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def ratio_of_medians(values, base):
    """median(values) / median(base); None where one of them has no values or the base is 0."""
    if not values or not base:
        return None
    below = median(base)
    return median(values) / below if below else None


def geometric_mean(ratios):
    """The geometric mean of positive ratios; None when there are none."""
    logs = [math.log(ratio) for ratio in ratios if ratio is not None and ratio > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def spread(values):
    """(max - min) / median: how far apart the rounds are; None when the median is 0."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else None


@functools.lru_cache
def _resamples(count):
    """Drawings of `count` out of as many, with how often each came up; always the same ones."""
    dice = random.Random(1)
    return Counter(
        tuple(sorted(dice.choices(range(count), k=count))) for _ in range(RESAMPLES)
    ).items()


def interval(values, base):
    """(low, high), the doubt of the ratio of medians; None with fewer than two rounds.

    Both are {round: value}. The 95 % bootstrap interval over the rounds: a round is drawn with what
    both transports gave in it, so that a machine that drifts does not count as doubt. With few
    rounds, widest().
    """
    if min(len(values), len(base)) < ROUNDS_LEAST:
        ranges = [(min(one.values()), max(one.values())) for one in (values, base) if len(one) > 1]
        return widest(*ranges) if len(ranges) == 2 else None
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


def widest(ours, base):
    """The interval that two ranges (low, high) of rounds allow; None where the base has a 0."""
    return (ours[0] / base[1], ours[1] / base[0]) if base[0] > 0 else None


def kept_interval(line, base, prefix=""):
    """The interval in two lines of a CSV file, as {column: text}; of a file that has none, made
    before there were intervals, widest()."""
    if f"{prefix}ratio_low" in line:
        ends = line[f"{prefix}ratio_low"], line[f"{prefix}ratio_high"]
        return tuple(map(float, ends)) if all(ends) else None
    if min(int(line["rounds"]), int(base["rounds"])) < 2:
        return None
    return widest(*((float(one["min"]), float(one["max"])) for one in (line, base)))


def differs(doubt):
    """Whether an interval shows a difference: it does not contain 1. A single round shows none."""
    return doubt is not None and not doubt[0] <= 1 <= doubt[1]


def is_narrow(doubt, ratio):
    """Whether an interval is within NARROW of its ratio."""
    return doubt is not None and (doubt[1] - doubt[0]) / 2 <= NARROW * ratio


def end_texts(doubt):
    """The ends of an interval as cells of a CSV file."""
    return [f"{end:.6g}" for end in doubt] if doubt else ["", ""]


def doubt_text(text, doubt):
    """A ratio with its interval: a tilde before it where that shows no difference."""
    mark = "" if differs(doubt) else "~"
    return mark + text + (f" ({doubt[0]:.2f}-{doubt[1]:.2f})" if doubt else "")
