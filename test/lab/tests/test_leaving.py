# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Finalize with unmatched messages and freed requests: every rank ends regularly."""

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show, thorough
from jobs import Job

from rawelab import launch

JOBS = 3  # each size hit the fault in two of three jobs, at 10 % loss


@pytest.mark.parametrize("loss, thread", [thorough(0, 0), thorough(10, 0), (10, 1)])
@pytest.mark.parametrize("count, size", [(40, 100), (40, 3000), (8, 20000), (40, 60000)])
def test_unmatched_messages_end_no_job(make_lab, build, leaves, count, size, loss, thread):
    lab = make_lab(loss=loss)
    asynchronous = ("--mca", "btl_rawe_async_progress", thread)
    for pause_ms in range(0, 30, 30 // JOBS):
        arguments = ["-np", 4, *RAWE, *asynchronous, leaves, count, size, pause_ms]
        result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
        assert_success(result)
        assert result.output.count("left") == 4, show(result)
        assert "rawe BTL" not in result.errors, show(result)


@pytest.mark.parametrize("size", [1000, 300000])
@pytest.mark.parametrize("words", [["receives"], ["window"], ["receives", "window"]], ids=" ".join)
def test_windows_and_receives_left_open_end_no_job(make_lab, build, leaves, size, words):
    osc = ("--mca", "osc", "pt2pt") if launch.open_mpi()[0] < 5 else ()
    arguments = ["-np", 4, *RAWE, *osc, leaves, 10, size, 5, *words]
    result = make_lab().mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert result.output.count("left") == 4, show(result)


@pytest.mark.parametrize("size", [100, 20000])
def test_no_rank_waits_for_what_no_rank_takes(make_lab, build, leaves, tmp_path, size):
    lab = make_lab()
    go_on = tmp_path / "go-on"
    job = Job(lab, build, ["-np", 2, *RAWE, leaves, 40, size, 0, "when", go_on])
    job.wait_for("waits", 2)
    lab.set_loss(100)
    go_on.touch()
    result = job.finish()
    assert_success(result)
    assert result.output.count("left") == 2, show(result)
    assert "rawe BTL" not in result.errors, show(result)


@pytest.mark.skipif(launch.open_mpi()[0] < 5, reason="4.1 has no sessions")
@pytest.mark.parametrize("ranks", [2, 6])
def test_sessions_follow_each_other(make_lab, build, lives, ranks):
    arguments = ["-np", ranks, *RAWE, lives, 4]
    result = make_lab().mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert result.output.count("lived") == ranks, show(result)
    assert "rawe BTL" not in result.errors, show(result)
