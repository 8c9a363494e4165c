# SPDX-License-Identifier: BSD-3-Clause
"""Tests of driver.py: which applications run on how many ranks."""

import pytest

from appruns.driver import PROGRAMS, RANKS, AppDriver
from benchlib import BenchError, options
from benchlib.program import Case


def parse(*argv):
    return options.parse(AppDriver(), argv)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_cases__the_usual_ones_can_all_run(size):
    found = parse(*(["--quick"] if size == "quick" else []))
    assert not found.left_out and {case.program for case in found.cases} == set(PROGRAMS)
    assert {case.size for case in found.cases} == {size}
    assert len(found.cases) == sum(len(ranks) for ranks in RANKS[size].values())


def test_cases__what_cannot_run_is_left_out():
    found = parse("--quick", "--apps", "NetPIPE,hpcc", "--np", "1,2,8")
    assert [(case.program, case.ranks, case.hosts) for case in found.cases] == [
        ("netpipe", 2, 2),
        ("hpcc", 2, 2),
        ("hpcc", 8, 4),
    ]
    assert len(found.left_out) == 3
    with pytest.raises(BenchError, match="nothing to run"):
        parse("--apps", "netpipe", "--np", "3")


def test_cases__a_hostfile_decides_about_hosts(tmp_path):
    (tmp_path / "hosts").write_text("a\n", encoding="utf-8")
    found = parse("--hostfile", str(tmp_path / "hosts"), "--apps", "lammps", "--np", "8")
    assert found.cases == [Case("lammps", "full", 8, 0)]


def test_parse__an_unknown_application_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse("--apps", "doom")
    assert "doom is no application" in capsys.readouterr().err
