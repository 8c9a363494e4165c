# SPDX-License-Identifier: BSD-3-Clause
"""What was begun goes on while a process is outside of MPI: the progress thread sees to it."""

import subprocess

import pytest
from conftest import HANG_SECONDS, HERE, RAWE, assert_success

AWAY_SECONDS = 3  # what the progress thread repairs takes milliseconds


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    """The path of the MPI program away, see away.c."""
    program = tmp_path_factory.mktemp("away") / "away"
    subprocess.run(["mpicc", "-O1", "-o", program, HERE / "away.c"], check=True)
    return program


def run(lab, build, away, who, count, size, options=()):
    """Run it; what rank 1 said."""
    arguments = ["-np", 2, *RAWE, *options, away, who, AWAY_SECONDS, count, size]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    return result.output


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(200, 100), (30, 10000)])
def test_a_burst_leaves_although_its_sender_does(make_lab, build, away, count, size, loss):
    lab = make_lab(loss=loss)
    assert "received before" in run(lab, build, away, "sender", count, size)


@pytest.mark.parametrize("count, size", [(200, 64), (200, 100), (100, 2000)])
def test_without_the_progress_thread_nothing_is_held_back(make_lab, build, away, count, size):
    lab = make_lab()
    options = ("--mca", "btl_rawe_progress_thread_ms", "0")
    assert "received before" in run(lab, build, away, "blocking", count, size, options)


def test_a_long_put_to_a_receiver_that_computes(make_lab, build, away):
    lab = make_lab()
    assert "sent before" in run(lab, build, away, "put", 1, 3_000_000)


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(2000, 100), (300, 20000)])
def test_what_comes_meanwhile_is_kept(make_lab, build, away, count, size, loss):
    lab = make_lab(loss=loss)
    run(lab, build, away, "receiver", count, size)  # it checks every byte
