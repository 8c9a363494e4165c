# SPDX-License-Identifier: BSD-3-Clause
"""The wire of the lab does to frames what it is told, and nothing else."""

import hashlib
import json
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show, wait_until

from rawelab import Lab, LabError, LabSpec, wire, wiring
from rawelab.capture import packets

# Frames with a number and their sending time, then a pattern; the machine has one clock for all.
SEND = """
import socket, struct, sys, time
device, mac, count, size, first = sys.argv[1:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((device, 0))
head = bytes.fromhex(mac.replace(":", "")) + wire.getsockname()[4] + b"\\x88\\xb5"
for number in range(int(first), int(first) + int(count)):
    body = struct.pack(">IQ", number, time.monotonic_ns())
    wire.send(head + body + bytes(i & 255 for i in range(int(size) - len(body))))
"""
# Everything of our EtherType that comes, as [number, age in ns, length, is as sent], until as many
# frames of whatever type have come as standard input says.
RECEIVE = """
import json, select, socket, struct, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
wire.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
wire.bind((sys.argv[1], 3))  # ETH_P_ALL
print("ready", flush=True)
seen, count, expected = [], 0, None
while expected is None or count < expected:
    inputs = [wire, sys.stdin] if expected is None else [wire]
    readable = select.select(inputs, [], [])[0]
    if wire in readable:
        frame = wire.recv(70000)
        count += 1
        if frame[12:14] == b"\\x88\\xb5":
            number, sent = struct.unpack_from(">IQ", frame, 14)
            good = frame[26:] == bytes(i & 255 for i in range(len(frame) - 26))
            seen.append((number, time.monotonic_ns() - sent, len(frame), good))
    if sys.stdin in readable:
        expected = int(sys.stdin.readline())
print(json.dumps(seen))
"""
SERVE_TCP = """
import hashlib, socket, sys
server = socket.create_server((sys.argv[1], 7777))
print("ready", flush=True)
connection = server.accept()[0]
content = hashlib.sha256()
while part := connection.recv(1 << 20):
    content.update(part)
print(content.hexdigest())
"""
SEND_TCP = """
import random, socket, sys
client = socket.create_connection((sys.argv[1], 7777))
client.sendall(random.Random(5).randbytes(int(sys.argv[2])))
"""
PYTHON = ["/usr/bin/python3", "-c"]


class Receiver:
    """A program on a host that notes the frames it gets."""

    def __init__(self, lab, host, nic=0):
        self.lab, self.host, self.nic = lab, host, nic
        self.process = subprocess.Popen(
            lab.host_command(host, [*PYTHON, RECEIVE, lab.nic(host, nic).device]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        self.before = lab.wire_total("delivered", host, nic)

    def frames(self):
        """End it once it has all that the wire has delivered, and the wire holds nothing more; the
        list of (number, age, length, good)."""
        wait_until(lambda: self.lab.wire_counters()[None]["held"] == 0, "empty wire")
        count = self.lab.wire_total("delivered", self.host, self.nic) - self.before
        return json.loads(self.process.communicate(f"{count}\n", timeout=HANG_SECONDS)[0])


def send(lab, sender, receiver, count, size=100, first=0):
    """Send numbered frames to a host's first NIC, or an address; the wire has got them all then."""
    address = receiver if isinstance(receiver, str) else lab.nic(receiver).mac
    before = lab.wire_total("frames", sender, 0, "out")
    done = lab.run(sender, [*PYTHON, SEND, "eth0", address, count, size, first])
    assert done.returncode == 0, done.stderr
    wait_until(
        lambda: lab.wire_total("frames", sender, 0, "out") >= before + count, "frame in the wire"
    )


def transfer(lab, count, **options):
    """Send frames from host 0 to host 1; those that arrive, as Receiver.frames()."""
    receiver = Receiver(lab, 1)
    send(lab, 0, 1, count, **options)
    return receiver.frames()


def numbers(frames):
    """The numbers of frames in their order of arrival."""
    return [number for number, _, _, _ in frames]


def assert_all_good(frames):
    """Every frame is as it was sent."""
    assert all(good for _, _, _, good in frames)


@pytest.fixture
def wired(make_lab):
    """A function that brings up two hosts on a wire with these faults."""

    def make(faults="", **options):
        return make_lab(**{"hosts": 2, "wire": faults, **options})

    return make


def test_a_wire_without_faults_delivers_everything_in_order(wired):
    frames = transfer(wired(), 2000)
    assert numbers(frames) == list(range(2000))
    assert_all_good(frames)


def test_every_host_reaches_every_other_and_hears_only_its_own(wired):
    lab = wired(hosts=3, nics=2)
    for nic in (0, 1):
        for sender in range(3):
            for receiver in range(3):
                if sender != receiver:
                    address = lab.nic(receiver, nic).address
                    done = lab.run(sender, ["ping", "-q", "-c", "1", "-W", "60", address])
                    assert done.returncode == 0, done.stdout
    bystander = Receiver(lab, 2)
    frames = transfer(lab, 50)
    assert len(frames) == 50
    assert bystander.frames() == []


def test_nics_of_different_numbers_are_on_different_switches(wired):
    lab = wired(nics=2)
    receiver = Receiver(lab, 1, nic=1)
    send(lab, 0, lab.nic(1, 1).mac, 20)
    assert receiver.frames() == []


def test_an_unknown_address_reaches_all_others_once(wired):
    lab = wired(hosts=3)
    receivers = [Receiver(lab, host) for host in (1, 2)]
    # Broadcast: packet sockets see it, whosoever address it has.
    send(lab, 0, "ff:ff:ff:ff:ff:ff", 20)
    for receiver in receivers:
        assert numbers(receiver.frames()) == list(range(20))


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_full_frames_pass(wired, mtu):
    frames = transfer(wired(mtu=mtu), 20, size=mtu)
    assert [length for _, _, length, _ in frames] == [mtu + 14] * 20
    assert_all_good(frames)


@pytest.mark.parametrize(
    "faults, counter, least, most, more",
    [
        # Binomial: 500 on average, standard deviation 21.
        ("loss=10%", "lost", 350, 650, -1),
        ("duplicate=10%", "duplicated", 350, 650, 1),
        ("reorder=10%:50ms", "reordered", 350, 650, 0),
        ("burst=100%:3600s", "burst_lost", 5000, 5000, -1),
        ("blackout=3600s", "blackout_lost", 5000, 5000, -1),
        ("mtu=99", "too_long", 5000, 5000, -1),
        ("mtu=100", "too_long", 0, 0, 0),
    ],
)
def test_a_fault_takes_about_its_share_and_is_counted(wired, faults, counter, least, most, more):
    lab = wired(faults)
    frames = transfer(lab, 5000)
    count = lab.wire_total(counter)
    assert least <= count <= most
    assert len(frames) == lab.wire_total("delivered", 1) == 5000 + more * count
    received = numbers(frames)
    assert (received == sorted(received)) == (counter != "reordered")
    times = Counter(received)
    assert len(times) == 5000 - (count if more < 0 else 0)
    assert set(times.values()) <= {1, 1 + max(more, 0)}
    assert_all_good(frames)


def test_one_seed_makes_the_same_losses_again_and_another_does_not(wired):
    lab = wired("loss=20%,seed=5")
    first = numbers(transfer(lab, 500))
    lab.set_wire("seed=5")
    assert numbers(transfer(lab, 500)) == first
    lab.set_wire("seed=6")
    assert numbers(transfer(lab, 500)) != first


def test_bursts_take_frames_in_a_row(wired):
    lab = wired("burst=1%:20")
    received = numbers(transfer(lab, 5000))
    lost = sorted(set(range(5000)) - set(received))
    assert lab.wire_total("burst_lost") == len(lost) > 0
    runs = [1]
    for before, after in zip(lost, lost[1:]):
        if after == before + 1:
            runs[-1] += 1
        else:
            runs.append(1)
    # Each is one burst, or several that follow each other at once; the last may be cut short.
    assert all(run % 20 == 0 for run in runs[:-1])


def test_corruption_flips_one_to_eight_bits_of_its_share(wired):
    lab = wired("corrupt=20%")
    frames = transfer(lab, 2000, size=1000)
    # Flips in addresses and EtherType keep a frame from being received as ours.
    assert len(frames) < 2000
    bad = sum(not good for _, _, _, good in frames)
    assert 250 < bad <= lab.wire_total("corrupted") < 550


def test_corruption_reaches_one_receiver_of_a_flooded_frame(wired):
    lab = wired(hosts=3)
    lab.set_wire("corrupt=100%", 1)
    untouched = Receiver(lab, 2)
    send(lab, 0, "ff:ff:ff:ff:ff:ff", 50)
    frames = untouched.frames()
    assert numbers(frames) == list(range(50))
    assert_all_good(frames)
    assert lab.wire_total("corrupted") == 50


def test_delay_is_never_shorter_than_told_and_keeps_the_order(wired):
    frames = transfer(wired("delay=20ms"), 300)
    assert numbers(frames) == list(range(300))
    assert min(age for _, age, _, _ in frames) >= 20_000_000


def test_a_blackout_ends_no_sooner_than_told(wired):
    lab = wired()
    began = time.monotonic()
    lab.set_wire("blackout=1s")
    wait_until(lambda: len(transfer(lab, 20)) == 20, "end of the blackout")
    assert time.monotonic() >= began + 1


def test_blackouts_come_again_and_again(wired):
    lab = wired("blackout=50ms/100ms")
    receiver = Receiver(lab, 1)
    changes, seen = 0, []
    deadline = time.monotonic() + HANG_SECONDS
    while changes < 6:  # between frames that pass and frames that do not
        assert time.monotonic() < deadline, f"{changes} changes"
        lost = lab.wire_total("blackout_lost")
        send(lab, 0, 1, 1)
        seen.append(lab.wire_total("blackout_lost") > lost)
        changes = sum(one != other for one, other in zip(seen, seen[1:]))
    assert len(receiver.frames()) == seen.count(False)


def test_a_rate_takes_its_time_and_its_buffer_drops_the_rest(wired):
    lab = wired("rate=5mbit,buffer=20000")
    # They would take ten seconds.
    count = 4000
    frames = transfer(lab, count, size=1400)
    line_bytes = 1400 + 14 + 24
    # What the buffer holds, and what leaves while the sender is at it.
    assert 20000 // line_bytes <= len(frames) < count
    assert lab.wire_total("buffer_full") == count - len(frames)
    assert numbers(frames) == sorted(numbers(frames))
    ages = [age for _, age, _, _ in frames]
    assert min(ages) >= line_bytes * 8 / 5e6 * 1e9


def test_directions_are_hurt_one_by_one(wired):
    lab = wired()
    for direction, forwards, backwards in (("in", 0, 10), ("out", 10, 0)):
        lab.set_wire("loss=100%", 1, direction=direction)
        lab.set_wire("delay=1ms")  # leaves other faults as they are
        assert len(transfer(lab, 10)) == forwards
        receiver = Receiver(lab, 0)
        send(lab, 1, 0, 10)
        assert len(receiver.frames()) == backwards
        lab.set_wire("none", direction="both")
        assert len(transfer(lab, 10)) == 10


def send_over_tcp(lab, length):
    """Send random bytes over TCP from host 0 to host 1; they must arrive as they were."""
    server = subprocess.Popen(
        lab.host_command(1, [*PYTHON, SERVE_TCP, lab.nic(1).address]),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout.readline() == "ready\n"
    done = lab.run(0, [*PYTHON, SEND_TCP, lab.nic(1).address, length], timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    output = server.communicate(timeout=HANG_SECONDS)[0]
    assert output.strip() == hashlib.sha256(random.Random(5).randbytes(length)).hexdigest()


def tcp_counter(lab, host, name):
    """One of the counters of a host's TCP."""
    lines = lab.run(host, ["cat", "/proc/net/snmp"]).stdout.splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index(name)])


@pytest.mark.parametrize("nic", ["plain", "cut"])
def test_tcp_arrives_in_frames_as_it_was_sent(wired, tmp_path, nic):
    lab = wired("mtu=1500", nic=nic)
    file = tmp_path / "tcp.pcap"
    # At the sender: a NIC that is cut merges what it receives.
    capture = lab.capture(0, file, ["tcp", "and", "dst", "port", "7777"], count=20)
    length = 20_000_000
    send_over_tcp(lab, length)
    assert capture.wait(HANG_SECONDS) == 0
    assert max(length for _, length in packets(file)) <= 1514
    assert lab.wire_total("too_long") == 0
    # Some come again: when the wire is not scheduled for a while, its queue overflows.
    overflown = lab.wire_total("refused", 0, direction="out")
    assert tcp_counter(lab, 0, "RetransSegs") < length / 1448 / 10 + overflown * 45
    assert tcp_counter(lab, 1, "InErrs") == 0


def test_checksums_are_complete_so_that_tcp_notices_corruption(wired):
    lab = wired("corrupt=1%")
    send_over_tcp(lab, 3_000_000)
    assert lab.wire_total("corrupted") > 0


def test_batches_of_rawe_are_cut_into_good_frames(wired, build, verify):
    lab = wired()
    arguments = ["-np", 2, *RAWE, "--mca", "btl_rawe_stats", "1"]
    arguments += [verify, "--quick", "--scale", "0.1", "--only", "pt2pt"]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    text = result.output + result.errors
    assert re.search(r"validations_passed=[1-9]", text), show(result)
    assert not re.search(r"validations_failed=[1-9]", text), show(result)


@pytest.mark.parametrize(
    "faults, word",
    [
        ("loss=101%", "percentage"),
        ("loss=-1%", "percentage"),
        ("loss", "KEY|form|delay=1ms"),
        ("delay=1", "1ms"),
        ("delay=2h", "1ms"),
        ("burst=1%", "0.1%:20"),
        ("burst=1%:0", "0.1%:20"),
        ("reorder=1%:soon", "20%:1ms"),
        ("rate=fast", "1gbit"),
        ("buffer=1T", "64k"),
        ("mtu=70000", "65535"),
        ("blackout=1s/1ms", "50ms/1s"),
        ("seed=x", "seed=NUMBER"),
        ("colour=red", "there is no setting"),
    ],
)
def test_faults_that_make_no_sense_are_refused_and_change_nothing(refusing_lab, faults, word):
    with pytest.raises(LabError, match=word):
        refusing_lab.set_wire(f"loss=100%,{faults}")
    done = refusing_lab.run(0, ["ping", "-q", "-c", "1", "-W", "60", refusing_lab.nic(1).address])
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def refusing_lab(request):
    """One lab for all the refusals."""
    with Lab(build=request.config.getoption("--build"), hosts=2, topology="wire") as lab:
        yield lab


def test_wrong_faults_at_start_are_told_and_leave_no_lab(wired):
    with pytest.raises(LabError, match="wanted is a percentage"):
        wired("loss=many", name="badwire")
    assert not [name for name in wiring.existing_namespaces() if "rawe-badwire-" in name]


def test_a_lab_without_a_wire_says_so(make_lab):
    lab = make_lab(hosts=2)
    with pytest.raises(LabError, match="--wire"):
        lab.set_wire("loss=1%")
    with pytest.raises(LabError, match="topology"):
        LabSpec(topology="pair", wire="loss=1%").resolve()
    with pytest.raises(LabError, match="--nic whole"):
        LabSpec(wire="loss=1%", nic="whole").resolve()


def test_the_wire_survives_links_that_go_down_and_nics_that_vanish(wired):
    lab = wired(hosts=3)
    lab.link_down(1)
    lab.link_up(1)
    assert len(transfer(lab, 10)) == 10
    lab.delete_nic(2)
    assert len(transfer(lab, 10)) == 10


def test_the_wire_ends_with_its_lab(wired):
    lab = wired(hosts=3)
    pids = [pid for pid in wiring.processes(lab.namespaces) if pid not in lab.processes()]
    assert len(pids) == 1
    lab.down()
    assert not wire.socket_path(lab.directory).exists()
    assert not Path(f"/proc/{pids[0]}").exists()
