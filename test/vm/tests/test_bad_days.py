# SPDX-License-Identifier: BSD-3-Clause
"""NICs, links and hosts change while a job runs: it succeeds exactly, or ends with one message, and
never hangs."""

import time

import pytest
from conftest import (
    JOB_SECONDS,
    Steady,
    assert_exact,
    assert_message,
    counters,
    help_messages,
    on_all,
    show,
    silent_kernels,
)
from rawevm.fetch import KERNELS
from rawevm.spec import NICS, address

KERNEL = "6.12"
PATIENCE_SECONDS = 20
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", PATIENCE_SECONDS)
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
    for _ in range(3):  # Open MPI sometimes loses a help message
        cluster = fresh_cluster_of(nic=nic, kernel=KERNEL)
        job = Steady(cluster, build, steady, arguments=IMPATIENT)
        cluster.hosts[1].shell(
            "device=$(readlink -f /sys/class/net/eth0/device)\n"
            "driver=$(readlink -f $device/driver)\n"
            "echo ${device##*/} > $driver/unbind; sleep 1; echo ${device##*/} > $driver/bind\n"
            "until [ -e /sys/class/net/eth0 ]; do sleep 0.1; done\n"
            f"ip address add {address('eth0', 1)}/16 dev eth0; ip link set eth0 up"
        )
        # This is a new interface, which the job does not know.
        result = cluster.finish(job.job, JOB_SECONDS)
        assert result.returncode != 0, show(result)
        if help_messages(result):
            break
    assert_message(result, "eth0")


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
