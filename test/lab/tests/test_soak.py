# SPDX-License-Identifier: BSD-3-Clause
"""The soak, short: hours of it are test/soak's."""

import subprocess

import pytest
from conftest import HERE, RAWE, assert_success, show


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("seconds", [6, pytest.param(120, marks=pytest.mark.long)])
def test_a_soak_is_exact_and_leaves_memory_and_descriptors_alone(
    make_lab, build, verify, seconds, threads
):
    lab = make_lab(hosts=4, wire="loss=0.5%")
    arguments = ["-np", 4, *RAWE, verify, "--soak", seconds, "--interval", 2, "--threads", threads]
    result = lab.mpirun(arguments, timeout=seconds + 120, build=build)
    assert_success(result)
    assert "rawe-verify: OK" in result.output, show(result)
    assert lab.wire_total("lost") > 0


def pull(build, minutes, *words):
    """test/soak with two NICs a host, their cables pulled."""
    argv = [HERE.parents[1] / "soak", "--build", build, "--minutes", minutes, "--nics", "2", *words]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
    )


def test_a_soak_too_short_for_pulls_says_so(build):
    result = pull(build, "0.04", "--pulls", "1")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "--minutes" in result.stderr, result.stderr


@pytest.mark.thorough
def test_a_soak_survives_random_pulls(build):
    result = pull(build, "0.25", "--pulls", "6", "--seed", "3")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert "rawe-verify: OK" in said, said
    assert "pulled 6 times" in said, said
