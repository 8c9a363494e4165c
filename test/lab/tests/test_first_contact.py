# SPDX-License-Identifier: BSD-3-Clause
"""A process that is stopped, or cut off for a while, before it is first talked to."""

import os
import signal
import time

import pytest
from conftest import RAWE, assert_success, help_messages, thorough
from jobs import Job

from rawelab.pulls import mend, pull

# Shorter than the outage, which is shorter than the peer timeout.
TIMEOUT = ("--mca", "btl_rawe_connect_timeout_ms", "1000")
AWAY_SECONDS = 4


def stop(lab, job, rank):
    """Stop a rank; what lets it go on."""
    pid = job.told_pids()[rank]
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def take_cable(lab, job, rank):
    """Take the cable of host 1; what puts it back."""
    pull(lab, 1, 0, "cable")
    return lambda: mend(lab, 1, 0, "cable")


@pytest.mark.parametrize("outage", [stop, take_cable])
@pytest.mark.parametrize(
    "rank, btls",
    [(1, RAWE), (2, RAWE), thorough(2, ("--mca", "btl", "rawe,tcp,self"))],
    ids=["host never heard", "host heard", "host heard, with tcp"],
)
def test_an_outage_at_first_contact_ends_no_job(
    make_lab, build, contacts, tmp_path, rank, outage, btls
):
    lab = make_lab(hosts=2)
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
    result = job.finish()
    assert_success(result)
    assert help_messages(result) == []
