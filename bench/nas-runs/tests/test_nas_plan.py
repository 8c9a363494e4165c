# SPDX-License-Identifier: BSD-3-Clause
"""Tests of nasruns.plan: which combinations of benchmark, class and ranks are run."""

import pytest

from nasruns import plan
from nasruns.error import NasError


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_why_not__lu_runs_on_powers_of_two(ranks):
    assert plan.why_not("LU", "S", ranks) is None


@pytest.mark.parametrize("ranks", [0, -1, 3, 6, 9])
def test_why_not__lu_refuses_other_numbers(ranks):
    assert plan.why_not("LU", "S", ranks)


@pytest.mark.parametrize("ranks", [1, 4, 9, 16])
def test_why_not__sp_runs_on_squares(ranks):
    assert plan.why_not("SP", "S", ranks) is None


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_why_not__sp_refuses_other_numbers(ranks):
    assert "square" in plan.why_not("SP", "W", ranks)


def test_why_not__too_few_points_for_the_ranks():
    assert "too small" in plan.why_not("SP", "S", 25)
    assert "too small" in plan.why_not("LU", "S", 32)
    assert plan.why_not("LU", "W", 32) is None


def test_make__places_one_rank_a_host_up_to_four():
    cases, left_out = plan.make(["LU"], ["S"], [2, 8], None)
    assert [(case.ranks, case.hosts) for case in cases] == [(2, 2), (8, 4)]
    assert not left_out


def test_make__leaves_out_what_cannot_run_and_says_why():
    cases, left_out = plan.make(["LU", "SP"], ["W"], [2, 4], 4)
    assert [(case.benchmark, case.ranks) for case in cases] == [("LU", 4), ("SP", 4)]
    assert len(left_out) == 2
    assert "4 hosts are more than 2 ranks" in left_out[0]


def test_make__nothing_left_is_an_error():
    with pytest.raises(NasError, match="square"):
        plan.make(["SP"], ["S"], [3], None)


def test_make__a_hostfile_decides_about_hosts():
    cases, _ = plan.make(["LU"], ["S"], [2], None, virtual=False)
    assert cases[0].hosts == 0


def test_relocate__keeps_what_the_hosts_can_hold():
    cases, left_out = plan.relocate(plan.DEFAULT, 4)
    assert [(case.benchmark, case.ranks, case.hosts) for case in cases] == [
        ("LU", 4, 4),
        ("SP", 4, 4),
    ]
    assert len(left_out) == 1


def test_cases_of_the_fixed_plans_can_run():
    for case in (*plan.DEFAULT, *plan.QUICK):
        assert plan.why_not(case.benchmark, case.problem, case.ranks) is None
