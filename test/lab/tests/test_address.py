# SPDX-License-Identifier: BSD-3-Clause
"""The MAC address of an interface changes while a job runs, and the job continues."""

import pytest
from test_nics import PulledJob, await_both, total


def address(host, nic, time):
    """Return a MAC address that no interface has yet."""
    return f"06:00:00:{time:02x}:{host:02x}:{nic:02x}"


@pytest.mark.parametrize("nics", [1, 2])
@pytest.mark.parametrize("hosts", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_a_job_follows_an_address_that_changes(make_lab, build, pulled, hosts, nics):
    lab = make_lab(hosts=2, nics=nics, topology="switch")
    job = PulledJob(lab, build, pulled, ranks=4)
    for time in (1, 2):
        for host in hosts:
            lab.set_address(host, address(host, 0, time))
        job.go_on()
    if nics == 2:
        await_both(lab, job)
    report = job.end_well()
    assert total(report, "peers_lost") == 0
