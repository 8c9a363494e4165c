# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the driver of bench/rates."""

import functools

import pytest
from fakes import plan_of

from benchlib import BenchError
from benchlib.places import Outcome

plan = functools.partial(plan_of, "rates")


def test_parse__batches_are_cut_unless_told_otherwise():
    found, _, _ = plan()
    assert found.shape["nic"] == "cut" and not found.left_out and len(found.cases) == 26
    assert plan("--nic", "whole")[0].shape["nic"] == "whole"


def test_parse__other_numbers_of_ranks_are_refused(capsys):
    assert len(plan("--np", "2", "--suite", "windows", "threads")[0].cases) == 11
    with pytest.raises(SystemExit):
        plan("--np", "4")
    assert "2 ranks" in capsys.readouterr().err


def test_plan__numbers_of_threads_reach_the_program():
    _, _, runs = plan("--suite", "threads", "--time", "0.5")
    ends = [run.commands[0][-4:] for run in runs if run.transport == "rawe"]
    assert ends == [("program", "threads", number, "0.5") for number in "1248"]


@pytest.mark.parametrize("release, messages", [((4, 1), True), ((5, 0), False)])
def test_plan__open_mpi_4_makes_messages_of_operations(monkeypatch, release, messages):
    monkeypatch.setattr("rates_driver.launch.open_mpi", lambda: release)
    _, _, runs = plan("--suite", "windows", "--quick")
    assert {run.transport for run in runs if "osc" in run.commands[0]} == (
        {"tcp", "rawe"} if messages else set()
    )
    assert {run.commands[0][-4:] for run in runs} >= {("program", "put", "65536", "0.2")}


@pytest.mark.parametrize(
    "suite, output, values, missing",
    [
        ("windows", "operations a second: 4711\n", {"rate": 4711.0}, "no rate"),
        (
            "messages",
            "waiting: 55.5 us, at most 70.0\ncomputing: -1.2 us, at most 90.0\n",
            {"waiting": 55.5, "computing": -1.2},
            "no time",
        ),
    ],
)
def test_read__what_a_program_prints_or_that_it_is_not_there(suite, output, values, missing):
    _, driver, runs = plan("--suite", suite)
    assert driver.read(runs[0], Outcome(0, output, "", 1.0), []).metrics == values
    with pytest.raises(BenchError, match=missing):
        driver.read(runs[0], Outcome(0, "mpirun: no route\n", "", 1.0), [])
