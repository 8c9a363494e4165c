# SPDX-License-Identifier: BSD-3-Clause
"""Communication continues while a process is outside of MPI, by the progress thread."""

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show, thorough

MOST_SECONDS = 60  # the progress thread repairs losses within milliseconds
ASYNC = ("--mca", "btl_rawe_async_progress", "1")


@pytest.fixture(name="run")
def runner(make_lab, build, away, tmp_path):
    """A function that runs `away`, and returns what was done while the process was away."""

    def run(who, count, size, options=(), loss=0, seconds=MOST_SECONDS, lab=None):
        words = [away, who, tmp_path / "done", seconds, count, size]
        arguments = ["-np", 2, *RAWE, *options, *words]
        lab = lab or make_lab(loss=loss)
        result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
        assert_success(result)
        return result.output.strip()

    return run


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(200, 100), (30, 10000)])
def test_a_burst_leaves_although_its_sender_does(run, count, size, loss):
    assert run("sender", count, size, loss=loss) == "received while away"


@pytest.mark.parametrize("count, size", [(200, 64), (200, 100), (100, 2000)])
def test_without_the_progress_thread_nothing_is_held_back(run, count, size):
    options = ("--mca", "btl_rawe_progress_thread_ms", "0")
    assert run("blocking", count, size, options) == "received while away"


@pytest.mark.parametrize("size", [1000, 30_000, 60_000])
def test_without_the_progress_thread_a_match_is_told_at_first_contact(run, size):
    options = ("--mca", "btl_rawe_progress_thread_ms", "0")
    assert run("matched", 1, size, options, seconds=20) == "matched while away"


@pytest.mark.parametrize("count, size, loss", [(1, 70_000, 0), (1, 3_000_000, 1), (3, 300_000, 10)])
def test_long_messages_are_read_from_a_sender_that_computes(run, count, size, loss):
    assert run("sender", count, size, loss=loss) == "received while away"


def test_a_long_put_to_a_receiver_that_computes(run):
    options = ("--mca", "btl_rawe_flags", "send,put")  # no GET
    assert run("put", 1, 3_000_000, options) == "sent while away"


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(2000, 100), (300, 20000)])
def test_what_comes_meanwhile_is_kept(run, count, size, loss):
    assert run("receiver", count, size, loss=loss) == "sent while away"  # it checks every byte


@pytest.mark.parametrize("count, size", [thorough(5000, 4000), (40000, 900)])
def test_what_there_is_no_room_for_is_not_sent_again_and_again(make_lab, run, count, size):
    lab = make_lab()
    before = lab.statistic(0, "tx_bytes")
    assert run("receiver", count, size, seconds=4, lab=lab) == "in vain"
    sent_bytes = lab.statistic(0, "tx_bytes") - before
    assert sent_bytes < 1.25 * count * size


@pytest.mark.parametrize("count, size, loss", [(1, 70_000, 0), (1, 3_000_000, 1), (5, 300_000, 10)])
def test_a_receiver_that_computes_fetches(run, count, size, loss):
    assert run("posted", count, size, ASYNC, loss=loss) == "sent while away"


def test_a_receiver_that_computes_waits_without_being_told(run):
    assert run("posted", 1, 70_000, seconds=1) == "in vain"


@pytest.mark.parametrize("loss", [0, 10])
@pytest.mark.parametrize("count, size", [(1, 1_000_000), (20, 1000), (5, 100_000)])
def test_a_collective_goes_on(run, count, size, loss):
    assert run("sum", count, size, ASYNC, loss=loss) == "summed while away"


def test_what_comes_unexpectedly_is_kept(run):
    assert run("receiver", 300, 20000, ASYNC, loss=1) == "sent while away"


def test_a_burst_leaves_although_its_sender_computes(run):
    assert run("sender", 200, 100, ASYNC, loss=10) == "received while away"


def test_windows_and_all_else(make_lab, build, verify):
    """osc/pt2pt of 4.1 is not thread-safe, so windows do not use it."""
    arguments = ["-np", 4, *RAWE, *ASYNC, verify, "--quick", "--scale", "0.2"]
    result = make_lab(loss=1).mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
