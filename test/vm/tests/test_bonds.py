# SPDX-License-Identifier: BSD-3-Clause
"""Bonds of two NICs, each with its own cable to the other machine."""

import pytest
from conftest import (
    GROUPS,
    JOB_SECONDS,
    RAWE,
    Steady,
    assert_exact,
    assert_message,
    counters,
    help_messages,
    show,
)
from rawevm.fetch import KERNELS


@pytest.fixture
def bonded(fresh_cluster_of):
    """A function that brings up two machines, each with a bond of this mode."""

    def make(kernel, mode, options=""):
        cluster = fresh_cluster_of(nic="e1000e", nics=2, kernel=kernel)
        for index, host in enumerate(cluster.hosts):
            host.shell(
                f"modprobe bonding max_bonds=0; ip link add bond0 type bond mode {mode} "
                f"miimon 100 {options}\n"
                "for one in eth0 eth1; do\n"
                "  ip address flush dev $one; ip link set $one down\n"
                "  ip link set $one master bond0\n"
                "done\n"
                f"ip address add 10.91.0.{index + 1}/16 dev bond0; ip link set bond0 up\n"
                "until grep -q up /sys/class/net/bond0/operstate; do sleep 0.1; done"
            )
        return cluster

    return make


def active(host):
    """Return the active port of the bond."""
    return host.shell("cat /sys/class/net/bond0/bonding/active_slave").output.strip()


@pytest.mark.parametrize("kernel", KERNELS)
def test_active_backup_loses_its_active_leg(bonded, build, steady, kernel):
    cluster = bonded(kernel, "active-backup", "primary eth0")
    for host in cluster.hosts:
        host.shell(
            "until grep -q eth0 /sys/class/net/bond0/bonding/active_slave; do sleep 0.1; done"
        )
    job = Steady(cluster, build, steady, devices="bond0")
    cluster.pull("eth0")
    job.goes_on()
    assert [active(host) for host in cluster.hosts] == ["eth1", "eth1"]
    cluster.plug_in("eth0")
    job.goes_on()
    result = job.end()
    assert not help_messages(result), show(result)
    assert counters(result, "bond0")["frames_received"] > 0, show(result)


def test_802_3ad(bonded, build, verify, steady):
    cluster = bonded("6.12", "802.3ad", "lacp_rate fast xmit_hash_policy layer3+4")
    for host in cluster.hosts:
        host.shell("until grep -q 'Number of ports: 2' /proc/net/bonding/bond0; do sleep 0.2; done")
    result = assert_exact(cluster, build, verify, devices="bond0")
    assert counters(result, "bond0")["frames_received"] > 0, show(result)
    job = Steady(cluster, build, steady, devices="bond0")
    cluster.pull("eth1")
    job.goes_on()
    assert not help_messages(job.end())


@pytest.mark.parametrize("mode", ["balance-rr", "balance-xor"])
def test_a_static_aggregate(bonded, build, verify, mode):
    assert_exact(bonded("6.12", mode), build, verify, devices="bond0")


# The bond sends batches, which look like IP, through any port with that port's own address, so the
# peer drops them. It sends all other frames through the active port.
@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_balance_alb_is_exact_or_refused_with_a_message(bonded, build, verify, kernel):
    cluster = bonded(kernel, "balance-alb")
    words = ["-np", 2, *RAWE, verify, "--quick", "--only", GROUPS, "--timeout", 90]
    result = cluster.finish(cluster.start_mpirun(words, build, "bond0"), JOB_SECONDS)
    assert "HANG" not in result.errors, show(result)
    if result.returncode != 0:
        assert_message(result, "bond0")
