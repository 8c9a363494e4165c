# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the check of real hosts; a substitute for mpirun runs the script here."""

import os
import socket

import pytest

from benchlib import BenchError, places

RUNS_IT = 'while [ "$1" != sh ]; do shift; done\nexec "$@"\n'


@pytest.fixture(name="mpirun")
def _mpirun(tmp_path, monkeypatch):
    """Replaces mpirun by a shell script."""

    def write(script):
        program = tmp_path / "bin" / "mpirun"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return write


def _place(tmp_path, interface="lo", build=None, extra=()):
    hostfile = tmp_path / "hosts"
    hostfile.write_text("one\n", encoding="utf-8")
    return places.HostfilePlace(hostfile, interface, build, list(extra))


def _component(build):
    component = build / "opal/mca/btl/rawe/.libs/mca_btl_rawe.so"
    component.parent.mkdir(parents=True)
    component.touch()


def test_enter__all_is_there(tmp_path, mpirun):
    mpirun(RUNS_IT)
    _component(tmp_path / "build")
    with _place(tmp_path, build=tmp_path / "build") as place:
        assert place.command(["prog"]).count("--map-by node --bind-to core") == 1


def test_enter__an_interface_that_is_not_there_is_named(tmp_path, mpirun):
    mpirun(RUNS_IT)
    with pytest.raises(BenchError) as caught:
        _place(tmp_path, interface="nix7").__enter__()
    assert f"{socket.gethostname()}: there is no network interface nix7; it has" in str(
        caught.value
    )
    assert " lo" in str(caught.value) and "--interface" in str(caught.value)


def test_enter__a_component_that_a_host_does_not_see_is_named(tmp_path, mpirun):
    mpirun(RUNS_IT)
    with pytest.raises(BenchError, match=r"build/opal/.*mca_btl_rawe.so is not there"):
        _place(tmp_path, build=tmp_path / "build").__enter__()


def test_enter__a_host_out_of_reach_shows_mpiruns_output(tmp_path, mpirun):
    mpirun("echo ------; echo 'ssh: connect to host two port 22: No route to host' >&2; exit 255")
    with pytest.raises(BenchError) as caught:
        _place(tmp_path, extra=["--mca", "x", "1"]).__enter__()
    text = str(caught.value)
    assert "mpirun failed\n  | ssh: connect to host two port 22: No route to host" in text
    assert "---" not in text and text.endswith("--mca x 1 hostname")


def test_enter__hosts_that_do_not_answer_are_given_up(tmp_path, mpirun, monkeypatch):
    mpirun("echo waiting for two; exec sleep 1000")
    monkeypatch.setattr(places, "ASK_SECONDS", 0.1)
    with pytest.raises(BenchError, match=r"had not ended after 0.1 s\n  \| waiting for two"):
        _place(tmp_path).__enter__()


def test_enter__without_mpirun_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="mpirun is not on PATH"):
        _place(tmp_path).__enter__()
