# SPDX-License-Identifier: BSD-3-Clause
"""The doubt of a ratio of medians: its interval over the rounds."""

import functools
import random
from collections import Counter
from statistics import median

RESAMPLES = 1000
TAIL = 0.025  # of the resamples, on each side of a 95 % interval
# With n values the bootstrap of a median covers it with 1 - 2^(1 - n) at most: 94 % with 5.
ROUNDS_LEAST = 5
DOUBT = (
    "Behind a ratio stands its 95 % interval: bootstrap over the rounds, or with fewer than "
    f"{ROUNDS_LEAST} rounds the widest that they allow. ~: no difference shown, as it contains 1."
)


def ratio_of_medians(values, base):
    """median(values) / median(base); None where one of them has no values or the base is 0."""
    if not values or not base:
        return None
    below = median(base)
    return median(values) / below if below else None


@functools.lru_cache
def _resamples(count):
    """Samples of `count` rounds out of `count`, each with its frequency; always the same ones."""
    dice = random.Random(1)
    return Counter(
        tuple(sorted(dice.choices(range(count), k=count))) for _ in range(RESAMPLES)
    ).items()


def interval(values, base):
    """(low, high), the doubt of the ratio of medians; None with fewer than two rounds.

    Both are {round: value}. The 95 % bootstrap interval over the rounds: a round is drawn with what
    both transports gave in it, so that a machine that drifts does not count as doubt. With few
    rounds, the widest that they allow.
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
    """Whether an interval shows a difference: it does not contain 1. A single round shows none."""
    return doubt is not None and not doubt[0] <= 1 <= doubt[1]


def doubt_text(text, doubt):
    """A ratio with its interval: a tilde before it where that shows no difference."""
    mark = "" if differs(doubt) else "~"
    return mark + text + (f" ({doubt[0]:.2f}-{doubt[1]:.2f})" if doubt else "")
