# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of a comparison: medians, their ratio, geometric means."""

import math


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
