# SPDX-License-Identifier: BSD-3-Clause
"""Bad networks and paused hosts: every byte arrives, and nothing hangs. Four hosts on a wire."""

import os
import re
import signal
import time

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    HANG_SECONDS,
    RAWE,
    assert_one_message,
    assert_success,
    help_messages,
    show,
)
from jobs import EndlessJob, Job

pytestmark = pytest.mark.thorough

HOSTS = 4
# A group that takes too long ends the job, which names the group.
VERIFY = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI, "--progress"]
GROUP_SECONDS = 180
LATER = 3  # all ranks are connected in this group; first contact times out sooner
JOB_SECONDS = 600
SLOW = "unexpected,flood,random"


def start(lab, build, verify, effort=(), options=()):
    """Start the verification program on all hosts."""
    arguments = ["-np", HOSTS, *RAWE, *options, verify, *VERIFY, "--timeout", GROUP_SECONDS]
    return Job(lab, build, [*arguments, *effort])


def assert_verified(job, timeout=JOB_SECONDS):
    """The job succeeds, having checked everything. The last line of one that hangs says where."""
    result = job.finish(timeout)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    return result


def wired(make_lab, faults=""):
    """Four hosts on a wire."""
    return make_lab(hosts=HOSTS, wire=faults)


# (faults, counter that must have grown, effort)
FAULTS = [
    ("loss=0.1%", "lost", ()),
    ("loss=1%", "lost", ()),
    ("loss=5%", "lost", ()),
    ("loss=20%", "lost", ("--only", SLOW)),
    ("duplicate=5%", "duplicated", ()),
    ("reorder=20%:1ms", "reordered", ()),
    ("corrupt=1%", "corrupted", ()),
    ("burst=0.05%:50ms", "burst_lost", ()),
    ("blackout=50ms/500ms", "blackout_lost", ()),
    ("rate=1gbit,buffer=64k", "buffer_full", ()),
    ("delay=200us,loss=0.5%,duplicate=1%,reorder=5%:500us", "lost", ("--only", SLOW)),
]


@pytest.mark.parametrize("faults, counter, effort", FAULTS, ids=[faults for faults, *_ in FAULTS])
def test_every_byte_arrives(make_lab, build, verify, faults, counter, effort):
    lab = wired(make_lab, faults)
    assert_verified(start(lab, build, verify, effort))
    assert lab.wire_total(counter) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(
    "faults, counter", [cell[:2] for cell in FAULTS], ids=[cell[0] for cell in FAULTS]
)
def test_every_byte_arrives_in_all_groups(make_lab, build, verify, faults, counter, seed):
    lab = wired(make_lab, f"{faults},seed={seed}")
    effort = ["--seed", seed, "--scale", "0.2", "--timeout", 600]
    assert_verified(start(lab, build, verify, effort), timeout=3600)
    assert lab.wire_total(counter) > 0


def both(short, long):
    """Parametrize a test by two durations, the second of which is for --long."""
    return pytest.mark.parametrize("seconds", [short, pytest.param(long, marks=pytest.mark.long)])


def assert_waits(job, seconds):
    """The job neither ends nor complains within `seconds`."""
    time.sleep(seconds)
    assert job.process.poll() is None, job.said()


@both(5, 20)
def test_a_blackout_is_outlasted(make_lab, build, verify, seconds):
    lab = wired(make_lab)
    job = start(lab, build, verify)
    job.wait_for("starts", LATER)
    lab.set_wire(f"blackout={seconds}s")
    assert_waits(job, seconds)
    result = assert_verified(job)
    assert lab.wire_total("blackout_lost") > 0
    assert help_messages(result) == []


def test_a_blackout_at_first_contact_is_outlasted(make_lab, build, verify):
    lab = wired(make_lab)
    lab.set_wire("blackout=6s")
    result = assert_verified(start(lab, build, verify, ["--only", "pt2pt,outstanding"]))
    assert lab.wire_total("blackout_lost") > 0
    assert help_messages(result) == []


@both(3, 10)
def test_a_link_goes_down_and_up_again(make_lab, build, verify, seconds):
    lab = wired(make_lab)
    job = start(lab, build, verify)
    job.wait_for("starts", LATER)
    lab.link_down(1)
    assert_waits(job, seconds)
    lab.link_up(1)
    assert help_messages(assert_verified(job)) == []


@both(4, 20)
def test_a_stopped_rank_goes_on(make_lab, build, verify, seconds):
    lab = wired(make_lab)
    job = start(lab, build, verify)
    job.wait_for("starts", LATER)
    lab.pause(2)
    try:
        assert_waits(job, seconds)
        assert "T" in state(lab.ranks(2)[2])
    finally:
        lab.resume(2)
    assert help_messages(assert_verified(job)) == []


def test_a_job_that_is_suspended_goes_on(make_lab, build, verify):
    lab = wired(make_lab)
    # Hosts stop, and continue, within a second of each other, and for longer than their timeout.
    job = start(lab, build, verify, options=["--mca", "btl_rawe_peer_timeout", 3])
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


def state(pid):
    """Return the kernel's letter for the state of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


@both(2, 60)
def test_a_rank_that_computes_is_not_dead(make_lab, build, verify, seconds):
    # The peers' timeout is shorter than the computation: the responder has to answer.
    patience = ["--mca", "btl_rawe_peer_timeout", seconds // 2]
    effort = ["--only", "late", "--compute", seconds, "--timeout", 600]
    result = assert_verified(start(wired(make_lab), build, verify, effort, patience), 900)
    assert help_messages(result) == []


def test_three_to_one_through_a_small_buffer(make_lab, build, verify):
    lab = wired(make_lab, "rate=1gbit,buffer=16k")
    assert_verified(start(lab, build, verify, ["--only", "flood", "--scale", "1"]))
    assert lab.wire_total("buffer_full") > 0


def test_an_mtu_black_hole_is_named_and_passed_by(make_lab, build, verify):
    lab = make_lab(hosts=2, mtu=9000, wire="mtu=1500")
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random"]
    for _ in range(4):  # Open MPI loses a help message now and then, see test_bad_days.py
        result = lab.mpirun(["-np", 2, *RAWE, verify, *effort], timeout=JOB_SECONDS, build=build)
        assert_success(result)
        if help_messages(result):
            break
    assert lab.wire_total("too_long") > 0
    assert_one_message(result, f"{lab.name}-h", "eth0", "9000", "1500")


# How a job ends when a host or a rank is lost.

DEFAULT_PEER_TIMEOUT_SECONDS = 30
NEVER = ("--mca", "btl_rawe_peer_timeout", "0")


def test_a_host_that_disappears_ends_the_job_when_told_to(make_lab, build, endless):
    for _ in range(4):
        lab = make_lab(hosts=3)
        patience = ["--mca", "btl_rawe_peer_timeout", "3"]
        job = EndlessJob(lab, build, endless, ranks=3, arguments=patience)
        lab.delete_nic(2)
        result = job.end()
        if help_messages(result):
            break
    assert_one_message(result, f"{lab.name}-h", "eth0", "Silent for:")
    silent = re.search(r"Silent for: +(\d+) s", help_messages(result)[0])
    assert 3 <= int(silent.group(1)) < DEFAULT_PEER_TIMEOUT_SECONDS


def test_a_killed_rank_ends_the_job_before_it_is_missed(make_lab, build, endless):
    job = EndlessJob(make_lab(hosts=3), build, endless, ranks=3, arguments=NEVER)
    os.kill(job.pids[1], signal.SIGKILL)
    job.end()


@pytest.mark.parametrize("jobs", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_job_after_a_killed_one_is_not_disturbed(make_lab, build, endless, jobs):
    lab = make_lab(hosts=2)
    for number in range(jobs):
        victim = EndlessJob(lab, build, endless, ranks=2, salt=2 * number + 1)
        # Its frames are still in flight, and its other rank still sends, when the next job starts.
        os.kill(victim.pids[number % 2], signal.SIGKILL)
        arguments = ["-np", 2, *RAWE, "--mca", "btl_rawe_stats", "1"]
        follower = Job(lab, build, [*arguments, endless, "rounds", 50, 2 * number + 2])
        assert victim.process.wait(HANG_SECONDS) != 0, victim.said()
        result = follower.finish()
        assert result.returncode == 0, f"job {number}\n{show(result)}"
        assert not result.timed_out, f"job {number} hung\n{show(result)}"
        assert re.search(r"frames_received=[1-9]", result.errors + result.output), show(result)
        victim.finish()
