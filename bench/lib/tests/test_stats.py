# SPDX-License-Identifier: BSD-3-Clause
"""Tests of stats.py, functions in its order."""

import pytest

from benchlib import stats


def test_median__odd_count_takes_the_middle():
    assert stats.median([9.0, 1.0, 5.0]) == 5.0


def test_median__even_count_takes_the_mean_of_the_middle_two():
    assert stats.median([4.0, 1.0, 2.0, 100.0]) == 3.0


def test_median__one_value():
    assert stats.median([7.5]) == 7.5


def test_median__nothing_is_refused():
    with pytest.raises(ValueError):
        stats.median([])


def test_ratio_of_medians__is_not_the_median_of_ratios():
    # Ratios pair by pair are 0.1, 1 and 10; an outlier in one list must not pair with the other.
    assert stats.ratio_of_medians([1, 2, 30], [10, 2, 3]) == pytest.approx(2 / 3)


def test_ratio_of_medians__lists_may_differ_in_length():
    assert stats.ratio_of_medians([2, 4], [6]) == 0.5


@pytest.mark.parametrize("values, base", [([], [1]), ([1], []), ([1], [0])])
def test_ratio_of_medians__none_without_a_base(values, base):
    assert stats.ratio_of_medians(values, base) is None


def test_geometric_mean__of_half_and_double_is_one():
    assert stats.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_geometric_mean__leaves_out_what_has_no_ratio():
    assert stats.geometric_mean([None, 4.0, 0.0, 9.0]) == pytest.approx(6.0)


def test_geometric_mean__none_without_ratios():
    assert stats.geometric_mean([None]) is None
    assert stats.geometric_mean([]) is None


def test_spread__range_over_median():
    assert stats.spread([8.0, 10.0, 13.0]) == 0.5


def test_spread__none_when_the_median_is_zero():
    assert stats.spread([0.0, 0.0, 1.0]) is None
