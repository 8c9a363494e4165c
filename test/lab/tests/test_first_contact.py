# SPDX-License-Identifier: BSD-3-Clause
"""A process is stopped, or cut off for a while, before its first contact."""

import os
import signal
import time

import pytest
from conftest import RAWE, assert_success, help_messages, show, thorough
from jobs import Job

from rawelab.pulls import mend, pull

# Shorter than the outage, which is shorter than the peer timeout.
TIMEOUT = ("--mca", "btl_rawe_connect_timeout_ms", "1000")
AWAY_SECONDS = 4
WITH_TCP = ("--mca", "btl", "rawe,tcp,self")


def stop(lab, job, rank):
    """Stop a rank; return a function that continues it."""
    pid = job.told_pids()[rank]
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def take_cable(lab, job, rank):
    """Pull the cable of host 1; return a function that plugs it in again."""
    pull(lab, 1, 0, "cable")
    return lambda: mend(lab, 1, 0, "cable")


def run_with_outage(lab, build, contacts, tmp_path, rank, outage, btls):
    """Run `contacts`, in which rank 0 first contacts this rank during the outage."""
    go = tmp_path / "go"
    hosts = f"{lab.host(0).name},{lab.host(1).name}:{rank}"
    words = ["-np", rank + 1, "--host", hosts, *btls, *TIMEOUT, contacts, go, rank]
    job = Job(lab, build, words)
    job.wait_for("ready", rank + 1)
    job.wait_for(f"next is rank {rank}")
    go_on = outage(lab, job, rank)
    go.touch()
    time.sleep(AWAY_SECONDS)
    go_on()
    return job.finish()


@pytest.mark.parametrize("outage", [stop, take_cable])
@pytest.mark.parametrize(
    "rank, btls",
    [(1, RAWE), (2, RAWE), thorough(2, WITH_TCP)],
    ids=["host never heard", "host heard", "host heard, with tcp"],
)
def test_an_outage_at_first_contact_ends_no_job(
    make_lab, build, contacts, tmp_path, rank, outage, btls
):
    result = run_with_outage(make_lab(hosts=2), build, contacts, tmp_path, rank, outage, btls)
    assert_success(result)
    assert help_messages(result) == []


def test_a_process_that_was_given_up_is_refused(make_lab, build, contacts, tmp_path):
    """Rank 0 then uses tcp: ob1 could not answer what rank 1 sends through rawe."""
    result = run_with_outage(make_lab(hosts=2), build, contacts, tmp_path, 1, stop, WITH_TCP)
    assert result.returncode != 0
    messages = "".join(help_messages(result))
    assert "has given this process up" in messages, show(result)
    assert "signal" not in result.errors, show(result)
