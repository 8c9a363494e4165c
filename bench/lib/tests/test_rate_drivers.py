# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rate_driver.py and of its drivers: overlap, thread-rate and window-rate."""

import drivers
import pytest

from benchlib import options
from benchlib.error import BenchError
from benchlib.places import Outcome


def plan(name, *argv):
    """Options, driver and Runs of a command line, with a program that is there."""
    driver = drivers.driver_of(name)
    found = options.parse(driver, ["--rounds", "1", *argv])
    driver.found = dict.fromkeys(found.cases, "program")
    return found, driver, driver.plan(found, None)


@pytest.mark.parametrize("name", ["overlap", "thread-rate", "window-rate"])
def test_parse__batches_are_cut_unless_told_otherwise(name):
    found, _, _ = plan(name)
    assert found.shape["nic"] == "cut" and not found.left_out
    assert plan(name, "--nic", "whole")[0].shape["nic"] == "whole"


def test_parse__other_numbers_of_ranks_are_refused(capsys):
    assert len(plan("window-rate", "--np", "2")[0].cases) == 7
    with pytest.raises(SystemExit):
        plan("window-rate", "--np", "4")
    assert "2 ranks" in capsys.readouterr().err


def test_plan__threads_and_bytes_reach_the_program():
    _, _, runs = plan("thread-rate", "--threads", "1,4", "--bytes", "64", "--time", "0.5")
    ends = [run.commands[0][-4:] for run in runs if run.transport == "rawe"]
    assert ends == [("program", "1", "64", "0.5"), ("program", "4", "64", "0.5")]


@pytest.mark.parametrize("release, messages", [((4, 1), True), ((5, 0), False)])
def test_plan__open_mpi_4_makes_messages_of_operations(monkeypatch, release, messages):
    monkeypatch.setattr("window_driver.launch.open_mpi", lambda: release)
    _, _, runs = plan("window-rate", "--quick")
    assert {run.transport for run in runs if "osc" in run.commands[0]} == (
        {"tcp", "rawe"} if messages else set()
    )
    assert {run.commands[0][-4:] for run in runs} >= {("program", "put", "65536", "0.2")}


def test_read__the_rate_or_why_there_is_none():
    _, driver, runs = plan("window-rate")
    done = driver.read(runs[0], Outcome(0, "operations a second: 4711\n", "", 1.0), [])
    assert done.metrics == {"rate": 4711.0}
    with pytest.raises(BenchError, match="no rate"):
        driver.read(runs[0], Outcome(0, "mpirun: no route\n", "", 1.0), [])


def test_read__the_times_with_and_without_computing_or_why_there_are_none():
    _, driver, runs = plan("overlap", "--time", "1")
    assert runs[0].commands[0][-4:] == ("program", "sender", "65536", "1.0")
    text = "waiting: 55.5 us, at most 70.0\ncomputing: -1.2 us, at most 90.0\n"
    done = driver.read(runs[0], Outcome(0, text, "", 1.0), [])
    assert done.metrics == {"waiting": 55.5, "computing": -1.2}
    with pytest.raises(BenchError, match="no time"):
        driver.read(runs[0], Outcome(0, "waiting: 55.5 us\n", "", 1.0), [])
