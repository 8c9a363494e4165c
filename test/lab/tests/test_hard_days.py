# SPDX-License-Identifier: BSD-3-Clause
"""Bad networks and paused hosts: every byte arrives, and nothing hangs. Four hosts on a wire."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    HANG_SECONDS,
    RAWE,
    STATS,
    EndlessJob,
    Job,
    assert_one_message,
    assert_success,
    help_messages,
    run_job,
    show,
    until_told,
)

pytestmark = pytest.mark.thorough

HOSTS = 4
# If a group takes too long, the job ends and names the group.
VERIFY = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI, "--progress"]
GROUP_SECONDS = 180
LATER = 3  # all ranks are connected in this group; first contact times out sooner
JOB_SECONDS = 600
SLOW = "unexpected,flood,random"


def start(lab, verify, effort=(), options=()):
    """Start the verification program on all hosts."""
    arguments = ["-np", HOSTS, *RAWE, *options, verify, *VERIFY, "--timeout", GROUP_SECONDS]
    return Job(lab, [*arguments, *effort])


def assert_verified(job, timeout=JOB_SECONDS):
    """Assert that the job succeeds after all checks. If it hangs, its last line says where."""
    result = job.finish(timeout)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    return result


def wired(make_lab, faults=""):
    """Four hosts on a wire."""
    return make_lab(hosts=HOSTS, wire=faults)


# (faults, counter that must have grown, effort)
FAULTS = [
    ("loss=5%", "lost", ()),
    ("loss=20%", "lost", ("--only", SLOW)),
    ("duplicate=5%", "duplicated", ()),
    ("reorder=20%:1ms", "reordered", ()),
    ("corrupt=1%", "corrupted", ()),
    ("burst=0.05%:50ms", "burst_lost", ()),
    ("blackout=50ms/500ms", "blackout_lost", ()),
    ("rate=1gbit,buffer=64k", "buffer_full", ()),
    ("rate=1gbit,buffer=16k", "buffer_full", ("--only", "flood", "--scale", "1")),
    ("delay=200us,loss=0.5%,duplicate=1%,reorder=5%:500us", "lost", ("--only", SLOW)),
]


@pytest.mark.parametrize("faults, counter, effort", FAULTS, ids=[faults for faults, *_ in FAULTS])
def test_every_byte_arrives(make_lab, verify, faults, counter, effort):
    lab = wired(make_lab, faults)
    assert_verified(start(lab, verify, effort))
    assert lab.wire_total(counter) > 0


def assert_waits(job, seconds):
    """Assert that the job neither ends nor prints an error within `seconds`."""
    time.sleep(seconds)
    assert job.process.poll() is None, job.said()


def black_out(lab, seconds):
    """Lose all frames for this time; return a function that asserts that frames were lost."""
    lab.set_wire(f"blackout={seconds}s")
    return lambda: lab.wire_total("blackout_lost") > 0 or pytest.fail("no frame was lost")


def take_link_down(lab, _seconds):
    """Take a link down; return a function that brings it up again."""
    lab.link_down(1)
    return lambda: lab.link_up(1)


def stop_rank(lab, _seconds):
    """Stop a rank; return a function that asserts that it is stopped, and continues it."""
    lab.pause(2)

    def resume():
        stat = Path(f"/proc/{lab.ranks(2)[2]}/stat").read_text(encoding="utf-8")
        lab.resume(2)
        assert stat.rpartition(")")[2].split()[0] == "T"

    return resume


@pytest.mark.parametrize(
    "disturb, seconds, long_seconds",
    [(black_out, 5, 20), (take_link_down, 3, 10), (stop_rank, 4, 20)],
)
@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_outage_is_outlasted(make_lab, verify, disturb, seconds, long_seconds, long):
    seconds = long_seconds if long else seconds
    lab = wired(make_lab)
    job = start(lab, verify)
    job.wait_for("starts", LATER)
    mend = disturb(lab, seconds)
    try:
        assert_waits(job, seconds)
    finally:
        mend()
    assert help_messages(assert_verified(job)) == []


@pytest.mark.long
def test_an_outage_longer_than_half_a_minute_is_reported(make_lab, verify):
    # A switch that starts again, or a port that spanning tree blocks for 2 x 15 s.
    lab = wired(make_lab)
    job = start(lab, verify)
    job.wait_for("starts", LATER)
    mend = black_out(lab, 45)
    assert_waits(job, 45)
    mend()
    messages = help_messages(assert_verified(job))
    assert messages and all("gets no answer from a peer" in message for message in messages)


def test_a_blackout_at_first_contact_is_outlasted(make_lab, verify):
    lab = wired(make_lab)
    lab.set_wire("blackout=6s")
    result = assert_verified(start(lab, verify, ["--only", "pt2pt,outstanding"]))
    assert lab.wire_total("blackout_lost") > 0
    assert help_messages(result) == []


def test_a_job_that_is_suspended_goes_on(make_lab, verify):
    lab = wired(make_lab)
    # Hosts stop, and continue, within a second of each other, and for longer than their timeout.
    job = start(lab, verify, options=["--mca", "btl_rawe_peer_timeout", 3])
    job.wait_for("starts", LATER)
    for host in range(HOSTS):
        lab.pause(host)
        time.sleep(0.25)
    try:
        assert_waits(job, 15)
    finally:
        for host in range(HOSTS):
            lab.resume(host)
            time.sleep(0.25)
    assert help_messages(assert_verified(job)) == []


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.long)])
def test_a_rank_that_computes_is_not_dead(make_lab, verify, seconds):
    # The peers' timeout is shorter than the computation: the responder has to answer.
    patience = ["--mca", "btl_rawe_peer_timeout", seconds // 2]
    effort = ["--only", "late", "--compute", seconds, "--timeout", 600]
    result = assert_verified(start(wired(make_lab), verify, effort, patience), 900)
    assert help_messages(result) == []


def test_an_mtu_black_hole_is_named_and_passed_by(make_lab, verify):
    lab = make_lab(hosts=2, mtu=9000, wire="mtu=1500")
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random"]
    result = until_told(lambda: run_job(lab, 2, verify, *effort, timeout=JOB_SECONDS))
    assert lab.wire_total("too_long") > 0
    assert_one_message(result, f"{lab.name}-h", "eth0", "9000", "1500")


# How a job ends when a host or a rank is lost.

DEFAULT_PEER_TIMEOUT_SECONDS = 30
NEVER = ("--mca", "btl_rawe_peer_timeout", "0")


def test_a_host_that_disappears_ends_the_job_when_told_to(make_lab, exchange):
    for _ in range(4):
        lab = make_lab(hosts=3)
        patience = ["--mca", "btl_rawe_peer_timeout", "3"]
        job = EndlessJob(lab, exchange, ranks=3, arguments=patience)
        lab.delete_nic(2)
        result = job.end()
        if help_messages(result):
            break
    assert_one_message(result, f"{lab.name}-h", "eth0", "Silent for:")
    silent = re.search(r"Silent for: +(\d+) s", help_messages(result)[0])
    assert 3 <= int(silent.group(1)) < DEFAULT_PEER_TIMEOUT_SECONDS


def test_a_killed_rank_ends_the_job_before_it_is_missed(make_lab, exchange):
    job = EndlessJob(make_lab(hosts=3), exchange, ranks=3, arguments=NEVER)
    os.kill(job.pids[1], signal.SIGKILL)
    job.end()


@pytest.mark.parametrize("jobs", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_job_after_a_killed_one_is_not_disturbed(make_lab, exchange, jobs):
    lab = make_lab(hosts=2)
    for number in range(jobs):
        victim = EndlessJob(lab, exchange, ranks=2, salt=2 * number + 1)
        # When the next job starts, frames of this job are in flight, and its other rank is sending.
        os.kill(victim.pids[number % 2], signal.SIGKILL)
        words = ["-np", 2, *RAWE, *STATS, exchange, "rounds", 50, 2 * number + 2]
        follower = Job(lab, words)
        assert victim.process.wait(HANG_SECONDS) != 0, victim.said()
        result = follower.finish()
        assert result.returncode == 0, f"job {number}\n{show(result)}"
        assert not result.timed_out, f"job {number} hung\n{show(result)}"
        assert re.search(r"frames_received=[1-9]", result.errors + result.output), show(result)
        victim.finish()
