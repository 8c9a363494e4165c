# SPDX-License-Identifier: BSD-3-Clause
"""Packet sockets on both hosts show where batches are cut into frames and frames are merged."""

import json
import subprocess

import pytest

from rawelab import LabError, offloads

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


@pytest.mark.parametrize(
    "nic, on, off",
    [
        ("plain", set(), {offloads.GRO_NAME, *offloads.CUTTING_NAMES}),
        ("cut", {offloads.GRO_NAME}, offloads.CUTTING_NAMES),
        ("whole", {"tcp-segmentation-offload"}, set()),
    ],
)
def test_apply__on_hosts_and_switch(make_lab, nic, on, off):
    lab = make_lab(hosts=3, nic=nic)
    for host in lab.hosts:
        for end in ((host.netns, "eth0"), (lab.namespaces[-1], host.nics[0].port)):
            active = offloads.active(*end)
            assert on <= active and not active & off
            assert nic != "plain" or not active


def test_spec__only_known_kinds_of_nic(make_lab):
    with pytest.raises(LabError, match="choose one of whole, cut, plain"):
        make_lab(hosts=2, nic="off")
