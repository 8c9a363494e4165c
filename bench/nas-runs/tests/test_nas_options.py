# SPDX-License-Identifier: BSD-3-Clause
"""Tests of nasruns.options: what the command line means."""

import pytest

from nasruns import options, plan
from nasruns.error import NasError


def setup_of(*argv):
    return options.setup(options.parse(argv), "2026-01-01 00:00")


def test_cases__default_are_the_papers_runs():
    cases, left_out = options.cases(options.parse([]))
    assert cases == list(plan.DEFAULT)
    assert not left_out


def test_cases__quick():
    parsed = options.parse(["--quick", "--bench", "SP"])
    assert options.cases(parsed)[0] == [case for case in plan.QUICK if case.benchmark == "SP"]
    assert parsed.rounds == 2


def test_cases__classes_and_ranks_combine_in_any_spelling():
    parsed = options.parse(["--class", "s,W", "--np", "1,4", "--bench", "lu"])
    cases, left_out = options.cases(parsed)
    assert [(one.problem, one.ranks) for one in cases] == [("S", 1), ("S", 4), ("W", 1), ("W", 4)]
    assert not left_out


def test_cases__a_hostfile_takes_the_place_of_virtual_hosts(tmp_path):
    hostfile = tmp_path / "hosts"
    hostfile.write_text("one\ntwo\n")
    cases, _ = options.cases(options.parse(["--hostfile", str(hostfile)]))
    assert {one.hosts for one in cases} == {0}
    assert len(cases) == len(plan.DEFAULT)


def test_cases__nothing_that_can_run():
    with pytest.raises(NasError, match="square"):
        options.cases(options.parse(["--bench", "sp", "--np", "2"]))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--bench", "bt"], "no benchmark"),
        (["--class", "Q"], "no class"),
        (["--np", "0"], "whole number"),
        (["--np", "2;4"], "whole number"),
        (["--rounds", "-1"], "whole number"),
        (["--timeout", "0"], "seconds above 0"),
        (["--peers", "udp"], "no transport"),
        (["--peers", "tcp,rawe,vader"], "use --hosts 1"),
        (["--interface", "eth0"], "go with --hostfile"),
        (["--hostfile", "/nonexistent/hosts"], "no such file"),
    ],
)
def test_parse__refuses(capsys, argv, message):
    with pytest.raises(SystemExit) as stop:
        options.parse(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_parse__a_shape_of_virtual_hosts_is_refused_with_real_ones(tmp_path, capsys):
    hostfile = tmp_path / "hosts"
    hostfile.write_text("one\n")
    with pytest.raises(SystemExit):
        options.parse(["--hostfile", str(hostfile), "--mtu", "9000"])
    assert "--mtu" in capsys.readouterr().err


def test_setup__holds_what_resume_needs(monkeypatch):
    monkeypatch.delenv("NPB_BIN", raising=False)
    setup = setup_of("--quick", "--mtu", "9000", "--offload", "off", "--peers", "TCP,rawe")
    assert setup["cases"][0] == ["LU", "S", 2, 2]
    assert setup["shape"]["mtu"] == 9000
    assert setup["shape"]["offload"] is False
    assert (setup["peers"], setup["rounds"], setup["programs"]) == (["tcp", "rawe"], 2, "own")
    monkeypatch.setenv("NPB_BIN", "/somewhere")
    assert setup_of()["programs"] == "NPB"
