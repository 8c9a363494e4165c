# SPDX-License-Identifier: BSD-3-Clause
"""Tests of summary.py, functions in its order."""

import random

import pytest

from benchlib import summary


def test_ratio_of_medians__is_not_the_median_of_ratios():
    # Ratios pair by pair are 0.1, 1 and 10; an outlier in one list must not pair with the other.
    assert summary.ratio_of_medians([1, 2, 30], [10, 2, 3]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("values, base", [([], [1]), ([1], []), ([1], [0])])
def test_ratio_of_medians__none_without_a_base(values, base):
    assert summary.ratio_of_medians(values, base) is None


def rounds(*values):
    return dict(enumerate(values, 1))


def test_interval__of_equal_rounds_is_the_ratio():
    assert summary.interval(rounds(*[2.0] * 5), rounds(*[4.0] * 5)) == (0.5, 0.5)


def test_interval__holds_the_ratio_and_lies_within_what_the_rounds_allow():
    ours, base = rounds(9.0, 10.0, 11.0, 10.5, 9.5, 10.0, 30.0), rounds(*range(18, 25))
    low, high = summary.interval(ours, base)
    assert 9 / 24 < low < summary.ratio_of_medians(ours.values(), base.values()) < high < 30 / 18
    assert summary.interval(ours, base) == (low, high), "the same data, another interval"


def test_interval__covers_the_true_ratio_about_as_often_as_it_says():
    dice = random.Random(7)
    hits, of = 0, 200
    for _ in range(of):
        ours, base = (rounds(*(dice.gauss(10, 1) for _ in range(9))) for _ in range(2))
        low, high = summary.interval(ours, base)
        hits += low <= 1 <= high
    assert 0.9 <= hits / of <= 1


def test_interval__rounds_are_drawn_together_so_that_drift_is_no_doubt():
    base = rounds(1.0, 2.0, 4.0, 8.0, 16.0)
    ours = {number: value / 2 for number, value in base.items()}
    assert summary.interval(ours, base) == (0.5, 0.5)


def test_interval__a_round_that_failed_over_one_transport_counts_for_the_other():
    base = rounds(*[4.0] * 6)
    low, high = summary.interval({1: 2.0, 2: 2.0, 4: 2.0, 5: 2.0, 6: 3.0}, base)
    assert (low, high) == (0.5, 0.75)


def test_interval__of_few_rounds_is_the_widest():
    assert summary.interval(rounds(1.0, 2.0), rounds(4.0, 8.0, 5.0)) == (1 / 8, 2 / 4)


@pytest.mark.parametrize("ours, base", [([1], [1, 2]), ([1, 2], []), ([1, 2], [0, 1])])
def test_interval__none_with_one_round_or_a_base_of_zero(ours, base):
    assert summary.interval(rounds(*ours), rounds(*base)) is None


def test_interval__none_when_every_base_is_zero():
    assert summary.interval(rounds(*[1.0] * 5), rounds(*[0.0] * 5)) is None


def test_differs__only_what_does_not_contain_1():
    assert summary.differs((0.8, 0.99)) and summary.differs((1.01, 1.2))
    assert not summary.differs((0.8, 1.0)) and not summary.differs((0.9, 1.1))
    assert not summary.differs(None)


def test_doubt_text__a_tilde_where_there_is_no_difference():
    assert summary.doubt_text("0.50", (0.45, 0.56)) == "0.50 (0.45-0.56)"
    assert summary.doubt_text("0.98", (0.9, 1.1)) == "~0.98 (0.90-1.10)"
    assert summary.doubt_text("0.50", None) == "~0.50"
