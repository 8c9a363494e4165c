# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the driver of bench/programs."""

import functools

import pytest
from fakes import plan_of

from benchlib import BenchError
from benchlib.places import Outcome

plan = functools.partial(plan_of, "programs")


def test_plan__the_computation_reaches_the_program():
    _, _, runs = plan("--suite", "exchange", "--compute", "100", "--touch", "0", "--time", "0.5")
    assert ("program", "exchange", "100", "0", "0.5", "64") in [
        run.commands[0][-6:] for run in runs
    ]


def test_plan__one_host_for_each_rank():
    found, _, _ = plan("--suite", "allreduce")
    assert [(case.ranks, case.hosts) for case in found.cases] == [(2, 2), (4, 4)]


def test_parse__what_cannot_run_is_refused(capsys):
    with pytest.raises(SystemExit):
        plan("--compute", "-1")
    assert "cannot be negative" in capsys.readouterr().err
    assert plan("--np", "3")[0].left_out


def test_read__the_line_of_the_size():
    _, driver, runs = plan("--suite", "put")
    output = "#  bytes     rounds  median_us\n     64        940      15.20      16.70      20.10\n"
    found = driver.read(runs[0], Outcome(0, output, "", 1.0), [])
    assert found.metrics == {"median": 15.2, "mean": 16.7, "p90": 20.1}
    with pytest.raises(BenchError, match="no time"):
        driver.read(runs[0], Outcome(0, output.replace("  64 ", " 128 "), "", 1.0), [])
