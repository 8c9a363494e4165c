# SPDX-License-Identifier: BSD-3-Clause
"""What was begun goes on while a process is outside of MPI: the guard sees to it."""

import re
import subprocess

import pytest
from conftest import HANG_SECONDS, HERE, RAWE, assert_success

AWAY_SECONDS = 3
# Half the absence: what is repaired by the guard takes milliseconds, without it the whole of it.
SOON_SECONDS = AWAY_SECONDS / 2


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    """The path of the MPI program away, see away.c."""
    program = tmp_path_factory.mktemp("away") / "away"
    subprocess.run(["mpicc", "-O1", "-o", program, HERE / "away.c"], check=True)
    return program


def waited_seconds(lab, build, away, who, count, size, options=()):
    """Run it; how long rank 1 waited for the burst."""
    arguments = ["-np", 2, *RAWE, *options, away, who, AWAY_SECONDS, count, size]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    return float(re.search(r"received after ([0-9.]+) s", result.output).group(1))


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(200, 100), (30, 10000)])
def test_a_burst_leaves_although_its_sender_does(make_lab, build, away, count, size, loss):
    lab = make_lab(loss=loss)
    assert waited_seconds(lab, build, away, "sender", count, size) < SOON_SECONDS


def test_without_the_guard_it_waits(make_lab, build, away):
    lab = make_lab()
    options = ("--mca", "btl_rawe_guard_ms", "0")
    assert waited_seconds(lab, build, away, "sender", 200, 100, options) > SOON_SECONDS


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(2000, 100), (300, 20000)])
def test_what_comes_meanwhile_is_kept(make_lab, build, away, count, size, loss):
    lab = make_lab(loss=loss)
    waited_seconds(lab, build, away, "receiver", count, size)
