# SPDX-License-Identifier: BSD-3-Clause
"""rawe next to other BTLs: each pair of processes uses the best one that both have."""

import re

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    assert_success,
    help_messages,
    show,
)

EFFORT = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI]


def run_with_stats(lab, build, ranks, *program):
    """Run a program over rawe with its report; it must succeed without a help message."""
    arguments = ["-np", ranks, *RAWE, "--mca", "btl_rawe_stats", "1", *program]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert help_messages(result) == []
    return result


def senders(result):
    """Return the pairs (rank, NIC) that have sent messages through the network."""
    found = re.findall(r"rank (\d+) interface (eth\d): messages_sent=(\d+)", result.errors)
    return {(int(rank), nic) for rank, nic, count in found if int(count) > 0}


def test_rawe_between_hosts_and_vader_within(make_lab, build, verify):
    lab = make_lab(hosts=2)
    lab.count_frames(ETHERTYPE)
    arguments = ["-np", 4, "--mca", "btl", "rawe,vader,self", verify, *EFFORT]
    assert_success(lab.mpirun(arguments, timeout=HANG_SECONDS, build=build))
    assert lab.frames(0) > 0 and lab.frames(1) > 0


def test_a_host_without_rawe_is_reached_over_tcp_silently(make_lab, build, verify):
    lab = make_lab(hosts=3)
    lab.set_environment(1, OMPI_MCA_btl="tcp,self")
    lab.count_frames(ETHERTYPE)
    arguments = ["-np", 3, "--mca", "btl", "rawe,tcp,self", verify, *EFFORT]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert help_messages(result) == []
    assert lab.frames(0) > 0 and lab.frames(2) > 0
    assert lab.frames(1) == 0


def test_rawe_is_preferred_to_tcp_where_both_have_it(make_lab, build, endless):
    lab = make_lab(hosts=2)
    lab.count_frames(ETHERTYPE)
    rounds = 200
    # Plain frames, because the count below does not distinguish batches from tcp.
    plain = ["--mca", "btl_rawe_batches", "0"]
    arguments = ["-np", 2, "--mca", "btl", "rawe,tcp,self", *plain, endless, "rounds", rounds]
    assert_success(lab.mpirun(arguments, timeout=HANG_SECONDS, build=build))
    # 20 000 bytes a round and direction need at least 14 frames of 1500.
    assert lab.frames(0) >= 14 * rounds and lab.frames(1) >= 14 * rounds


@pytest.mark.parametrize("descriptors", [22, 24, 26])
def test_it_steps_aside_where_descriptors_are_few(make_lab, build, endless, descriptors):
    """They are enough for tcp. Without tcp, the message names the limit."""
    limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', descriptors, endless, "rounds", 20]
    lab = make_lab(hosts=2)
    arguments = ["-np", 2, "--mca", "btl", "rawe,tcp,self", *limited]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert result.returncode == 0, show(result)
    result = lab.mpirun(["-np", 2, *RAWE, *limited], timeout=HANG_SECONDS, build=build)
    assert result.returncode != 0
    assert "RLIMIT_NOFILE" in "".join(help_messages(result)), show(result)


@pytest.mark.parametrize("hosts, ranks, loss", [(2, 2, 0), (2, 4, 1), (3, 3, 0)])
def test_several_nics_share_the_work(make_lab, build, verify, hosts, ranks, loss):
    lab = make_lab(hosts=hosts, nics=2, loss=loss)
    result = run_with_stats(lab, build, ranks, verify, *EFFORT)
    assert senders(result) == {(rank, nic) for rank in range(ranks) for nic in ("eth0", "eth1")}


def test_nics_of_different_mtu_share_the_work(make_lab, build, verify):
    lab = make_lab(hosts=2, nics=2)
    for host in (0, 1):
        lab.set_mtu(host, 9000, nic=1)
    result = run_with_stats(lab, build, 2, verify, *EFFORT)
    assert senders(result) == {(rank, nic) for rank in (0, 1) for nic in ("eth0", "eth1")}


def plug(lab, host, nic, *bridge):
    """Connect a host's NIC to another bridge of the lab."""
    command = ["ip", "netns", "exec", lab.namespaces[-1], "ip", "link", "set"]
    lab.run(0, [*command, lab.nic(host, nic).port, *bridge], check=True)


@pytest.mark.parametrize("nowhere", [0, 1])
def test_a_nic_that_leads_nowhere_is_passed_by(make_lab, build, verify, nowhere):
    lab = make_lab(hosts=3, nics=2, topology="switch")
    for host in range(3):
        plug(lab, host, nowhere, "nomaster")
    # If the job waited for this NIC, it would exceed the test's timeout.
    patience = ["--mca", "btl_rawe_connect_timeout_ms", 1000 * 2 * HANG_SECONDS]
    result = run_with_stats(lab, build, 3, *patience, verify, *EFFORT, "--only", "pt2pt,random")
    assert senders(result) == {(rank, f"eth{1 - nowhere}") for rank in range(3)}


def test_two_nics_of_a_host_reach_the_one_of_another(make_lab, build, verify):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    # One switch for all NICs. Host 0 uses one NIC, to which both NICs of host 1 connect.
    for host in (0, 1):
        plug(lab, host, 1, "master", "br0")
    lab.set_environment(0, OMPI_MCA_btl_rawe_if_include="eth0")
    result = run_with_stats(lab, build, 2, verify, *EFFORT)
    assert senders(result) == {(0, "eth0"), (1, "eth0"), (1, "eth1")}
