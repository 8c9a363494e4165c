# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the options of imb-runs, of its suites, and of which programs run in which order."""

import pytest

from benchlib import BenchError
from benchlib import options as command_line
from benchlib.places import Outcome
from benchlib.session import Rejected
from benchlib.transports import COMPONENT
from imbruns import benchmarks
from imbruns.driver import IMB_SECONDS, ImbDriver

PROGRAMS = {"own": "/b/rawe-imb", "imb": "/b/rawe-imb", "pingpong": "/b/pp", "stream": "/b/st"}
PINGPONG = """# Benchmarking PingPong
# #processes = 2
       #bytes #repetitions      t[usec]   Mbytes/sec defects
            1         1000         4.00         0.24       {}
"""


def parse(*argv):
    return command_line.parse(ImbDriver(), argv)


def plan(*argv, interface=None, **programs):
    """The Runs of a command line, in one round and without baseline unless asked for."""
    driver = ImbDriver()
    driver.programs = {**PROGRAMS, **programs}
    return driver.plan(command_line.parse(driver, ["--rounds", "1", *argv]), interface)


def words_of(run):
    (words,) = run.commands
    return list(words)


def test_parse__defaults():
    found = parse()
    assert found.groups == [(2, 2)] and found.timeout == 180.0
    assert found.baseline and (found.time, found.iterations) == (0.02, 1000)


def test_parse__hosts_give_the_ranks():
    assert parse("--hosts", "4").groups == [(4, 4)]
    assert parse("--hosts", "16", "--suite", "collectives").groups == [(16, 16)]
    assert parse("--suite", "collectives").groups == [(4, 4)]
    assert parse("--hosts", "4", "--np", "8").groups == [(8, 4)]
    assert parse("--transports", "vader", "--hosts", "1", "--np", "2").groups == [(2, 1)]


def test_parse__several_numbers_of_ranks_on_up_to_four_hosts():
    groups = parse("--np", "2,4,8").groups
    assert groups == [(2, 2), (4, 4), (8, 4)]
    assert parse("--suite", "all").groups == groups


def test_parse__hostfile_counts_its_lines(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("a slots=1\n# b\n\nc\nd\n", encoding="utf-8")
    assert parse("--hostfile", str(file)).groups == [(3, 0)]
    assert parse("--hostfile", str(file), "--suite", "all").groups == [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--benchmarks", "pong"], "no benchmark is called 'pong'"),
        (["--msglog", "9:3"], "is not LOW:HIGH"),
        (["--np", "1"], "no partner"),
        (["--receive-buffers", "1"], "not a number from 2 to 4096"),
        (["--np", "2", "--hosts", "4"], "idle"),
    ],
)
def test_parse__refuses_with_a_reason(argv, complaint, capsys):
    with pytest.raises(SystemExit):
        parse(*argv)
    assert complaint in capsys.readouterr().err


def test_plan__collectives_run_without_multicast_too():
    runs = plan("--suite", "collectives")
    assert [run.transport for run in runs] == ["tcp", "unicast", "rawe"]
    assert ["^rawe" in words_of(run) for run in runs] == [False, True, False]
    one = plan("--suite", "collectives", "--transports", "rawe")
    assert [run.transport for run in one] == ["rawe"]
    assert parse("--benchmarks", "Bcast").transports == ["tcp", "rawe"]


def test_plan__both_builds_take_turns_and_run_the_same_program(tmp_path):
    component = tmp_path / COMPONENT
    component.parent.mkdir(parents=True)
    component.touch()
    argv = ["--suite", "change", "--against", str(tmp_path), "--rounds", "2", "--no-baseline"]
    runs = plan(*argv)
    assert [run.transport for run in runs] == ["old", "rawe"] * 5 + ["rawe", "old"] * 5
    for run in runs:
        words = words_of(run)
        assert "/b/rawe-imb" in words
        assert any(str(tmp_path) in word for word in words) == (run.transport == "old")


def test_plan__real_imb_does_not_get_benchmarks_that_only_rawe_imb_has():
    by_program = {"/i/IMB-MPI1": [], "/b/rawe-imb": []}
    for run in plan("--transports", "tcp", "--no-baseline", imb="/i/IMB-MPI1"):
        words = words_of(run)
        program = next(word for word in words if word in by_program)
        by_program[program] += [word for word in words if word in benchmarks.BENCHMARKS]
    assert by_program["/b/rawe-imb"] == ["Isend"]
    assert "PingPong" in by_program["/i/IMB-MPI1"] and "Isend" not in by_program["/i/IMB-MPI1"]


def test_plan__real_imb_has_the_time_for_all_sizes_and_no_check():
    given, checks = {}, {}
    for run in plan("--no-baseline", "--time", "0.1", "--check", imb="/i/IMB-MPI1"):
        words = words_of(run)
        real = "/i/IMB-MPI1" in words
        given.setdefault(real, set()).add(float(words[words.index("-time") + 1]))
        checks.setdefault(real, set()).add("-check" in words)
    assert given == {True: {IMB_SECONDS}, False: {0.1}}
    assert checks == {True: {False}, False: {True}}


def test_plan__receive_buffers_add_the_cold_streams():
    argv = ["--suite", "bandwidth", "--transports", "tcp", "--no-baseline", "--rounds", "1"]
    streams, latency = (words_of(run) for run in plan(*argv, "--receive-buffers", "32"))
    assert streams[-4:] == ["Uniband", "UnibandCold", "Biband", "BibandCold"]
    assert streams[streams.index("-receive_buffers") + 1] == "32"
    assert "-receive_buffers" not in latency
    streams, latency = (words_of(run) for run in plan(*argv))
    assert streams[-2:] == ["Uniband", "Biband"] and "-receive_buffers" not in streams


def test_plan__interface_reaches_every_program():
    runs = plan("--benchmarks", "PingPong", interface="eth7")
    assert [run.transport for run in runs] == ["baseline", "baseline", "tcp", "rawe"]
    assert all("eth7" in words_of(run) for run in runs)


def test_plan__a_starter_stands_in_front_of_every_program(tmp_path):
    (tmp_path / "hosts").write_text("a\nb\n", encoding="utf-8")
    argv = ["--hostfile", str(tmp_path / "hosts"), "--starter", "setpriv --x"]
    for run in plan("--benchmarks", "PingPong", *argv):
        words = words_of(run)
        at = words.index("setpriv")
        assert words[at + 1] == "--x" and words[at + 2] in PROGRAMS.values()


def test_plan__what_takes_two_ranks_is_measured_in_the_first_group_only():
    runs = plan("--np", "2,4", "--benchmarks", "PingPong,Bcast")
    found = [(run.case.ranks, run.transport, words_of(run)[-1]) for run in runs]
    assert [one for one in found if one[1] != "baseline"] == [
        (2, "tcp", "PingPong"),
        (2, "rawe", "PingPong"),
        (2, "tcp", "Bcast"),
        (2, "rawe", "Bcast"),
        (4, "tcp", "Bcast"),
        (4, "rawe", "Bcast"),
    ]
    assert {run.case.hosts for run in runs if run.transport == "baseline"} == {2}
    four = next(run for run in runs if run.case.ranks == 4)
    assert words_of(four)[:2] == ["-np", "4"] and "-npmin 4" in " ".join(words_of(four))


def test_read__values_wrong_contents_and_nothing():
    run = plan("--benchmarks", "PingPong", "--no-baseline")[0]

    def read(text):
        return ImbDriver().read(run, Outcome(0, text, "", 0.1), [])

    (time, rate) = read(PINGPONG.format(0))
    assert (time.metric, time.value, rate.metric) == ("time_us", 4.0, "mbytes_per_s")
    with pytest.raises(Rejected, match="7 bytes arrived wrong"):
        read(PINGPONG.format(7))
    with pytest.raises(BenchError, match="holds no values"):
        read("mpirun: no")


@pytest.mark.parametrize("suite", benchmarks.SUITES)
def test_parts__every_suite_names_known_benchmarks(suite):
    for part in benchmarks.parts_of(suite):
        assert set(part.benchmarks) <= set(benchmarks.BENCHMARKS)
        assert 0 <= part.low <= part.high <= 30
