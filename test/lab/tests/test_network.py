# SPDX-License-Identifier: BSD-3-Clause
"""The lab's virtual network is as its options specify; its wire applies only requested faults."""

import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, STATS, counted, run_verify, show, thorough, wait_until

from rawelab import Lab, LabError, LabSpec, wire, wiring
from rawelab.spec import parse_percent, parse_rate

# Sends frames with a number, the sending time, and a pattern. All hosts share one clock.
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
# Prints each frame of our EtherType as [number, age in ns, length, is unchanged], once the number
# of frames, of any type, that standard input specifies has arrived.
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
        if frame[12:14] == b"\\x88\\xb5" and len(frame) >= 26:
            number, sent = struct.unpack_from(">IQ", frame, 14)
            good = frame[26:] == bytes(i & 255 for i in range(len(frame) - 26))
            seen.append((number, time.monotonic_ns() - sent, len(frame), good))
    if sys.stdin in readable:
        expected = int(sys.stdin.readline())
print(json.dumps(seen))
"""
PYTHON = ["/usr/bin/python3", "-c"]


class Receiver:
    """A program on a host that records the frames it receives."""

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
        """End it when the wire is empty and the program has all delivered frames; return the list
        of (number, age, length, good)."""
        wait_until(lambda: self.lab.wire_counters()[None]["held"] == 0, "empty wire")
        count = self.lab.wire_total("delivered", self.host, self.nic) - self.before
        return json.loads(self.process.communicate(f"{count}\n", timeout=HANG_SECONDS)[0])


def send(lab, sender, receiver, count, size=100, first=0):
    """Send numbered frames to a host's first NIC or an address; return when the wire has them."""
    address = receiver if isinstance(receiver, str) else lab.nic(receiver).mac
    before = lab.wire_total("frames", sender, 0, "out")
    done = lab.run(sender, [*PYTHON, SEND, "eth0", address, count, size, first])
    assert done.returncode == 0, done.stderr
    wait_until(
        lambda: lab.wire_total("frames", sender, 0, "out") >= before + count, "frame in the wire"
    )


def transfer(lab, count, **options):
    """Send frames from host 0 to host 1; return those that arrive, as Receiver.frames()."""
    receiver = Receiver(lab, 1)
    send(lab, 0, 1, count, **options)
    return receiver.frames()


def numbers(frames):
    """Return the numbers of frames in their order of arrival."""
    return [number for number, _, _, _ in frames]


def assert_all_good(frames):
    """Assert that every frame is unchanged."""
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


def test_a_host_hears_only_its_own_frames(wired):
    lab = wired(hosts=3, nics=2)
    bystander = Receiver(lab, 2)
    frames = transfer(lab, 50)
    assert len(frames) == 50
    assert bystander.frames() == []


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


@pytest.mark.parametrize(
    "fault, is_damaged, longest",
    [
        ("corrupt", lambda length, good: not good, 1014),
        ("truncate", lambda length, good: length < 1014, 1014),
        ("pad", lambda length, good: length > 1014, 1054),
        ("lengthen", lambda length, good: length > 1014, 1054),
    ],
    ids=["corrupt", "truncate", "pad", "lengthen"],
)
def test_frames_are_damaged(wired, fault, is_damaged, longest):
    """A frame with a changed address or EtherType is not received as ours."""
    lab = wired()
    transfer(lab, 1, size=1040)
    lab.set_wire(f"{fault}=20%")
    frames = transfer(lab, 2000, size=1000)
    damaged = sum(is_damaged(length, good) for _, _, length, good in frames)
    assert 250 < damaged <= lab.wire_total("corrupted") < 550
    if longest > 1014:
        assert damaged == lab.wire_total("corrupted") and len(frames) == 2000
    elif fault == "corrupt":
        assert len(frames) < 2000
    assert max(length for _, _, length, _ in frames) <= longest
    assert lab.wire_total("refused") == 0


def test_frames_arrive_again_with_a_changed_byte(wired):
    lab = wired("repeat-changed=20%")
    frames = transfer(lab, 2000, size=1000)
    whole = [number for number, _, length, good in frames if good and length == 1014]
    assert set(range(2000)) <= set(whole)
    bad = sum(not good for _, _, _, good in frames)
    assert 200 < bad <= lab.wire_total("duplicated") == lab.wire_total("corrupted") < 550


def test_a_blackout_ends_no_sooner_than_told(wired):
    lab = wired()
    began = time.monotonic()
    lab.set_wire("blackout=1s")
    wait_until(lambda: len(transfer(lab, 20)) == 20, "end of the blackout")
    assert time.monotonic() >= began + 1


def test_a_rate_takes_its_time_and_its_buffer_drops_the_rest(wired):
    lab = wired("rate=5mbit,buffer=20000")
    count = 4000  # would take ten seconds
    frames = transfer(lab, count, size=1400)
    line_bytes = 1400 + 14 + 24
    # The buffer's contents arrive, and the frames that left it while the host was sending.
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


def test_batches_of_rawe_are_cut_into_good_frames(wired, verify):
    lab = wired()
    result = run_verify(lab, 2, *STATS, verify, "--quick", "--scale", "0.1", "--only", "pt2pt")
    assert counted(result, "validations_passed") > 0, show(result)
    assert counted(result, "validations_failed") == 0, show(result)


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


def send_plain(lab, sender, receiver, count, size=100):
    """Send plain frames of the default EtherType from one host to another."""
    done = lab.run(sender, [*PYTHON, SEND, "eth0", lab.nic(receiver).mac, count, size, 0])
    assert done.returncode == 0, done.stderr


def ping(lab, sender, address, *options):
    """Ping an address twice; return the CompletedProcess."""
    return lab.run(sender, ["ping", "-q", "-c", "2", "-i", "0.05", "-W", "60", *options, address])


def link(lab, host, device):
    """Return what `ip` shows about a device."""
    return json.loads(lab.run(host, ["ip", "-json", "link", "show", device]).stdout)[0]


@pytest.mark.parametrize(
    "options",
    [
        {"hosts": 2},
        {"hosts": 2, "topology": "switch"},
        {"hosts": 4, "nics": 2},
        {"hosts": 3, "nics": 2, "wire": ""},
        {"hosts": 4, "nics": 2, "topology": "routed"},
    ],
    ids=lambda options: " ".join(f"{key}={value}" for key, value in options.items()),
)
def test_every_host_reaches_every_other_on_every_nic(make_lab, options):
    lab = make_lab(**options)
    for sender in lab.hosts:
        for receiver in lab.hosts:
            if sender is receiver:
                continue
            addresses = [nic.address for nic in receiver.nics] + [f"h{receiver.index}"]
            for address in addresses:
                done = ping(lab, sender, address)
                assert done.returncode == 0, f"{sender.name} to {address}: {done.stdout}"


@pytest.mark.parametrize("topology", [thorough("pair"), "switch"])
@pytest.mark.parametrize("mtu", [1500, 9000, 65000])
def test_mtu_passes_and_no_more(make_lab, topology, mtu):
    lab = make_lab(hosts=2, topology=topology, mtu=mtu)
    assert link(lab, 0, "eth0")["mtu"] == mtu
    address = lab.nic(1).address
    headers = 28  # IPv4 and ICMP
    assert ping(lab, 0, address, "-M", "do", "-s", str(mtu - headers)).returncode == 0
    too_long = ["-M", "do", "-W", "1", "-s", str(mtu - headers + 1)]
    assert ping(lab, 0, address, *too_long).returncode != 0


def test_a_router_forwards_between_subnets_and_no_more_than_its_mtu(make_lab):
    lab = make_lab(hosts=4, topology="routed", router_mtu=1400)
    headers = 28  # IPv4 and ICMP
    for size, passes in ((1400, True), (1401, False)):
        options = ["-M", "do", "-W", "1", "-s", str(size - headers)]
        assert (ping(lab, 0, lab.nic(1).address, *options).returncode == 0) == passes
    # Hosts of one subnet exchange full frames; raw frames stay in their subnet.
    assert ping(lab, 1, lab.nic(3).address, "-M", "do", "-s", str(1500 - headers)).returncode == 0
    lab.count_frames(ETHERTYPE)
    send_plain(lab, 0, 1, 10)
    send_plain(lab, 0, 2, 10)
    wait_until(lambda: lab.frames(2) >= 10, "10 frames")
    assert lab.frames(1) == 0


def test_a_host_has_its_route_again_when_its_nic_is_up(make_lab):
    lab = make_lab(hosts=2, topology="routed")
    lab.link_down(1)
    assert ping(lab, 0, lab.nic(1).address, "-W", "1").returncode != 0
    lab.link_up(1)
    assert ping(lab, 0, lab.nic(1).address).returncode == 0


def test_loss_drops_about_its_share_each_way(make_lab):
    lab = make_lab(hosts=2, loss=10)
    lab.count_frames(ETHERTYPE)
    for sender, receiver in ((0, 1), (1, 0)):
        send_plain(lab, sender, receiver, 5000)
        # Binomial: 500 on average, standard deviation 21.
        assert 350 < lab.dropped(receiver) < 650


def test_loss_can_be_changed_while_the_lab_runs(make_lab):
    lab = make_lab(hosts=2)
    lab.set_loss("100%", 1)
    assert ping(lab, 0, lab.nic(1).address, "-W", "1").returncode != 0
    assert ping(lab, 0, "h1").returncode == 0, "the control network is left alone"
    lab.set_loss(0, 1)
    assert ping(lab, 0, lab.nic(1).address).returncode == 0
    lab.count_frames(ETHERTYPE)
    send_plain(lab, 0, 1, 5000)
    wait_until(lambda: lab.frames(1) >= 5000, "5000 frames")
    assert (lab.frames(1), lab.frames(0)) == (5000, 0)


def test_rate_is_set_on_hosts_and_ports_and_drops_beyond_the_buffer(make_lab):
    lab = make_lab(hosts=3, rate="1mbit", buffer=20000)
    # Two hosts send to a 1 Mb/s port, which would need four seconds; its 20 kB buffer overflows.
    senders = [lab.hosts[0], lab.hosts[2]]
    for sender in senders:
        lab.run(sender, ["tc", "qdisc", "del", "dev", "eth0", "root"])
        send_plain(lab, sender, 1, 200, size=1400)
    queue = lab.run(0, ["ip", "netns", "exec", lab.namespaces[-1], "tc", "-s", "qdisc", "show"])
    assert "rate 1Mbit" in queue.stdout
    port = next(part for part in queue.stdout.split("qdisc ") if "dev h1e0 " in part)
    assert int(port.split("dropped ")[1].split(",")[0]) > 0, port


def test_blackhole_swallows_one_ethertype_one_way(make_lab):
    lab = make_lab(hosts=3)
    for sender in (0, 2):  # the switch floods until it has learned a host's address
        assert ping(lab, sender, lab.nic(1).address).returncode == 0
    lab.count_frames(ETHERTYPE)
    lab.blackhole(1, 0, ETHERTYPE)
    send_plain(lab, 0, 1, 10)
    send_plain(lab, 2, 1, 10)
    send_plain(lab, 1, 0, 10)
    wait_until(lambda: lab.frames(0) >= 10, "10 frames")
    wait_until(lambda: lab.dropped(1, purpose="hole") >= 10, "10 frames dropped")
    assert lab.dropped(1, purpose="hole") == lab.frames(0) == 10
    assert ping(lab, 0, lab.nic(1).address).returncode == 0
    lab.end_blackhole(1)
    lab.blackhole(1, 0)
    assert ping(lab, 0, lab.nic(1).address, "-W", "1").returncode != 0
    lab.end_blackhole(1)
    assert ping(lab, 0, lab.nic(1).address).returncode == 0


@pytest.mark.parametrize(
    "options, word",
    [
        ({"hosts": 0}, "--hosts"),
        ({"hosts": 3, "topology": "pair"}, "topology"),
        ({"topology": "ring"}, "ring"),
        ({"mtu": 100}, "--mtu"),
        ({"mtu": 70000}, "--mtu"),
        ({"nics": 0}, "--nics"),
        ({"loss": "101%"}, "101%"),
        ({"loss": "some"}, "some"),
        ({"rate": "fast"}, "fast"),
        ({"name": "Not A Host"}, "Not A Host"),
        ({"router_mtu": 1400}, "topology routed"),
        ({"topology": "routed", "router_mtu": 1501}, "--router-mtu"),
        ({"nic": "off"}, "choose one of whole, cut, plain"),
    ],
    ids=str,
)
def test_impossible_options_are_refused(options, word):
    with pytest.raises(LabError, match=word):
        LabSpec(**options).resolve()


def test_percentages_and_rates_are_read():
    assert [parse_percent(text) for text in ("1%", "0.5 %", "10", 3)] == [1.0, 0.5, 10.0, 3.0]
    rates = [parse_rate(text) for text in ("1gbit", "1.5Mbit", "500kbit")]
    assert rates == [10**9, 1500000, 500000]
