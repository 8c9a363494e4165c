# SPDX-License-Identifier: BSD-3-Clause
"""Hosts with several NICs: NICs are pulled, plugged in, recreated, and the job continues."""

import json
import random
import re
import time
from pathlib import Path

import pytest
from conftest import (
    RAWE,
    assert_one_message,
    assert_success,
    help_messages,
    show,
    thorough,
    wait_until,
)
from jobs import Job, assert_failure

STATS = ("--mca", "btl_rawe_stats", "1")
BEGUN = re.compile(r"rounds \d+ begun ([\d.]+)")
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "3")


class PulledJob(Job):
    """A job that exchanges messages until it is told to end."""

    def __init__(self, lab, build, program, *arguments, ranks=2):
        self.end_file = Path(lab.directory) / "end"
        super().__init__(
            lab, build, ["-np", ranks, *RAWE, *STATS, *arguments, program, self.end_file]
        )
        self.go_on()

    def go_on(self):
        """Wait until all ranks have completed a round that began after this call."""
        now = time.monotonic()
        self.wait_until(
            lambda lines: any(float(begun) > now for begun in BEGUN.findall("".join(lines[-2:]))),
            "progress",
        )

    def end_well(self):
        """End the job; return its report: {counter: {(rank, NIC): value}}."""
        self.end_file.touch()
        result = self.finish()
        assert_success(result)
        found = {}
        for line in result.errors.splitlines():
            head = re.search(r"rank (\d+) interface (eth\d+): (.*)", line)
            if head is None:
                continue
            for name, value in re.findall(r"(\w+)=(\d+)", head.group(3)):
                nics = found.setdefault(name, {})
                key = (int(head.group(1)), head.group(2))
                nics[key] = nics.get(key, 0) + int(value)
        return found


def total(report, name):
    """Return the sum of a counter over all ranks and NICs."""
    return sum(report[name].values())


def host_down(lab, nic):
    """Take the link down; both ends of the virtual cable lose their carrier."""
    lab.link_down(0, nic)


def host_up(lab, nic):
    """Take the link up again."""
    lab.link_up(0, nic)


def cut_behind(lab, nic):
    """Cut the path beyond a switch: both ends keep their carrier."""
    for host in (0, 1):
        lab.set_loss(100, host, nic)


def mend_behind(lab, nic):
    """Restore the path."""
    for host in (0, 1):
        lab.set_loss(0, host, nic)


def port_command(lab, nic, what):
    """Set the state of the switch port of host 1."""
    command = ["ip", "netns", "exec", lab.namespaces[-1], "ip", "link", "set"]
    lab.run(0, [*command, lab.nic(1, nic).port, what], check=True)


def port_down(lab, nic):
    """Take the switch port down: only its host loses the carrier."""
    port_command(lab, nic, "down")


def port_up(lab, nic):
    """Take the switch port up again."""
    port_command(lab, nic, "up")


PULLS = {
    "pair": (host_down, host_up),
    "switch": (host_down, host_up),
    "port": (port_down, port_up),
    "behind": (cut_behind, mend_behind),
}


def shares(lab, job):
    """Return the shares of both NICs in what host 0 sends while the job makes progress."""
    before = [lab.statistic(0, "tx_bytes", nic) for nic in (0, 1)]
    job.go_on()
    sent = [lab.statistic(0, "tx_bytes", nic) - before[nic] for nic in (0, 1)]
    return [one / sum(sent) for one in sent]


def await_both(lab, job):
    """Wait until the job uses both NICs."""
    wait_until(lambda: min(shares(lab, job)) > 0.2, "use of both NICs")


@pytest.mark.parametrize("nic", [0, thorough(1)])
@pytest.mark.parametrize("how", PULLS)
def test_a_job_survives_the_loss_of_a_nic_and_uses_it_again(make_lab, build, pulled, how, nic):
    pull, mend = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
    job = PulledJob(lab, build, pulled)
    await_both(lab, job)
    pull(lab, nic)
    wait_until(lambda: shares(lab, job)[nic] < 0.05, "end of what is sent by the lost NIC")
    mend(lab, nic)
    await_both(lab, job)
    # Pull the other NIC: all traffic uses the one that was lost before.
    pull(lab, 1 - nic)
    job.go_on()
    report = job.end_well()
    assert total(report, "migrations") >= 3, report["migrations"]
    assert total(report, "peers_lost") == 0


def test_a_nic_that_loses_frames_is_left_while_it_does(make_lab, build, pulled):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    job = PulledJob(lab, build, pulled)
    await_both(lab, job)
    for host in (0, 1):
        lab.set_loss(30, host, 1)
    wait_until(lambda: shares(lab, job)[1] < 0.05, "end of what is sent by the NIC that loses")
    for host in (0, 1):
        lab.set_loss(0, host, 1)
    await_both(lab, job)
    report = job.end_well()
    assert total(report, "peers_lost") == 0


@pytest.mark.parametrize("how", [thorough("pair"), "behind"])
def test_the_loss_of_all_nics_is_told_once(make_lab, build, pulled, how):
    pull, _ = PULLS[how]
    for _ in range(4):  # Open MPI loses a help message now and then, see test_bad_days.py
        lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
        job = PulledJob(lab, build, pulled, *IMPATIENT)
        pull(lab, 0)
        pull(lab, 1)
        result = job.finish()
        assert_failure(result)
        if help_messages(result):
            break
    assert_one_message(result, f"{lab.name}-h")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_random_pulls_lose_nothing(make_lab, build, pulled, seed):
    chance = random.Random(seed)
    lab = make_lab(hosts=2, nics=2, topology="switch")
    job = PulledJob(lab, build, pulled, ranks=4)
    for _ in range(12):
        nic = chance.randrange(2)
        pull, mend = PULLS[chance.choice(["switch", "port", "behind"])]
        pull(lab, nic)
        time.sleep(chance.uniform(0.0, 0.6))
        mend(lab, nic)
        # The job may consider both down: a route is used again only after several answers.
        time.sleep(chance.uniform(0.0, 0.6))
        job.go_on()
    report = job.end_well()
    assert total(report, "peers_lost") == 0


def macvlan(lab, host, name="mv0", address=None):
    """Create a macvlan on a host's first NIC, and take it up; return its MAC address."""
    options = ["address", address] if address else []
    add = ["link", "add", "link", "eth0", "name", name, *options, "type", "macvlan"]
    lab.run(host, ["ip", *add, "mode", "bridge"], check=True)
    lab.run(host, ["ip", "link", "set", name, "up"], check=True)
    shown = lab.run(host, ["ip", "-json", "link", "show", name], check=True).stdout
    return json.loads(shown)[0]["address"]


def test_lo_has_a_place_beside_many_interfaces(make_lab, build, pulled):
    """Ranks of one host use lo, so one of the 16 interfaces is left out."""
    lab = make_lab(hosts=1)
    for number in range(16):
        macvlan(lab, 0, f"mv{number}")
    mca = ("--mca", "btl_rawe_if_include", "mv*", "--mca", "btl_base_verbose", "1")
    job = PulledJob(lab, build, pulled, *mca)
    job.end_file.touch()
    result = job.finish()
    assert_success(result)
    assert "does not use mv15: there are too many interfaces" in result.errors, show(result)


@pytest.mark.parametrize("ranks", [2, 6])
def test_an_interface_that_is_deleted_and_created_again_is_used_again(
    make_lab, build, pulled, ranks
):
    """The kernel assigns a new index, as after reloading a driver. With six ranks, the sockets were
    also in a fanout group."""
    lab = make_lab(hosts=2)
    addresses = [macvlan(lab, host) for host in (0, 1)]
    mca = ("--mca", "btl_rawe_if_include", "mv0", "--mca", "btl_rawe_peer_timeout", "10")
    job = PulledJob(lab, build, pulled, *mca, ranks=ranks)
    for host in (0, 1):
        lab.run(host, ["ip", "link", "delete", "mv0"], check=True)
        assert macvlan(lab, host, address=addresses[host]) == addresses[host]
        job.go_on()
    job.end_well()
