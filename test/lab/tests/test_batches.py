# SPDX-License-Identifier: BSD-3-Clause
"""Batches look like TCP: NICs cut and merge them, and no host's TCP answers them."""

import re
import subprocess

import pytest
from conftest import BEYOND_OPEN_MPI, HANG_SECONDS, RAWE, assert_success, show

STATS = ("--mca", "btl_rawe_stats", "1")
# Accept answers, and refuse all other TCP with a RST.
STATEFUL = """
table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        iifname "lo" accept
        ct state established,related accept
        ct state invalid drop
        meta l4proto tcp reject with tcp reset
    }
}
"""
# IP counters that a host may increment when it only receives batches.
SEEN_BY_IP = {"InReceives", "InOctets", "InNoECTPkts", "InMcastPkts"}


def rules_possible():
    """Return true if this kernel accepts the rules above, in a new network namespace."""
    try:
        tried = subprocess.run(
            ["unshare", "--net", "nft", "-f", "-"], input=STATEFUL, text=True, capture_output=True
        )
    except FileNotFoundError:
        return False
    return tried.returncode == 0


def counters(lab, host):
    """Return all IP and TCP counters of a host by name."""
    lines = []
    for file in ("/proc/net/snmp", "/proc/net/netstat"):
        lines += lab.run(host, ["cat", file], check=True).stdout.splitlines()
    found = {}
    for names, values in zip(lines[::2], lines[1::2]):
        protocol, *names = names.split()
        if protocol in ("Ip:", "IpExt:", "Tcp:", "TcpExt:", "Icmp:"):
            found.update(
                (protocol + name, int(value)) for name, value in zip(names, values.split()[1:])
            )
    return found


def moved(before, after):
    """Return the counters that have grown, with their increase."""
    return {name: after[name] - before[name] for name in after if after[name] > before[name]}


@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
@pytest.mark.parametrize("stateful", [False, True] if rules_possible() else [False])
def test_tcp_does_not_answer(make_lab, build, tmp_path, nic, stateful):
    lab = make_lab(hosts=2, nic=nic)
    if stateful:
        lab.run(1, ["nft", "-f", "-"], input=STATEFUL, check=True)
    file = tmp_path / "sent.pcap"
    # Host 1 must send no IP packet on that NIC.
    capture = lab.capture(1, file, ["ip", "and", "ether", "src", lab.nic(1).mac])
    ping = build / "tools/rawe-ping"
    listener = subprocess.Popen(
        lab.host_command(1, [ping, "--listen", "-i", "eth0", "-s", 20]),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "listening" in listener.stdout.readline()
    before = counters(lab, 1)
    asked = lab.run(0, [ping, "-i", "eth0", "-c", 3, lab.nic(1).mac], timeout=HANG_SECONDS)
    after = counters(lab, 1)
    listener.terminate()
    listener.communicate(timeout=HANG_SECONDS)
    sent = capture.end()
    assert asked.returncode == 0 and "batches: pass" in asked.stdout, asked.stdout + asked.stderr
    grown = moved(before, after)
    assert grown["Ip:InReceives"] > 0, "the batch has not been through the host's stack"
    strange = {name for name in grown if name.split(":")[1] not in SEEN_BY_IP}
    assert not strange, grown
    shown = subprocess.run(["tcpdump", "-nr", file], capture_output=True, text=True, check=True)
    assert sent == 0, shown.stdout


@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
def test_batches_are_in_use_and_exact(make_lab, build, verify, nic):
    lab = make_lab(hosts=2, nic=nic)
    arguments = ["-np", 2, *RAWE, *STATS, verify, "--quick", "--skip", BEYOND_OPEN_MPI]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    reports = re.findall(r"rawe: host \S+ rank \d+ interface eth0: (.*)", result.errors)
    total = {}
    for report in reports:
        for name, value in re.findall(r"(\w+)=(\d+)", report):
            total[name] = total.get(name, 0) + int(value)
    assert total["validations_passed"] > 0 and total["validations_failed"] == 0, show(result)
    assert total["bulk_send_errors"] == 0, show(result)
    assert total["bulk_frames_sent"] > 2 * total["batches_sent"] > 0, show(result)
