# SPDX-License-Identifier: BSD-3-Clause
"""Processes that are absent at first contact, end early, fail (ULFM), or do unusual things."""

import os
import signal
import time

import pytest
from conftest import (
    RAWE,
    Job,
    assert_clean_end,
    assert_success,
    help_messages,
    run_job,
    show,
    thorough,
)

from rawelab import launch
from rawelab.soaks import mend, pull

# This is shorter than the outage, which is shorter than the peer timeout.
TIMEOUT = ("--mca", "btl_rawe_connect_timeout_ms", "1000")
AWAY_SECONDS = 4
WITH_TCP = ("--mca", "btl", "rawe,tcp,self")


def stop_rank(lab, job, rank):
    """Stop a rank; return a function that continues it."""
    pid = job.told_pids()[rank]
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def take_cable(lab, job, rank):
    """Pull the cable of host 1; return a function that plugs it in again."""
    pull(lab, 1, 0, "cable")
    return lambda: mend(lab, 1, 0, "cable")


def run_with_outage(lab, exchange, rank, outage, btls):
    """Run a job in which rank 0 first contacts this rank during the outage."""
    go = lab.directory / "go"
    hosts = f"{lab.host(0).name},{lab.host(1).name}:{rank}"
    words = ["-np", rank + 1, "--host", hosts, *btls, *TIMEOUT]
    job = Job(lab, [*words, exchange, "contacts", go, rank])
    job.wait_for("ready", rank + 1)
    job.wait_for(f"next is rank {rank}")
    go_on = outage(lab, job, rank)
    go.touch()
    time.sleep(AWAY_SECONDS)
    go_on()
    return job.finish()


@pytest.mark.parametrize("outage", [stop_rank, take_cable])
@pytest.mark.parametrize(
    "rank, btls",
    [(1, RAWE), (2, RAWE), thorough(2, WITH_TCP)],
    ids=["host never heard", "host heard", "host heard, with tcp"],
)
def test_an_outage_at_first_contact_ends_no_job(make_lab, exchange, rank, outage, btls):
    result = run_with_outage(make_lab(hosts=2), exchange, rank, outage, btls)
    assert_success(result)
    assert help_messages(result) == []


@pytest.mark.parametrize("outage", [stop_rank, take_cable])
def test_a_process_that_was_given_up_uses_the_other_btl_too(make_lab, exchange, outage):
    """ob1 of rank 0, which uses tcp then, could not answer what rank 1 sends through rawe."""
    result = run_with_outage(make_lab(hosts=2), exchange, 1, outage, WITH_TCP)
    assert_success(result)
    messages = help_messages(result)
    assert len(messages) == 1 and "got no answer" in messages[0], show(result)


JOBS = 3  # each size hit the fault in two of three jobs, at 10 % loss


@pytest.mark.parametrize("loss, thread", [thorough(0, 0), thorough(10, 0), (10, 1)])
@pytest.mark.parametrize("count, size", [(40, 100), (40, 3000), (8, 20000), (40, 60000)])
def test_unmatched_messages_end_no_job(make_lab, leaves, count, size, loss, thread):
    lab = make_lab(loss=loss)
    asynchronous = ("--mca", "btl_rawe_async_progress", thread)
    for pause_ms in range(0, 30, 30 // JOBS):
        result = run_job(lab, 4, *asynchronous, leaves, count, size, pause_ms)
        assert result.output.count("left") == 4, show(result)
        assert "rawe BTL" not in result.errors, show(result)


@pytest.mark.parametrize("size", [1000, 300000])
@pytest.mark.parametrize("words", [["receives"], ["window"], ["receives", "window"]], ids=" ".join)
def test_windows_and_receives_left_open_end_no_job(make_lab, leaves, size, words):
    osc = ("--mca", "osc", "pt2pt") if launch.open_mpi()[0] < 5 else ()
    result = run_job(make_lab(), 4, *osc, leaves, 10, size, 5, *words)
    assert result.output.count("left") == 4, show(result)


@pytest.mark.parametrize("size", [100, 20000])
def test_no_rank_waits_for_what_no_rank_takes(make_lab, leaves, tmp_path, size):
    lab = make_lab()
    go_on = tmp_path / "go-on"
    job = Job(lab, ["-np", 2, *RAWE, leaves, 40, size, 0, "when", go_on])
    job.wait_for("waits", 2)
    lab.set_loss(100)
    go_on.touch()
    result = job.finish()
    assert_success(result)
    assert result.output.count("left") == 2, show(result)
    assert "rawe BTL" not in result.errors, show(result)


@pytest.mark.skipif(launch.open_mpi()[0] < 5, reason="4.1 has no sessions")
@pytest.mark.parametrize("kind", ["packet", "udp"])
@pytest.mark.parametrize("ranks", [2, 6])
def test_sessions_follow_each_other(make_lab, lives, ranks, kind):
    result = run_job(make_lab(), ranks, "--mca", "btl_rawe_kind", kind, lives, 4)
    assert result.output.count("lived") == ranks, show(result)
    assert "rawe BTL" not in result.errors, show(result)


needs_ulfm = pytest.mark.skipif(
    launch.open_mpi()[0] < 5, reason="Open MPI 4.1 ends a job that has lost a process"
)
RANKS = 4
# han, a default of 5.0.7, crashes over any BTL when a process fails before the first collective on
# a communicator. ULFM is tested with tuned, basic and ftagree.
FAULT_TOLERANT = ("--with-ft", "ulfm", "--mca", "coll", "^han")


def patience(seconds):
    """Return the parameter that limits how long a peer may be silent."""
    return ["--mca", "btl_rawe_peer_timeout", seconds]


class ShrinkingJob(Job):
    """A job that tolerates faults, whose ranks have talked to each other."""

    def __init__(self, lab, *arguments):
        words = [*FAULT_TOLERANT, "-np", RANKS, *RAWE, *arguments]
        super().__init__(lab, words)
        self.wait_for("works", RANKS)
        self.pids = self.told_pids()

    def wait_for_survivors(self, survivors):
        """Wait until all survivors have continued."""
        for rank in survivors:
            self.wait_for(f"rank {rank} went on with {len(survivors)} of {RANKS}")

    def assert_survive(self, survivors):
        """The survivors notice the loss, and continue among themselves; return the MpiResult."""
        self.wait_for_survivors(survivors)
        result = self.finish()
        assert_clean_end(result)
        assert "something else" not in result.output, show(result)
        return result


@needs_ulfm
@pytest.mark.parametrize("mode", ["busy", "idle"])
def test_the_others_go_on_without_a_killed_rank(make_lab, shrinks, mode):
    """Open MPI tells them, and MPI_Finalize returns long before rawe's timeout."""
    job = ShrinkingJob(make_lab(hosts=2), *patience(3600), shrinks, mode)
    os.kill(job.pids[3], signal.SIGKILL)
    assert help_messages(job.assert_survive([0, 1, 2])) == []


@needs_ulfm
@pytest.mark.parametrize("mode", ["busy", "idle"])
def test_the_others_go_on_without_a_host_whose_cable_is_pulled(make_lab, shrinks, mode):
    lab = make_lab(hosts=RANKS)
    job = ShrinkingJob(lab, *patience(2), shrinks, mode)
    lab.link_down(3)
    assert help_messages(job.assert_survive([0, 1, 2])) == []


@needs_ulfm
def test_who_was_cut_off_for_a_while_goes_on_alone(make_lab, shrinks, tmp_path):
    """The others have given it up, one of them only because it was told, and reject its frames."""
    lab = make_lab(hosts=RANKS)
    job = ShrinkingJob(lab, *patience(2), shrinks, "apart", tmp_path / "file")
    lab.link_down(3)
    job.wait_for_survivors([0, 1, 2])
    lab.link_up(3)
    job.assert_survive([3])


@pytest.mark.parametrize("kind", ["packet", "udp"])
def test_signals_children_and_closed_descriptors_disturb_nothing(make_lab, exchange, kind):
    words = ["--mca", "btl_rawe_kind", kind, exchange, "disturbed", 60]
    assert help_messages(run_job(make_lab(nic="cut"), 4, *words)) == []
