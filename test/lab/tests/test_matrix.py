# SPDX-License-Identifier: BSD-3-Clause
"""Every byte arrives over rawe: layouts of ranks and hosts, MTUs, losses."""

import pytest
from conftest import BEYOND_OPEN_MPI, ETHERTYPE, HANG_SECONDS, RAWE, assert_success, show, thorough

from rawelab import launch

PT2PT = ["--mca", "osc", "pt2pt"]
LAYOUTS = [(2, 2), (4, 2), (8, 4)]
# All combinations together take a few minutes on two cores.
EFFORT = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI]


def verify_over_rawe(lab, build, verify, ranks, effort, timeout, options=()):
    """Run the verification program over rawe alone; frames of rawe must reach each host."""
    lab.count_frames(ETHERTYPE)
    arguments = ["-np", ranks, *RAWE, *options, verify, *effort]
    result = lab.mpirun(arguments, timeout=timeout, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
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
def test_every_byte_arrives(make_lab, build, verify, ranks, hosts, mtu, loss):
    lab = make_lab(hosts=hosts, mtu=mtu, loss=loss)
    verify_over_rawe(lab, build, verify, ranks, EFFORT, HANG_SECONDS)
    if loss:
        assert lab.dropped() > 0


# Ranks wait for each other's locks, which takes minutes with many more ranks than cores.
@pytest.mark.parametrize("ranks, hosts, loss", [(2, 2, 0), (2, 2, 1), (4, 2, 0)])
def test_every_byte_arrives_one_sided(make_lab, build, verify, ranks, hosts, loss):
    lab = make_lab(hosts=hosts, loss=loss)
    groups, most = ("onesided,windows", "70000") if ranks == 2 else ("onesided", "2K")
    effort = ["--quick", "--scale", "0.1", "--max-bytes", most, "--only", groups]
    verify_over_rawe(lab, build, verify, ranks, effort, HANG_SECONDS)


def test_every_byte_arrives_one_sided_with_threads(make_lab, build, verify):
    effort = ["--quick", "--scale", "0.1", "--only", "onesided,windows"]
    effort += ["--thread-level", "multiple"]
    verify_over_rawe(make_lab(hosts=2), build, verify, 2, effort, HANG_SECONDS)


BY_MESSAGES = pytest.mark.skipif(launch.open_mpi()[0] >= 5, reason="5.0 has no osc/pt2pt")


@pytest.mark.parametrize(
    "options, by_rawe",
    [
        ((), True),  # as Debian configures 4.1: without osc/pt2pt
        pytest.param(("--mca", "osc", "^ucx"), False, marks=BY_MESSAGES),
        pytest.param(("--mca", "osc", "^ucx", "--mca", "btl_rawe_windows", "1"), True),
    ],
)
def test_what_serves_windows(make_lab, build, verify, options, by_rawe):
    """osc/rdma reports that it was selected; 5.0 always selects it, but also names the BTL."""
    lab = make_lab(hosts=2)
    options = [*options, "--mca", "osc_base_verbose", 50]
    arguments = ["-np", 2, *RAWE, *options, verify, "--quick", "--scale", "0.01"]
    result = lab.mpirun([*arguments, "--only", "onesided"], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    said = "rdma component" if launch.open_mpi()[0] < 5 else "selected btl: rawe"
    assert (said in result.output + result.errors) == by_rawe, show(result)


@BY_MESSAGES
def test_windows_of_messages_pass_as_well(make_lab, build, verify):
    effort = ["--quick", "--scale", "0.1", "--only", "onesided"]
    verify_over_rawe(make_lab(hosts=2), build, verify, 2, effort, HANG_SECONDS, PT2PT)


def test_sends_that_nobody_is_called_for_arrive(make_lab, build):
    """Windows of Open MPI 5.0 answer by sends without callback. These fill all queues."""
    program = build / "test/lab/watch/rawe-uncalled"
    lab = make_lab(hosts=2)
    result = lab.mpirun(["-np", 2, *RAWE, program, 20000], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "20000 arrived" in result.output, show(result)


@pytest.mark.parametrize("topology", [thorough("pair"), "switch"])
@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
def test_every_byte_arrives_with_and_without_offloads_and_switch(
    make_lab, build, verify, topology, nic
):
    lab = make_lab(hosts=2, topology=topology, nic=nic)
    verify_over_rawe(lab, build, verify, 2, EFFORT, HANG_SECONDS)


def test_every_byte_arrives_through_slow_ports_with_small_buffers(make_lab, build, verify):
    lab = make_lab(hosts=4, rate="1gbit", buffer=64 * 1024)
    verify_over_rawe(lab, build, verify, 4, EFFORT, HANG_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize("loss", [0, 1, 10])
@pytest.mark.parametrize("mtu", [1500, 9000, 65000])
@pytest.mark.parametrize("ranks, hosts", LAYOUTS)
def test_every_byte_arrives_in_large_messages_too(make_lab, build, verify, ranks, hosts, mtu, loss):
    lab = make_lab(hosts=hosts, mtu=mtu, loss=loss)
    verify_over_rawe(
        lab, build, verify, ranks, ["--max-bytes", "256M", "--skip", BEYOND_OPEN_MPI], 1800
    )
