# SPDX-License-Identifier: BSD-3-Clause
"""Hosts with several NICs: NICs are pulled, plugged in, recreated, or change their MAC address."""

import json
import random
import re
import time
from pathlib import Path

import pytest
from conftest import (
    RAWE,
    STATS,
    Job,
    assert_failure,
    assert_one_message,
    assert_success,
    counted,
    help_messages,
    run_job,
    show,
    thorough,
    until_told,
    wait_until,
)

BEGUN = re.compile(r"rounds \d+ begun ([\d.]+)")
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "3")


class PulledJob(Job):
    """A job that exchanges messages until it is told to end."""

    def __init__(self, lab, program, *arguments, ranks=2, build=None):
        self.end_file = Path(lab.directory) / "end"
        words = ["-np", ranks, *RAWE, *STATS, *arguments, program, self.end_file]
        super().__init__(lab, words, build)
        self.go_on()

    def go_on(self):
        """Wait until all ranks have completed a round that began after this call."""
        now = time.monotonic()
        self.wait_until(
            lambda lines: any(float(begun) > now for begun in BEGUN.findall("".join(lines[-2:]))),
            "progress",
        )

    def end_well(self):
        """End the job, which must have lost no peer; return its MpiResult."""
        self.end_file.touch()
        result = self.finish()
        assert_success(result)
        assert counted(result, "peers_lost") == 0
        return result


def host_down(lab, nic):
    """Take the link down; both ends of the virtual cable lose their carrier."""
    lab.link_down(0, nic)


def host_up(lab, nic):
    """Bring the link up again."""
    lab.link_up(0, nic)


def cut_behind(lab, nic):
    """Cut the path beyond a switch: both ends keep their carrier."""
    for host in (0, 1):
        lab.set_loss(100, host, nic)


def mend_behind(lab, nic):
    """Restore the path."""
    for host in (0, 1):
        lab.set_loss(0, host, nic)


def port_down(lab, nic):
    """Take the switch port down: only its host loses the carrier."""
    lab.at_switch("ip", "link", "set", lab.nic(1, nic).port, "down")


def port_up(lab, nic):
    """Bring the switch port up again."""
    lab.at_switch("ip", "link", "set", lab.nic(1, nic).port, "up")


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
def test_a_job_survives_the_loss_of_a_nic_and_uses_it_again(make_lab, pulled, how, nic):
    pull, mend = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
    job = PulledJob(lab, pulled)
    await_both(lab, job)
    pull(lab, nic)
    wait_until(lambda: shares(lab, job)[nic] < 0.05, "end of what is sent by the lost NIC")
    mend(lab, nic)
    await_both(lab, job)
    # Pull the other NIC: all traffic must use the NIC that was lost before.
    pull(lab, 1 - nic)
    job.go_on()
    result = job.end_well()
    assert counted(result, "migrations") >= 3, result.errors


def test_a_nic_that_loses_frames_is_left_while_it_does(make_lab, pulled):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    job = PulledJob(lab, pulled)
    await_both(lab, job)
    for host in (0, 1):
        lab.set_loss(30, host, 1)
    wait_until(lambda: shares(lab, job)[1] < 0.05, "end of what is sent by the NIC that loses")
    for host in (0, 1):
        lab.set_loss(0, host, 1)
    await_both(lab, job)
    job.end_well()


@pytest.mark.parametrize("how", [thorough("pair"), "behind"])
def test_the_loss_of_all_nics_is_told_once(make_lab, pulled, how):
    pull, mend = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")

    def attempt():
        job = PulledJob(lab, pulled, *IMPATIENT)
        for nic in (0, 1):
            pull(lab, nic)
        result = job.finish()
        for nic in (0, 1):
            mend(lab, nic)
        assert_failure(result)
        return result

    assert_one_message(until_told(attempt), f"{lab.name}-h")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_random_pulls_lose_nothing(make_lab, pulled, seed):
    chance = random.Random(seed)
    lab = make_lab(hosts=2, nics=2, topology="switch")
    job = PulledJob(lab, pulled, ranks=4)
    for _ in range(12):
        nic = chance.randrange(2)
        pull, mend = PULLS[chance.choice(["switch", "port", "behind"])]
        pull(lab, nic)
        time.sleep(chance.uniform(0.0, 0.6))
        mend(lab, nic)
        # The job may consider both down: a route is used again only after several answers.
        time.sleep(chance.uniform(0.0, 0.6))
        job.go_on()
    job.end_well()


def macvlan(lab, host, name="mv0", address=None):
    """Create a macvlan on a host's first NIC, and bring it up; return its MAC address."""
    options = ["address", address] if address else []
    add = ["link", "add", "link", "eth0", "name", name, *options, "type", "macvlan"]
    lab.run(host, ["ip", *add, "mode", "bridge"], check=True)
    lab.run(host, ["ip", "link", "set", name, "up"], check=True)
    shown = lab.run(host, ["ip", "-json", "link", "show", name], check=True).stdout
    return json.loads(shown)[0]["address"]


@pytest.mark.raw
def test_lo_has_a_place_beside_many_interfaces(make_lab, pulled):
    """Ranks of one host use lo, so one of the 16 interfaces is left out."""
    lab = make_lab(hosts=1)
    for number in range(16):
        macvlan(lab, 0, f"mv{number}")
    mca = ("--mca", "btl_rawe_if_include", "mv*", "--mca", "btl_base_verbose", "1")
    result = PulledJob(lab, pulled, *mca).end_well()
    assert "does not use mv15: there are too many interfaces" in result.errors, show(result)


@pytest.mark.raw
@pytest.mark.parametrize("ranks", [2, 6])
def test_an_interface_that_is_deleted_and_created_again_is_used_again(make_lab, pulled, ranks):
    """The kernel assigns a new index, as after reloading a driver. With six ranks, the sockets were
    also in a fanout group."""
    lab = make_lab(hosts=2)
    addresses = [macvlan(lab, host) for host in (0, 1)]
    mca = ("--mca", "btl_rawe_if_include", "mv0", "--mca", "btl_rawe_peer_timeout", "10")
    job = PulledJob(lab, pulled, *mca, ranks=ranks)
    for host in (0, 1):
        lab.run(host, ["ip", "link", "delete", "mv0"], check=True)
        assert macvlan(lab, host, address=addresses[host]) == addresses[host]
        job.go_on()
    job.end_well()


@pytest.mark.raw
@pytest.mark.parametrize("nics", [1, 2])
@pytest.mark.parametrize("hosts", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_a_job_follows_an_address_that_changes(make_lab, pulled, hosts, nics):
    lab = make_lab(hosts=2, nics=nics, topology="switch")
    job = PulledJob(lab, pulled, ranks=4)
    for change in (1, 2):
        for host in hosts:
            lab.set_address(host, f"06:00:00:{change:02x}:{host:02x}:00")
        job.go_on()
    if nics == 2:
        await_both(lab, job)
    job.end_well()


BMC_MAC = "b0:3a:f2:b6:05:9f"


def isolate(lab, nic):
    """Give one NIC of each host the same MAC address, and disconnect these NICs."""
    for host in lab.hosts:
        lab.set_address(host, BMC_MAC, nic)
        lab.at_switch("ip", "link", "set", host.nics[nic].port, "nomaster")


@pytest.mark.parametrize("nic", [0, 1])
def test_hosts_with_a_mac_in_common_reach_each_other_by_their_other_nics(make_lab, verify, nic):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    isolate(lab, nic)
    result = run_job(lab, 4, "--map-by", "node", verify, "--quick", "--only", "pt2pt")
    assert help_messages(result) == []


def test_a_job_whose_hosts_cannot_reach_each_other_ends_with_a_message(make_lab, build, verify):
    lab = make_lab(hosts=2, nics=1, topology="switch")
    isolate(lab, 0)
    timeout = ("--mca", "btl_rawe_connect_timeout_ms", "1000", "--mca", "btl_rawe_peer_timeout", 1)
    arguments = ["-np", 2, *RAWE, *timeout, verify, "--quick", "--only", "pt2pt"]
    result = lab.mpirun(arguments, build=build)
    assert_failure(result)
    assert any("got no answer" in message for message in help_messages(result)), show(result)
    assert "rawe cannot reach rank" in result.errors, show(result)
    assert "Signal: " not in result.output + result.errors, show(result)
