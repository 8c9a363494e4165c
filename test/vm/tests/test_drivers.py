# SPDX-License-Identifier: BSD-3-Clause
"""Real drivers on real kernels: every byte arrives, in batches, also over bonds of two NICs.

NICs, links and hosts change while a job runs: it succeeds exactly, or ends with one message, and
never hangs.
"""

import time

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
    on_all,
    show,
    silent_kernels,
)
from rawevm.cluster import NICS, address
from rawevm.fetch import KERNELS

# The counters that show that batches are used, and those that the final report shows.
IN_USE = ("validations_passed", "bulk_frames_received")
NOTED = (*IN_USE, "batches_sent", "bulk_send_errors", "frames_sent", "frames_resent")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nic", NICS)
def test_every_byte_arrives(cluster_of, build, verify, nic, kernel, note):
    cluster = cluster_of(nic=nic, kernel=kernel)
    with silent_kernels(cluster):
        result = assert_exact(cluster, build, verify, groups=None)
    found = counters(result, "eth0")
    note(" ".join(f"{name}={found[name]}" for name in NOTED))
    assert found["frames_received"] > 0
    assert all(found[name] > 0 for name in IN_USE), found
    with on_all(cluster, "ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500"):
        assert_exact(cluster, build, verify)


def test_three_machines(fresh_cluster_of, build, verify):
    cluster = fresh_cluster_of(hosts=3, kernel="6.12")
    assert_exact(cluster, build, verify, ranks=3, groups="pt2pt,random,unexpected")


KERNEL = "6.12"
PATIENT = ("--mca", "btl_rawe_peer_timeout", 120)  # emulated machines take long to bind a driver
DOWN_SECONDS = 3


@pytest.mark.parametrize("nic", NICS)
def test_a_vlan(cluster_of, build, verify, nic):
    cluster = cluster_of(nic=nic, kernel=KERNEL)
    for index, host in enumerate(cluster.hosts):
        host.shell(
            "modprobe 8021q; ip link add link eth0 name eth0.7 type vlan id 7;"
            f"ip address add 10.90.0.{index + 1}/16 dev eth0.7; ip link set eth0.7 up"
        )
    try:
        result = assert_exact(cluster, build, verify, devices="eth0.7")
        assert counters(result, "eth0.7")["frames_received"] > 0, show(result)
    finally:
        for host in cluster.hosts:
            host.shell("ip link delete eth0.7")


@pytest.mark.parametrize("nic", NICS)
def test_a_link_goes_down_and_up_again(cluster_of, build, steady, nic):
    cluster = cluster_of(nic=nic, kernel=KERNEL)
    job = Steady(cluster, build, steady)
    cluster.hosts[1].shell(f"ip link set eth0 down; sleep {DOWN_SECONDS}; ip link set eth0 up")
    job.goes_on()
    assert not help_messages(job.end())


def test_a_cable_is_pulled_and_plugged_in_again(cluster_of, build, steady):
    cluster = cluster_of(nic="e1000e", kernel=KERNEL)
    job = Steady(cluster, build, steady)
    cluster.pull("eth0")
    try:
        cluster.hosts[0].shell("until grep -q 0 /sys/class/net/eth0/carrier; do sleep 0.1; done")
        time.sleep(DOWN_SECONDS)
    finally:
        cluster.plug_in("eth0")
    job.goes_on()
    assert not help_messages(job.end())


@pytest.mark.parametrize("hosts", [(0,), (0, 1)], ids=["one-host", "both-hosts"])
@pytest.mark.parametrize("first, then", [(1500, 1200), (9000, 1500)])
def test_an_mtu_is_lowered(cluster_of, build, steady, hosts, first, then):
    cluster = cluster_of(nic="e1000e", kernel=KERNEL)
    with on_all(cluster, f"ip link set eth0 mtu {first}", "ip link set eth0 mtu 1500"):
        job = Steady(cluster, build, steady)
        for host in hosts:
            cluster.hosts[host].shell(f"ip link set eth0 mtu {then}")
        job.goes_on()
        result = job.end()
    assert len(help_messages(result)) <= 1, show(result)


@pytest.mark.parametrize("nic", NICS)
def test_a_driver_is_unbound_and_bound_again(fresh_cluster_of, build, steady, nic):
    """The kernel makes a new interface, which the job uses again."""
    cluster = fresh_cluster_of(nic=nic, kernel=KERNEL)
    job = Steady(cluster, build, steady, arguments=PATIENT)
    cluster.hosts[1].shell(
        "device=$(readlink -f /sys/class/net/eth0/device)\n"
        "driver=$(readlink -f $device/driver)\n"
        "echo ${device##*/} > $driver/unbind; sleep 1; echo ${device##*/} > $driver/bind\n"
        "until [ -e /sys/class/net/eth0 ]; do sleep 0.1; done\n"
        f"ip address add {address('eth0', 1)}/16 dev eth0; ip link set eth0 up"
    )
    job.goes_on()
    assert not help_messages(job.end())


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_stateful_firewall(cluster_of, build, verify, kernel):
    cluster = cluster_of(nic="vmxnet3", kernel=kernel)
    rules = (
        "modprobe -a nf_conntrack nft_ct; nft -f - <<'END'\n"
        "table inet firewall {\n"
        "  chain input {\n"
        "    type filter hook input priority 0; policy drop;\n"
        "    ct state established,related accept\n"
        "    ct state invalid counter drop\n"
        '    iifname { "lo", "ctl0" } accept\n'
        "    meta l4proto icmp accept\n"
        "  }\n"
        "}\n"
        "END"
    )
    with on_all(cluster, rules, "nft delete table inet firewall"), silent_kernels(cluster):
        assert_exact(cluster, build, verify)


@pytest.mark.parametrize("kernel", KERNELS)
def test_martians_are_logged(cluster_of, build, verify, note, kernel):
    cluster = cluster_of(nic="vmxnet3", kernel=kernel)
    before = (
        "dmesg -C; for f in all eth0; do echo 1 > /proc/sys/net/ipv4/conf/$f/log_martians; done"
    )
    with on_all(cluster, before, before.replace("echo 1", "echo 0")):
        assert_exact(cluster, build, verify)
        logged = cluster.hosts[0].shell("dmesg | grep -c martian || true").output.strip()
    note(f"the kernel logged {logged} martians")


@pytest.mark.parametrize("nic", ["e1000e", "virtio-net"])
@pytest.mark.parametrize(
    "faults",
    ["delay 5ms 2ms reorder 25%", "delay 2ms loss 1% duplicate 1%"],
    ids=["reorder", "loss"],
)
def test_netem(cluster_of, build, verify, nic, faults):
    cluster = cluster_of(nic=nic, kernel=KERNEL)
    shape = f"modprobe sch_netem; tc qdisc replace dev eth0 root netem {faults} limit 10000"
    with on_all(cluster, shape, "tc qdisc delete dev eth0 root"):
        result = assert_exact(cluster, build, verify)
    if "loss" in faults:
        assert counters(result, "eth0")["frames_resent"] > 0


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
