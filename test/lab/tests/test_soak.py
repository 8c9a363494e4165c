# SPDX-License-Identifier: BSD-3-Clause
"""Short soaks; test/soak runs for hours."""

import shutil
import subprocess

import pytest
from conftest import HERE, RAWE, assert_success, show, wait_until
from jobs import EndlessJob

from rawelab.starts import StartWatcher


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
    """Run test/soak with two NICs per host, whose cables are pulled."""
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


@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb here")
def test_a_late_start_shows_where_all_ranks_stand(make_lab, build, endless, tmp_path):
    lab = make_lab(hosts=2)
    job = EndlessJob(lab, build, endless, ranks=2)
    said = []
    with StartWatcher(lab, endless, tmp_path / "started", 0, lambda text, **_: said.append(text)):
        wait_until(lambda: len(said) == 3, "backtrace of each rank")
    job.process.terminate()
    job.end()
    for pid in job.pids.values():
        assert any(f"process {pid}" in text and "opal_progress" in text for text in said), said


def test_a_start_in_time_shows_nothing(tmp_path):
    (tmp_path / "started").touch()
    with StartWatcher(None, "none", tmp_path / "started", 0, None) as watcher:
        watcher._thread.join()
    assert not watcher.late


@pytest.mark.thorough
def test_a_soak_says_when_it_has_started(make_lab, build, verify, tmp_path):
    arguments = ["-np", 2, *RAWE, verify, "--soak", 1, "--started", tmp_path / "started"]
    assert_success(make_lab(hosts=2).mpirun(arguments, timeout=120, build=build))
    assert (tmp_path / "started").exists()
