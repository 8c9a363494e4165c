# SPDX-License-Identifier: BSD-3-Clause
"""Tests of driver.py: what the command line means, and which combinations are run."""

import pytest

from benchlib import BenchError, options
from nasruns.driver import DEFAULT, QUICK, NasDriver
from nasruns.programs import Lu, Sp


def parse(*argv):
    return options.parse(NasDriver(), argv)


def keys(found):
    return [(case.program, case.size, case.ranks) for case in found.cases]


def test_cases__the_usual_ones_can_all_run():
    for argv, expected in (([], DEFAULT), (["--quick"], QUICK)):
        found = parse(*argv)
        assert keys(found) == list(expected) and not found.left_out
        assert all(case.hosts == case.ranks for case in found.cases)


def test_cases__quick_of_one_benchmark():
    found = parse("--quick", "--bench", "SP")
    assert keys(found) == [one for one in QUICK if one[0] == "SP"]
    assert found.cases[0].label == "SP class S, 4 ranks on 4 hosts"


def test_cases__classes_and_ranks_combine_in_any_spelling():
    found = parse("--class", "s,W", "--np", "1,4", "--bench", "lu")
    assert keys(found) == [("LU", "S", 1), ("LU", "S", 4), ("LU", "W", 1), ("LU", "W", 4)]


def test_cases__one_rank_a_host_up_to_four_unless_told_otherwise():
    found = parse("--bench", "lu", "--class", "S", "--np", "2,8")
    assert [(case.ranks, case.hosts) for case in found.cases] == [(2, 2), (8, 4)]
    found = parse("--hosts", "4")
    assert [(case.program, case.hosts) for case in found.cases] == [("LU", 4), ("SP", 4)]
    assert "4 hosts are more than 2 ranks" in found.left_out[0]


def test_cases__a_hostfile_takes_the_place_of_virtual_hosts(tmp_path):
    (tmp_path / "hosts").write_text("one\ntwo\n", encoding="utf-8")
    found = parse("--hostfile", str(tmp_path / "hosts"))
    assert {case.hosts for case in found.cases} == {0} and len(found.cases) == len(DEFAULT)


def test_cases__nothing_that_can_run():
    with pytest.raises(BenchError, match="square"):
        parse("--bench", "sp", "--np", "2")


@pytest.mark.parametrize(
    ("argv", "message"), [(["--bench", "bt"], "no benchmark"), (["--class", "Q"], "no class")]
)
def test_parse__refuses(capsys, argv, message):
    with pytest.raises(SystemExit):
        parse(*argv)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "size", "good", "bad"),
    [(Lu(), "S", (1, 2, 4, 8, 16), (0, -1, 3, 6, 9)), (Sp(), "S", (1, 4, 9, 16), (0, -4, 2, 3, 8))],
)
def test_why_not__numbers_of_ranks(program, size, good, bad):
    assert [program.why_not(size, ranks) for ranks in good] == [None] * len(good)
    assert all(program.why_not(size, ranks) for ranks in bad)


def test_why_not__too_few_points_for_the_ranks():
    assert "too small" in Sp().why_not("S", 25)
    assert "too small" in Lu().why_not("S", 32)
    assert Lu().why_not("W", 32) is None
