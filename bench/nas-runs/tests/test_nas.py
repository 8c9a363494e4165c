# SPDX-License-Identifier: BSD-3-Clause
"""Tests of LU and SP: which combinations run, how the driver finds the programs and reads their
output, and of the programs themselves, on this machine alone."""

import re
import shutil

import pytest
from fakes import needs_mpi, run_local

from benchlib import BenchError, cli
from benchlib.driver import Case
from nasruns import driver
from nasruns.driver import DEFAULT, QUICK, Lu, NasDriver, Sp


def parse(*argv):
    return cli.parse(NasDriver(), argv)


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


NPB = """

 LU Benchmark Completed.
 Class           =                        A
 Size            =             64x  64x  64
 Iterations      =                      250
 Time in seconds =                    13.80
 Total processes =                        4
 Compiled procs  =                        4
 Mop/s total     =                  8644.57
 Mop/s/process   =                  2161.14
 Operation type  =           floating point
 Verification    =               SUCCESSFUL
 Version         =                    3.3.1
 Compile date    =              01 Jan 2024

 Compile options:
    MPIF77       = mpif77
    FFLAGS       = -O3
"""
OWN = (
    NPB
    + """ MPI share (%)   =                    54.03
 Messages sent   =                    19200
 Bytes sent      =                603955200
"""
)
BOTH = {"LU": driver.Lu(), "SP": driver.Sp()}


def read(output, name="LU", size="A", ranks=4):
    """The Result in an output."""
    return BOTH[name].read(output, {}, Case(name, size, ranks, ranks))


def test_read__npb_output():
    result = read(NPB)
    assert result.metrics == {"seconds": 13.80, "mops": 8644.57}
    assert result.failed_checks == ""


def test_read__share_and_messages():
    metrics = read(OWN).metrics
    assert (metrics["mpi_percent"], metrics["messages"]) == (54.03, 19200)
    assert metrics["bytes_sent"] == 603955200


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("  SUCCESSFUL", "UNSUCCESSFUL", "verification: UNSUCCESSFUL"),
        ("  SUCCESSFUL", "NOT PERFORMED", "verification: NOT PERFORMED"),
        ("LU Benchmark", "SP Benchmark", "benchmark: SP"),
        ("                 A\n", "                 W\n", "class: W"),
        ("Total processes =                        4", "Total processes = 1", "processes: 1"),
    ],
)
def test_read__a_check_that_fails_is_named(right, wrong, complaint):
    assert right in NPB
    assert complaint in read(NPB.replace(right, wrong)).failed_checks


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("mpirun: no route to host\n", "no route"),
        (NPB.replace("Mop/s total", "Mop/s all"), "Mop/s total"),
        (NPB.replace("Completed", "ended"), "Benchmark Completed"),
    ],
)
def test_read__half_a_result_is_no_result(output, complaint):
    with pytest.raises(BenchError, match=complaint):
        read(output)


@pytest.fixture(scope="module", name="build")
def _build(tmp_path_factory):
    return tmp_path_factory.mktemp("nas")


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "ranks"),
    [("LU", 1), ("LU", 2), ("LU", 4), ("LU", 8), ("SP", 1), ("SP", 4), ("SP", 9)],
)
def test_own__class_s_has_the_published_norms(build, benchmark, ranks):
    done = run_local(driver.build_own(benchmark, build), ["S"], ranks)
    assert read(done.stdout, benchmark, "S", ranks).failed_checks == "", done.stdout
    assert done.returncode == 0


# The messages of NPB 3.3's own programs within their timed part.
@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "ranks", "messages", "sent"),
    [("LU", 2, 1100, 1552000), ("LU", 4, 4400, 3104000), ("SP", 4, 4800, 14592000)],
)
def test_own__messages_are_as_many_and_as_large_as_npbs(build, benchmark, ranks, messages, sent):
    done = run_local(driver.build_own(benchmark, build), ["S"], ranks)
    metrics = read(done.stdout, benchmark, "S", ranks).metrics
    assert (metrics["messages"], metrics["bytes_sent"]) == (messages, sent)


@needs_mpi
def test_own__lower_case_class_and_other_iterations_are_not_verified(build):
    done = run_local(driver.build_own("LU", build), ["s", "3"], 1)
    assert read(done.stdout, "LU", "S", 1).failed_checks == "verification: NOT PERFORMED"
    assert re.search(r"Iterations += +3$", done.stdout, re.MULTILINE)
    assert done.returncode == 0


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "constant", "wrong"),
    [("LU", "LU_OMEGA 1.2", "LU_OMEGA 1.21"), ("SP", "NAS_C3 0.1", "NAS_C3 0.1000001")],
)
def test_own__a_wrong_constant_is_unsuccessful(tmp_path, monkeypatch, benchmark, constant, wrong):
    sources = tmp_path / "src"
    shutil.copytree(driver.SOURCES, sources)
    changed = 0
    for header in sources.glob("*.[ch]"):
        text = header.read_text()
        changed += text.count(constant)
        header.write_text(text.replace(constant, wrong))
    assert changed == 1
    monkeypatch.setattr(driver, "SOURCES", sources)
    done = run_local(driver.build_own(benchmark, tmp_path / "bin"), ["S"], 1)
    assert read(done.stdout, benchmark, "S", 1).failed_checks == "verification: UNSUCCESSFUL"
    assert "FAILURE" in done.stdout
    assert done.returncode == 1


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "arguments", "ranks", "message"),
    [
        ("LU", ["Q"], 1, "not Q"),
        ("LU", [], 1, "usage"),
        ("LU", ["S", "x"], 1, "must be a number"),
        ("LU", ["S", "0"], 1, "must be a number"),
        ("LU", ["S"], 3, "power of two"),
        ("SP", ["S"], 2, "square"),
    ],
)
def test_own__bad_input_is_reported_once(build, benchmark, arguments, ranks, message):
    done = run_local(driver.build_own(benchmark, build), arguments, ranks)
    assert done.returncode == 2
    assert done.stderr.count(message) == 1


@needs_mpi
def test_find__npb_bin_wins_over_the_own_program(tmp_path, monkeypatch):
    binary = tmp_path / "lu.S.x"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    case, lu = Case("LU", "S", 2, 2), BOTH["LU"]
    monkeypatch.setenv("NPB_BIN", str(tmp_path))
    found = lu.find(tmp_path / "bin", case)
    assert lu.commands(found, case) == [(str(binary),)]
    monkeypatch.delenv("NPB_BIN")
    found = lu.find(tmp_path / "bin", case)
    assert lu.commands(found, case)[0][1:] == ("S",)
