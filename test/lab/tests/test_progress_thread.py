# SPDX-License-Identifier: BSD-3-Clause
"""The progress thread continues communication while a process is outside MPI."""

import pytest
from conftest import run_job, run_verify, thorough

MOST_SECONDS = 60  # the progress thread repairs losses within milliseconds
ASYNC = ("--mca", "btl_rawe_async_progress", "1")
NO_THREAD = ("--mca", "btl_rawe_progress_thread_ms", "0")
PUT = ("--mca", "btl_rawe_flags", "send,put")  # no GET


@pytest.fixture(name="run")
def runner(make_lab, away, tmp_path):
    """A function that runs `away`, and returns what was done while the process was away."""

    def run(who, count, size, options=(), loss=0, seconds=MOST_SECONDS, lab=None):
        words = [away, who, tmp_path / "done", seconds, count, size]
        return run_job(lab or make_lab(loss=loss), 2, *options, *words).output.strip()

    return run


# Mode of `away`, messages, bytes, parameters, losses in percent. `away` checks every byte.
CASES = [
    ("sender", 200, 100, (), (0, 10)),  # a burst
    ("sender", 30, 10_000, (), (0, 10)),
    ("sender", 200, 100, ASYNC, (10,)),
    ("blocking", 200, 64, NO_THREAD, (0,)),
    ("blocking", 200, 100, NO_THREAD, (0,)),
    ("blocking", 100, 2000, NO_THREAD, (0,)),
    ("sender", 1, 70_000, (), (0,)),  # long messages, which the receiver reads
    ("sender", 1, 3_000_000, (), (1,)),
    ("sender", 3, 300_000, (), (10,)),
    ("put", 1, 3_000_000, PUT, (0,)),
    ("receiver", 2000, 100, (), (0, 10)),  # unexpected messages
    ("receiver", 300, 20_000, (), (0, 10)),
    ("receiver", 300, 20_000, ASYNC, (1,)),
    ("posted", 1, 70_000, ASYNC, (0,)),
    ("posted", 1, 3_000_000, ASYNC, (1,)),
    ("posted", 5, 300_000, ASYNC, (10,)),
    ("sum", 1, 1_000_000, ASYNC, (0, 10)),
    ("sum", 20, 1000, ASYNC, (0, 10)),
    ("sum", 5, 100_000, ASYNC, (0, 10)),
]
DONE = {"sender": "received", "blocking": "received", "sum": "summed"}  # others: sent


@pytest.mark.parametrize(
    "who, count, size, options, loss",
    [(*words, loss) for *words, losses in CASES for loss in losses],
)
def test_communication_continues(run, who, count, size, options, loss):
    assert run(who, count, size, options, loss) == f"{DONE.get(who, 'sent')} while away"


@pytest.mark.parametrize("size", [1000, 30_000, 60_000])
def test_without_the_progress_thread_a_match_is_told_at_first_contact(run, size):
    assert run("matched", 1, size, NO_THREAD, seconds=20) == "matched while away"


@pytest.mark.parametrize("count, size", [thorough(5000, 4000), (40000, 900)])
def test_what_there_is_no_room_for_is_not_sent_again_and_again(make_lab, run, count, size):
    lab = make_lab()
    before = lab.statistic(0, "tx_bytes")
    assert run("receiver", count, size, seconds=4, lab=lab) == "in vain"
    sent_bytes = lab.statistic(0, "tx_bytes") - before
    assert sent_bytes < 1.25 * count * size


def test_a_receiver_that_computes_waits_without_being_told(run):
    assert run("posted", 1, 70_000, seconds=1) == "in vain"


def test_windows_and_all_else(make_lab, verify):
    """osc/pt2pt of 4.1 is not thread-safe, so windows do not use it."""
    run_verify(make_lab(loss=1), 4, *ASYNC, verify, "--quick", "--scale", "0.2")
