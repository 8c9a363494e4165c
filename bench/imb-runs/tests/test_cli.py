# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the command line: defaults, contradictions, and the time left."""

import pytest

from imbruns import cli, options as command_line, session
from imbruns.progress import Progress, clock


def test_parse__defaults():
    options = command_line.parse([])
    assert (options.rounds, options.peers) == (5, ["tcp", "rawe"])
    assert options.groups == [session.Group(2, 2)]
    assert options.baseline and options.build.name == "build"


def test_parse__hosts_give_the_ranks():
    assert command_line.parse(["--hosts", "4"]).groups == [session.Group(4, 4)]
    assert command_line.parse(["--hosts", "4", "--np", "8"]).groups == [session.Group(8, 4)]


def test_parse__shared_memory_on_one_host():
    options = command_line.parse(["--peers", "tcp,vader,rawe", "--hosts", "1", "--np", "2"])
    assert options.groups == [session.Group(2, 1)]


def test_parse__several_numbers_of_ranks_on_up_to_four_hosts():
    groups = command_line.parse(["--np", "2,4,8"]).groups
    assert groups == [session.Group(2, 2), session.Group(4, 4), session.Group(8, 4)]
    assert command_line.parse(["--suite", "all"]).groups == groups


def test_parse__a_pair_has_two_hosts_however_many_ranks():
    groups = command_line.parse(["--np", "2,4", "--topology", "pair"]).groups
    assert groups == [session.Group(2, 2), session.Group(4, 2)]


def test_parse__hostfile_counts_its_lines(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("a slots=1\n# b\n\nc\nd\n", encoding="utf-8")
    assert command_line.parse(["--hostfile", str(file)]).groups == [session.Group(3)]
    everything = command_line.parse(["--hostfile", str(file), "--suite", "all"]).groups
    assert everything == [session.Group(2), session.Group(3)]


def test_parse__benchmarks_in_any_case():
    options = command_line.parse(["--benchmarks", "pingpong,ALLREDUCE"])
    assert [part.benchmarks for part in options.parts] == [("PingPong",), ("Allreduce",)]


@pytest.mark.parametrize(
    "argv, complaint",
    [
        (["--benchmarks", "pong"], "no benchmark is called 'pong'"),
        (["--peers", "tcp,quic"], "quic is no transport"),
        (["--msglog", "9:3"], "is not LOW:HIGH"),
        (["--rounds", "0"], "whole number from 1 on"),
        (["--hostfile", "/nonexistent"], "there is no such file"),
        (["--interface", "eth0"], "go with --hostfile"),
        (["--peers", "tcp,vader"], "use --hosts 1"),
        (["--np", "1"], "nobody to send to"),
        (["--np", "2", "--hosts", "4"], "idle"),
        (["--resume", "/r", "--mtu", "9000"], "with the options it was begun with"),
    ],
)
def test_parse__refuses_with_a_reason(argv, complaint, capsys):
    with pytest.raises(SystemExit):
        command_line.parse(argv)
    assert complaint in capsys.readouterr().err


def test_parse__real_hosts_have_no_shape(tmp_path, capsys):
    file = tmp_path / "hosts"
    file.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        command_line.parse(["--hostfile", str(file), "--mtu", "9000"])
    assert "--mtu shapes virtual hosts" in capsys.readouterr().err


@pytest.mark.parametrize("output", [["--output", "/r"], ["--output=/r"], []])
def test_without_output__the_command_can_be_repeated(output):
    argv = ["--quick", *output, "--mtu", "9000"]
    assert command_line.without_output(argv) == ["--quick", "--mtu", "9000"]


def test_clock__minutes_and_seconds():
    assert [clock(value) for value in (0, 59.6, 125)] == ["0:00", "1:00", "2:05"]


def test_progress__time_left_follows_what_alike_runs_took():
    runs = [session.Run(number, peer, "latency", ()) for number in (1, 2) for peer in ("a", "b")]
    now = [0.0]
    progress = Progress(runs, 2, stream=_Sink(), now=lambda: now[0])
    progress.begin(0)
    progress.end(0, 3.0, None)
    assert progress.left() == pytest.approx(9.0)
    progress.begin(1)
    now[0] = 2.0
    assert progress.left() == pytest.approx(7.0)
    progress.end(1, 5.0, None)
    progress.skip(2)
    assert progress.left() == pytest.approx(5.0)


def test_progress__what_an_earlier_program_measured_counts_as_known():
    runs = [session.Run(number, "tcp", "latency", ()) for number in (1, 2, 3)]
    progress = Progress(runs, 3, stream=_Sink(), now=lambda: 0.0)
    progress.known(0, 7.0)
    assert progress.left() == pytest.approx(14.0)


def test_main__resume_of_what_is_no_comparison_says_so(tmp_path, capsys):
    assert cli.main(["--resume", str(tmp_path)]) == 2
    assert "holds no comparison to go on with" in capsys.readouterr().err


class _Sink:
    def isatty(self):
        return False

    def write(self, text):
        return len(text)

    def flush(self):
        pass
