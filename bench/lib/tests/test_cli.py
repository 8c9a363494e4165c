# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the drivers' common command line, of mpirun's arguments for each transport, and of the
display of progress."""

import io
from pathlib import Path

import pytest

from benchlib import cli, transports
from benchlib.driver import Case, Driver, Run
from benchlib.session import Done, Progress


class Toy(Driver):
    """A driver without its own options."""

    name = "toy-runs"

    def finish(self, parser, options):
        options.cases, options.left_out = [Case("toy", "", 2, 2)], []


def parse(*argv):
    return cli.parse(Toy(), argv)


def test_parse__defaults():
    found = parse()
    assert (found.rounds, found.transports, found.timeout) == (5, ["tcp", "rawe"], 900.0)
    assert found.build.name == "build" and set(found.shape.values()) == {None}
    assert parse("--quick").rounds == 2


def test_parse__a_shape_of_virtual_hosts():
    found = parse("--mtu", "9000", "--nic", "cut", "--transports", "TCP,rawe")
    assert found.shape["mtu"] == 9000 and found.shape["nic"] == "cut"
    assert found.transports == ["tcp", "rawe"]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--transports", "tcp,quic"], "quic is no transport"),
        (["--transports", ","], "nothing is no transport"),
        (["--rounds", "0"], "whole number from 1 on"),
        (["--rounds", "-1"], "whole number"),
        (["--np", "0"], "whole number"),
        (["--np", "2;4"], "whole number"),
        (["--timeout", "0"], "seconds above 0"),
        (["--hostfile", "/nonexistent"], "there is no such file"),
        (["--hostfile", __file__, "--mtu", "9000"], "--mtu shapes virtual hosts"),
        (["--interface", "eth0"], "go with --hostfile"),
        (["--starter", "x"], "go with --hostfile"),
        (["--transports", "tcp,vader"], "use --hosts 1"),
        (["--resume", "/r", "--mtu", "9000"], "keeps the options of the first start"),
        (["--against", "/nonexistent"], "no rawe was built there"),
        (["--transports", "tcp,old"], "go together"),
    ],
)
def test_parse__refuses_with_a_reason(argv, complaint, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(*argv)
    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


def test_parse__against_another_build(tmp_path, capsys):
    component = tmp_path / transports.COMPONENT
    component.parent.mkdir(parents=True)
    component.touch()
    argv = ["--against", str(tmp_path)]
    assert parse(*argv).transports == ["old", "rawe"]
    assert parse(*argv, "--transports", "tcp,old,rawe").transports == ["tcp", "old", "rawe"]
    with pytest.raises(SystemExit):
        parse(*argv, "--transports", "tcp,rawe")
    assert "go together" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["results/x", "results/x/", "./results/x", "results//x"])
def test_parse__resume_takes_a_path_as_a_shell_completes_it(path):
    for argv in (["--resume", path], [f"--resume={path}"], ["--no-build", "--resume", path]):
        assert parse(*argv).resume == Path("results/x")


@pytest.mark.parametrize("output", [["--output", "/r"], ["--output=/r"], []])
def test_without_output__the_command_can_be_repeated(output):
    argv = ["--quick", *output, "--mtu", "9000"]
    assert cli.without_output(argv) == ["--quick", "--mtu", "9000"]


def test_main__resume_of_what_is_no_comparison_is_an_error(tmp_path, capsys):
    assert cli.main(Toy(), ["--resume", str(tmp_path)]) == 2
    assert "holds no comparison to continue" in capsys.readouterr().err


def test_progress__a_failure_is_shown_with_the_command_that_repeats_it():
    run, stream = Run(1, "a", Case("toy", "", 2, 2, "Toy"), ()), io.StringIO()
    failed = Done(run, 1.0, None, "no end", ["why"], "again", "raw")
    Progress([run], stream=stream).end(0, failed, "")
    text = stream.getvalue()
    for part in ("FAILED: Toy, 2 ranks on 2 hosts, round 1, a: no end", "| why", "again", "raw"):
        assert part in text


def test_arguments__ranks_of_one_host_share_memory():
    assert "tcp,self" in transports.arguments("tcp")
    assert "tcp,vader,self" in transports.arguments("tcp", None, True)
    assert "vader,self" in transports.arguments("vader", None, True)


def test_arguments__each_transport_is_bound_to_the_interface():
    for name in set(transports.TRANSPORTS) - {transports.SHARED_MEMORY}:
        words = transports.arguments(name, "eth7", against=Path("/b"))
        assert any("eth7" in word for word in words), name


def test_arguments__only_the_old_build_is_loaded_from_elsewhere(tmp_path):
    ours = [tmp_path / "opal/mca/btl/rawe/.libs", tmp_path / "ompi/mca/coll/rawe/.libs"]
    ours[0].mkdir(parents=True)
    old, new = (transports.arguments(name, None, True, tmp_path) for name in ("old", "rawe"))
    assert f"{ours[0]}:SYSTEM_DEFAULT:USER_DEFAULT" in old
    ours[1].mkdir(parents=True)
    both = transports.arguments("old", None, True, tmp_path)
    assert f"{ours[0]}:{ours[1]}:SYSTEM_DEFAULT:USER_DEFAULT" in both
    assert old[: len(new)] == new and transports.COMPONENT_PATH not in new


def test_base_of__the_old_build_tcp_or_the_first():
    assert transports.base_of(["tcp", "old", "rawe"]) == "old"
    assert transports.base_of(["rawe", "tcp"]) == "tcp"
    assert transports.base_of(["ucx", "rawe"]) == "ucx"
