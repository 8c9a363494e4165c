# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the driver of bench/programs."""

import functools

import pytest
from fakes import plan_of

from benchlib import BenchError, Rejected
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


def test_plan__an_exchange_has_a_baseline_in_each_round():
    _, _, runs = plan("--suite", "exchange", "put", "--rounds", "2", "--compute", "100")
    bare = [run for run in runs if run.transport == "baseline"]
    exchanges = [run for run in runs if run.case.program == "exchange" and run not in bare]
    assert {(run.case, run.round) for run in bare} == {(run.case, run.round) for run in exchanges}
    assert len(bare) == len(exchanges) / 2
    words = bare[0].commands[0]
    assert words[words.index("--compute") + 1] == "100"
    assert words[words.index("--sizes") + 1] == bare[0].case.size
    _, _, runs = plan("--suite", "exchange", "--compute", "0")
    assert all(run.transport != "baseline" for run in runs)


def test_read__the_fastest_way_is_the_baseline():
    _, driver, runs = plan("--suite", "exchange")
    (run,) = [one for one in runs[:2] if one.transport == "baseline"]
    text = "baseline exchange way={} bytes=64 iterations=5 min_us=1 median_us={} mean_us=9.5 "
    text += "p90_us=12 lost=0 wrong={}\n"
    output = text.format("frames", 8.5, 0) + text.format("tcp-gso", 7.5, 0)
    found = driver.read(run, Outcome(0, output, "", 1.0), [])
    assert found.metrics == {"median": 7.5, "mean": 9.5, "p90": 12.0}
    with pytest.raises(Rejected, match="2 bytes"):
        driver.read(run, Outcome(0, output + text.format("tcp-ring", 9, 2), "", 1.0), [])
    with pytest.raises(BenchError, match="no time"):
        driver.read(run, Outcome(0, "baseline link mtu=1500\n", "", 1.0), [])
