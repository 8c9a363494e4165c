# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel does with batches and frames: it cuts, merges, queues and refuses them."""

import json
import subprocess

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    HANG_SECONDS,
    STATS,
    UntilJob,
    counted,
    reports,
    run_job,
    run_verify,
    show,
    wait_until,
)
from test_helper import as_nobody, place  # noqa: F401 (a fixture)

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
    """Return the counters that have increased, with their increments."""
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
def test_batches_are_in_use_and_exact(make_lab, verify, nic):
    lab = make_lab(hosts=2, nic=nic)
    result = run_verify(lab, 2, *STATS, verify, "--quick", "--skip", BEYOND_OPEN_MPI)
    assert counted(result, "validations_passed") > 0, show(result)
    assert counted(result, "validations_failed", "bulk_send_errors") == 0, show(result)
    batches = counted(result, "batches_sent")
    assert counted(result, "bulk_frames_sent") > 2 * batches > 0, show(result)


MTU = 1500
FRAME_BYTES = MTU + 14
# Each host counts what a packet socket sees on its NIC, while it transfers bytes over TCP and GSO
# batches over UDP. It prints the number and the largest size of frames sent and received.
PROGRAM = """
import json, socket, sys
role, own, other, port = sys.argv[1:]
SO_RCVBUFFORCE, SOL_UDP, UDP_SEGMENT, ETH_P_ALL, PACKET_OUTGOING = 33, 17, 103, 3, 4
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
tap.bind(("eth0", ETH_P_ALL))
tap.setblocking(False)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if role == "receive":
    datagrams.bind((own, int(port)))
    with socket.create_server((own, int(port))) as server:
        print("ready", flush=True)
        stream, _ = server.accept()
    got = 0
    while piece := stream.recv(1 << 20):
        got += len(piece)
    assert got == 8 << 20, got
    assert sum(len(datagrams.recv(2000)) for _ in range(40)) == 40000
else:
    datagrams.setsockopt(SOL_UDP, UDP_SEGMENT, 1000)
    datagrams.sendto(bytes(40000), (other, int(port)))
    with socket.create_connection((other, int(port))) as stream:
        stream.sendall(bytes(8 << 20))
        stream.shutdown(socket.SHUT_WR)
        stream.recv(1)  # the other end has closed: all has arrived
found = {}
while True:
    try:
        length, _, _, address = tap.recvmsg_into([bytearray(64)], 0, socket.MSG_TRUNC)
    except BlockingIOError:
        break
    found.setdefault("out" if address[2] == PACKET_OUTGOING else "in", []).append(length)
print(json.dumps({way: [len(sizes), max(sizes)] for way, sizes in found.items()}))
"""


def move(lab):
    """Transfer data, and return what the packet sockets of sender and receiver saw, each as {"out":
    [frames, bytes of the largest], "in": ...}."""
    own, other = lab.nic(0).address, lab.nic(1).address
    words = ["/usr/bin/python3", "-c", PROGRAM]
    argv = lab.host_command(1, [*words, "receive", other, own, 5000])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        done = lab.run(0, [*words, "send", own, other, 5000])
        assert done.returncode == 0, done.stderr
        received = receiver.communicate()[0]
    assert receiver.returncode == 0
    return json.loads(done.stdout), json.loads(received)


@pytest.mark.parametrize("topology", ["pair", "switch"])
@pytest.mark.parametrize(
    ("nic", "cut_at_sender", "merged_at_receiver"),
    [("whole", False, True), ("cut", True, True), ("plain", True, False)],
)
def test_batches_are_cut_and_frames_merged(
    make_lab, nic, topology, cut_at_sender, merged_at_receiver
):
    sent, received = move(make_lab(hosts=2, topology=topology, nic=nic, mtu=MTU))
    # A packet socket on a veth sees what the driver gets, after the kernel's segmentation.
    assert (sent["out"][1] <= FRAME_BYTES) == cut_at_sender, sent
    assert (received["in"][1] > FRAME_BYTES) == merged_at_receiver, received
    if nic == "cut":
        frames = (8 << 20) // MTU
        assert sent["out"][0] > frames, sent
        assert received["in"][0] < frames, received


# A link accepts this much at once: a batch, or fewer frames than a long message has. Its queue
# holds two of these, and takes longer for a frame than the slowest machine takes to send one.
RATE = "40mbit"
BATCH_BYTES = 70000
FRAMES_BYTES = 8000
IPV4 = 0x0800  # the EtherType of batches
PT2PT = ("--quick", "--scale", "0.1", "--only", "pt2pt")


def sums(result, *names):
    """Return the sum of these counters for each rank on the network."""
    return {
        rank: sum(counters[name] for name in names)
        for (rank, interface), counters in reports(result.errors).items()
        if interface == "eth0"
    }


@pytest.mark.parametrize("batches", [0, 1])
def test_all_arrives_through_links_that_refuse(make_lab, verify, batches):
    # Each rank has three peers, and the job ends only if all connections make progress.
    lab = make_lab(hosts=4)
    at_once = BATCH_BYTES if batches else FRAMES_BYTES
    lab.set_short_queue(RATE, at_once, 2 * at_once)
    options = ["--mca", "btl_rawe_batches", batches, *STATS]
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random,flood"]
    result = run_verify(lab, 4, *options, verify, *effort)
    refused = sums(result, "link_send_full", "bulk_send_full")
    assert len(refused) == 4 and min(refused.values()) > 0, refused
    assert set(sums(result, "link_send_errors").values()) == {0}


@pytest.mark.thorough
def test_batches_refused_for_long_count_as_lost(make_lab, exchange):
    lab = make_lab(hosts=2)
    job = UntilJob(lab, exchange, *STATS)
    # A sender uses batches once one has been acknowledged. No other packets here are IPv4.
    lab.count_frames(IPV4)
    wait_until(lambda: all(lab.frames(host) > 100 for host in lab.hosts), "batches")
    lab.refuse_batches()
    wait_until(lambda: all(lab.dropped(host, purpose="refuse") for host in lab.hosts), "refusal")
    # The messages are longer than a frame, so the rest of them arrived in plain frames.
    result = job.end()
    assert min(sums(result, "bulk_send_full").values()) > 0
    assert min(sums(result, "bulk_send_errors").values()) > 0
    assert min(sums(result, "link_frames_sent").values()) > 0


def test_batches_refused_from_the_start_do_not_stop_a_job(make_lab, verify):
    lab = make_lab(hosts=2)
    lab.refuse_batches()
    result = run_verify(lab, 2, *STATS, verify, *PT2PT)
    assert min(sums(result, "bulk_send_full").values()) > 0


TABLE = """table netdev rawe_priority {{
    chain egress {{
        type filter hook egress device "{device}" priority 0; policy accept;
        meta priority 0:{priority} counter accept
        counter
    }}
}}
"""


def count_sent(lab, device, priority):
    """Start to count, from 0, the packets that each host sends through a device."""
    for host in lab.hosts:
        script = TABLE.format(device=device, priority=priority)
        done = lab.run(host, ["nft", "-f", "-"], input=script)
        assert done.returncode == 0, done.stderr


def sent_counts(lab):
    """Yield for each host the numbers of packets sent with the priority, and with another one."""
    for host in lab.hosts:
        listing = lab.run(host, ["nft", "-j", "list", "table", "netdev", "rawe_priority"]).stdout
        rules = [part["rule"] for part in json.loads(listing)["nftables"] if "rule" in part]
        yield tuple(
            match["counter"]["packets"]
            for rule in rules
            for match in rule["expr"]
            if "counter" in match
        )


@pytest.mark.parametrize("priority", [None, 1, 6])
def test_all_that_is_sent_has_the_priority(make_lab, verify, priority):
    lab = make_lab(hosts=2)
    count_sent(lab, "eth0", priority or 0)
    options = ["--mca", "btl_rawe_socket_priority", priority] if priority else []
    result = run_job(lab, 2, *options, verify, *PT2PT)
    for with_it, others in sent_counts(lab):
        assert with_it > 0 and others == 0, show(result)


def test_sockets_of_the_helper_have_the_priority(make_lab, place):  # noqa: F811
    lab = make_lab(hosts=1)
    count_sent(lab, "lo", 6)
    options = ["--mca", "btl_rawe_socket_priority", 6]
    run_verify(lab, 2, *options, place / "rawe-verify", *PT2PT, **as_nobody(place))
    ((with_it, _),) = sent_counts(lab)
    assert with_it > 0
