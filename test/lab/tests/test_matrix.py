# SPDX-License-Identifier: BSD-3-Clause
"""Every byte arrives over rawe: layouts of ranks and hosts, MTUs, losses, BTLs, several NICs."""

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    STATS,
    help_messages,
    reports,
    run_job,
    run_verify,
    show,
    thorough,
)

from rawelab import launch

LAYOUTS = [(2, 2), (4, 2), (8, 4)]
# All combinations take a few minutes on two cores.
EFFORT = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI]


def verify_over_rawe(lab, ranks, *words, **options):
    """Run the verification program over rawe alone; frames of rawe must reach each host."""
    lab.count_frames(ETHERTYPE)
    run_verify(lab, ranks, *words, **options)
    for host in lab.hosts:
        assert lab.frames(host) > 0, f"no rawe frame reached {host.name}"


def cells():
    """Yield ranks, hosts, MTU and loss in percent. Cells that resemble others are for --long."""
    for ranks, hosts in LAYOUTS:
        for mtu in (1500, 9000, 65000):
            for loss in (0, 1, 10):
                small = (ranks, hosts) == (2, 2)
                also = loss == 0 or small or (mtu == 1500 and (loss, ranks) != (10, 8))
                marks = () if also else (pytest.mark.long,)
                yield pytest.param(ranks, hosts, mtu, loss, marks=marks)


@pytest.mark.thorough
@pytest.mark.parametrize("ranks, hosts, mtu, loss", list(cells()))
def test_every_byte_arrives(make_lab, verify, ranks, hosts, mtu, loss):
    lab = make_lab(hosts=hosts, mtu=mtu, loss=loss)
    verify_over_rawe(lab, ranks, verify, *EFFORT)
    if loss:
        assert lab.dropped() > 0


# Ranks wait for each other's locks, which takes minutes with many more ranks than cores.
@pytest.mark.parametrize("ranks, hosts, loss", [(2, 2, 0), (2, 2, 1), (4, 2, 0)])
def test_every_byte_arrives_one_sided(make_lab, verify, ranks, hosts, loss):
    lab = make_lab(hosts=hosts, loss=loss)
    groups, most = ("onesided,windows", "70000") if ranks == 2 else ("onesided", "2K")
    effort = ["--quick", "--scale", "0.1", "--max-bytes", most, "--only", groups]
    verify_over_rawe(lab, ranks, verify, *effort)


def test_every_byte_arrives_one_sided_with_threads(make_lab, verify):
    effort = ["--quick", "--scale", "0.1", "--only", "onesided,windows"]
    verify_over_rawe(make_lab(hosts=2), 2, verify, *effort, "--thread-level", "multiple")


BY_MESSAGES = pytest.mark.skipif(launch.open_mpi()[0] >= 5, reason="5.0 has no osc/pt2pt")


@pytest.mark.parametrize(
    "options, by_rawe",
    [
        ((), True),  # as Debian configures 4.1: without osc/pt2pt
        pytest.param(("--mca", "osc", "^ucx"), False, marks=BY_MESSAGES),
        pytest.param(("--mca", "osc", "^ucx", "--mca", "btl_rawe_windows", "1"), True),
    ],
)
def test_what_serves_windows(make_lab, verify, options, by_rawe):
    """osc/rdma reports that it was selected; 5.0 always selects it, but also names the BTL."""
    options = [*options, "--mca", "osc_base_verbose", 50]
    effort = ["--quick", "--scale", "0.01", "--only", "onesided"]
    result = run_job(make_lab(hosts=2), 2, *options, verify, *effort)
    said = "rdma component" if launch.open_mpi()[0] < 5 else "selected btl: rawe"
    assert (said in result.output + result.errors) == by_rawe, show(result)


@BY_MESSAGES
def test_windows_of_messages_pass_as_well(make_lab, verify):
    effort = ["--quick", "--scale", "0.1", "--only", "onesided"]
    verify_over_rawe(make_lab(hosts=2), 2, "--mca", "osc", "pt2pt", verify, *effort)


def test_sends_that_nobody_is_called_for_arrive(make_lab, watch):
    """Windows of Open MPI 5.0 answer by sends without callback. These fill all queues."""
    result = run_job(make_lab(hosts=2), 2, watch, "uncalled", 20000)
    assert "20000 arrived" in result.output, show(result)


@pytest.mark.parametrize("topology", [thorough("pair"), "switch"])
@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
def test_every_byte_arrives_with_and_without_offloads(make_lab, verify, topology, nic):
    verify_over_rawe(make_lab(hosts=2, topology=topology, nic=nic), 2, verify, *EFFORT)


def test_every_byte_arrives_through_slow_ports_with_small_buffers(make_lab, verify):
    verify_over_rawe(make_lab(hosts=4, rate="1gbit", buffer=64 * 1024), 4, verify, *EFFORT)


@pytest.mark.long
@pytest.mark.parametrize("loss", [0, 1, 10])
@pytest.mark.parametrize("mtu", [1500, 9000, 65000])
@pytest.mark.parametrize("ranks, hosts", LAYOUTS)
def test_every_byte_arrives_in_large_messages_too(make_lab, verify, ranks, hosts, mtu, loss):
    lab = make_lab(hosts=hosts, mtu=mtu, loss=loss)
    effort = ["--max-bytes", "256M", "--skip", BEYOND_OPEN_MPI]
    verify_over_rawe(lab, ranks, verify, *effort, timeout=1800)


WITH_TCP = ("--mca", "btl", "rawe,tcp,self")


def senders(lab, ranks, directory, *words, options=()):
    """Run a job without a help message; return the pairs (rank, NIC) that have sent messages.

    Each rank writes its report to its own file, because mpirun mixes up long output of several.
    """
    apart = ["sh", "-c", 'exec "$@" 2> "$0/$OMPI_COMM_WORLD_RANK"', directory]
    result = run_job(lab, ranks, *STATS, *options, *apart, *words)
    assert help_messages(result) == []
    said = "".join((directory / str(rank)).read_text(encoding="utf-8") for rank in range(ranks))
    return {
        (rank, nic.removesuffix("/udp"))
        for (rank, nic), counters in reports(said).items()
        if not nic.startswith("lo") and counters["messages_sent"] > 0
    }


def test_rawe_between_hosts_and_vader_within(make_lab, verify):
    btls = ("--mca", "btl", "rawe,vader,self")
    verify_over_rawe(make_lab(hosts=2), 4, verify, *EFFORT, btls=btls)


@pytest.mark.raw
def test_a_host_without_rawe_is_reached_over_tcp_silently(make_lab, verify):
    lab = make_lab(hosts=3)
    lab.set_environment(1, OMPI_MCA_btl="tcp,self")
    lab.count_frames(ETHERTYPE)
    assert help_messages(run_job(lab, 3, verify, *EFFORT, btls=WITH_TCP)) == []
    assert lab.frames(0) > 0 and lab.frames(2) > 0
    assert lab.frames(1) == 0


@pytest.mark.raw
def test_rawe_is_preferred_to_tcp_where_both_have_it(make_lab, exchange):
    lab = make_lab(hosts=2)
    lab.count_frames(ETHERTYPE)
    rounds = 200
    # Plain frames, because the count below does not distinguish batches from tcp.
    plain = ["--mca", "btl_rawe_batches", "0"]
    run_job(lab, 2, *plain, exchange, "rounds", rounds, btls=WITH_TCP)
    # 20 000 bytes per round and direction need at least 14 frames of 1500.
    assert lab.frames(0) >= 14 * rounds and lab.frames(1) >= 14 * rounds


@pytest.mark.parametrize(
    "kind, descriptors", [("packet", 22), ("packet", 24), ("packet", 26), ("udp", 24)]
)
def test_it_steps_aside_where_descriptors_are_few(make_lab, build, exchange, kind, descriptors):
    """The descriptors suffice for tcp. Without tcp, the message names the limit."""
    limit = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', descriptors]
    words = ["--mca", "btl_rawe_kind", kind, *limit, exchange, "rounds", 20]
    lab = make_lab(hosts=2)
    run_job(lab, 2, *words, btls=WITH_TCP)
    result = lab.mpirun(["-np", 2, *RAWE, *words], timeout=HANG_SECONDS, build=build)
    assert result.returncode != 0
    assert "RLIMIT_NOFILE" in "".join(help_messages(result)), show(result)


@pytest.mark.parametrize(
    "hosts, ranks, loss, mtu", [(2, 2, 0, 1500), (2, 4, 1, 1500), (3, 3, 0, 1500), (2, 2, 0, 9000)]
)
def test_several_nics_share_the_work(make_lab, verify, tmp_path, hosts, ranks, loss, mtu):
    """The second NIC may have another MTU."""
    lab = make_lab(hosts=hosts, nics=2, loss=loss)
    for host in range(hosts):
        lab.set_mtu(host, mtu, nic=1)
    every = {(rank, nic) for rank in range(ranks) for nic in ("eth0", "eth1")}
    assert senders(lab, ranks, tmp_path, verify, *EFFORT) == every


def plug(lab, host, nic, *bridge):
    """Connect a host's NIC to another bridge of the lab."""
    lab.at_switch("ip", "link", "set", lab.nic(host, nic).port, *bridge)


@pytest.mark.parametrize("nowhere", [0, 1])
def test_a_nic_that_leads_nowhere_is_passed_by(make_lab, verify, tmp_path, nowhere):
    lab = make_lab(hosts=3, nics=2, topology="switch")
    for host in range(3):
        plug(lab, host, nowhere, "nomaster")
    # If the job waited for this NIC, the test would time out.
    patience = ["--mca", "btl_rawe_connect_timeout_ms", 1000 * 2 * HANG_SECONDS]
    found = senders(lab, 3, tmp_path, verify, *EFFORT, "--only", "pt2pt,random", options=patience)
    assert found == {(rank, f"eth{1 - nowhere}") for rank in range(3)}


def test_two_nics_of_a_host_reach_the_one_of_another(make_lab, verify, tmp_path):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    # One switch for all NICs. Host 0 uses one NIC, to which both NICs of host 1 connect.
    for host in (0, 1):
        plug(lab, host, 1, "master", "br0")
    lab.set_environment(0, OMPI_MCA_btl_rawe_if_include="eth0")
    assert senders(lab, 2, tmp_path, verify, *EFFORT) == {(0, "eth0"), (1, "eth0"), (1, "eth1")}
