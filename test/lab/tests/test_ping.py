# SPDX-License-Identifier: BSD-3-Clause
"""rawe-ping reports which frames pass between two hosts, and what to check if they do not."""

import re
import signal
import subprocess

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, MASQUERADE

QUICK = ("-w", 2000)
UNPRIVILEGED = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")


class Listener:
    """rawe-ping --listen on a host."""

    def __init__(self, lab, ping, host, *options, prefix=()):
        self.process = subprocess.Popen(
            lab.host_command(host, [*prefix, ping, "--listen", *options]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.greeting = self.process.stdout.readline()

    def hear(self, text):
        """Wait until its output contains this text."""
        while text not in self.greeting:
            line = self.process.stdout.readline()
            assert line, f"it has not said {text!r}: {self.greeting}"
            self.greeting += line

    def end(self):
        """End it as Ctrl-C does; return its output and status."""
        self.process.send_signal(signal.SIGINT)
        output = self.process.communicate(timeout=HANG_SECONDS)[0]
        return self.greeting + output, self.process.returncode


def ask(lab, ping, *arguments):
    """Run rawe-ping on host 0; return its output and status."""
    done = lab.run(0, [ping, *arguments], timeout=HANG_SECONDS)
    return done.stdout + done.stderr, done.returncode


def lost(said, size):
    """Return how many frames of a size were lost, and how many were sent."""
    found = re.search(rf"{size} frames, \d+ bytes: (\d+) of (\d+) lost", said)
    assert found, said
    return int(found.group(1)), int(found.group(2))


@pytest.mark.parametrize("mtu, topology", [(1500, "pair"), (9000, "switch"), (65535, "pair")])
def test_all_is_well(make_lab, ping, mtu, topology):
    lab = make_lab(hosts=2, mtu=mtu, topology=topology)
    listener = Listener(lab, ping, 1, "-i", "eth0")
    address = lab.nic(1).mac
    assert f"rawe-ping {address}" in listener.greeting and f"MTU {mtu}," in listener.greeting
    said, status = ask(lab, ping, "-i", "eth0", address)
    assert status == 0, said
    assert f"MTU {mtu} passes" in said
    assert lost(said, "small") == lost(said, "large") == (0, 20)
    assert f"large frames, {mtu + 14} bytes" in said
    assert all(float(time) > 0 for time in re.findall(r"least ([\d.]+)", said))
    assert "batches: pass\n" in said
    heard, listened = listener.end()
    assert listened == 0
    assert heard.count(f"asked by {lab.nic(0).mac}") == 1
    assert int(re.search(r"(\d+) frames answered, of 1 hosts", heard).group(1)) >= 40


@pytest.mark.parametrize(
    "spec, mtu",
    [
        ({"mtu": 1500}, 1500),
        ({"mtu": 9000, "nic": "plain"}, 9000),
        ({"mtu": 1500, "topology": "routed", "router_mtu": 1400}, 1400),
    ],
)
@pytest.mark.parametrize("ipv6", [False, True])
def test_udp_without_rights(make_lab, ping, spec, mtu, ipv6):
    lab = make_lab(hosts=2, **spec)
    if ipv6:
        lab.use_ipv6()
    ours, address = [nic.ipv6_address if ipv6 else nic.address for nic in (lab.nic(0), lab.nic(1))]
    listener = Listener(lab, ping, 1, "--udp", "-i", "eth0", prefix=UNPRIVILEGED)
    assert f"rawe-ping --udp {address}" in listener.greeting
    done = lab.run(0, [*UNPRIVILEGED, ping, "--udp", "-i", "eth0", address], timeout=HANG_SECONDS)
    said = done.stdout + done.stderr
    assert done.returncode == (0 if mtu == spec["mtu"] else 1), said
    assert lost(said, "small") == lost(said, "large") == (0, 20)
    if mtu == spec["mtu"]:
        assert f"MTU {mtu} passes" in said
    else:
        assert f"the MTU of eth0 is {spec['mtu']}, what passes is {mtu}." in said
    heard, listened = listener.end()
    assert listened == 0 and heard.count(f"asked by {ours}") == 1


def test_udp_uses_no_ipv6_address_that_will_not_last(make_lab, ping):
    """The temporary ones (RFC 8981) and the deprecated one would otherwise come first."""
    lab = make_lab(hosts=1)
    lab.use_ipv6()
    lasting = "fd00:7f::ffff:ffff:ffff:ffff"
    lab.run(0, ["sysctl", "-w", "net.ipv6.conf.eth0.use_tempaddr=2"], check=True)
    for address, *words in [("fd00:7e::1", "preferred_lft", 0), (lasting, "mngtmpaddr")]:
        argv = ["ip", "address", "add", f"{address}/64", "dev", "eth0", "nodad", *words]
        lab.run(0, argv, check=True)
    shown = lab.run(0, ["ip", "-6", "address", "show", "dev", "eth0"]).stdout
    assert "temporary" in shown and "deprecated" in shown, shown
    listener = Listener(lab, ping, 0, "--udp", "-i", "eth0")
    assert f"rawe-ping --udp {lasting}" in listener.greeting
    listener.end()


def test_udp_without_an_answer_or_an_address(make_lab, ping):
    lab = make_lab(hosts=2)
    said, status = ask(lab, ping, "--udp", "-i", "eth0", "-w", 300, lab.nic(1).address)
    assert status == 1, said
    for word in ("NO ANSWER", lab.nic(1).address, "--udp --listen", "32768 to 60767", "NAT"):
        assert word in said, word
    said, status = ask(lab, ping, "--udp", "-i", "eth0", lab.nic(1).mac)
    assert status == 2 and "not an IPv4 address" in said
    lab.use_ipv6(0)
    said, status = ask(lab, ping, "--udp", "-i", "eth0", lab.nic(1).address)
    assert status == 2 and "not an IPv6 address" in said


def test_udp_across_nat_is_explained_at_the_listener(make_lab, ping):
    lab = make_lab(hosts=2, topology="routed")
    lab.at_switch("nft", MASQUERADE)
    listener = Listener(lab, ping, 1, "--udp", "-i", "eth0")
    said, status = ask(lab, ping, "--udp", "-i", "eth0", "-w", 300, lab.nic(1).address)
    assert status == 1 and "NAT" in said, said
    heard, listened = listener.end()
    assert listened == 1 and heard.count("NAT") == 1 and "0 frames answered" in heard


def test_spinning_and_another_key_and_count(make_lab, ping):
    lab = make_lab(hosts=2)
    options = ["-i", "eth0", "-p", "-k", "1234abcd", "-e", "88b6"]
    listener = Listener(lab, ping, 1, *options)
    said, status = ask(lab, ping, *options, "-c", 100, lab.nic(1).mac)
    assert status == 0, said
    assert lost(said, "small") == (0, 100)
    assert "batches: pass" in said
    listener.end()


def test_an_address_of_ip_is_looked_up(make_lab, ping):
    lab = make_lab(hosts=2)
    listener = Listener(lab, ping, 1, "-i", "eth0")
    said, status = ask(lab, ping, "-i", "eth0", "-c", 3, lab.nic(1).address)
    assert status == 0 and lab.nic(1).mac in said, said
    listener.end()
    said, status = ask(lab, ping, "-i", "eth0", "10.81.77.77")
    assert status == 2 and "ping -c 1 10.81.77.77" in said


def test_nobody_listens(make_lab, ping):
    lab = make_lab(hosts=2)
    said, status = ask(lab, ping, "-i", "eth0", "-w", 300, lab.nic(1).mac)
    assert status == 1, said
    for word in ("NO ANSWER", "eth0", lab.nic(1).mac, "--listen", "VLAN", "nft list", "0x88b5"):
        assert word in said, word
    assert "lost" not in said


def test_it_ends_at_once_while_it_waits_for_a_first_answer(make_lab, ping):
    lab = make_lab(hosts=1)
    argv = lab.host_command(0, [ping, "-i", "eth0", "-w", 600000, "02:00:00:00:00:09"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("eth0 (")
        process.terminate()
        try:
            process.wait(HANG_SECONDS)
        finally:
            process.kill()


def test_a_key_that_differs_is_not_answered(make_lab, ping):
    lab = make_lab(hosts=2)
    listener = Listener(lab, ping, 1, "-i", "eth0", "-k", "1")
    said, status = ask(lab, ping, "-i", "eth0", "-w", 300, "-k", "2", lab.nic(1).mac)
    assert status == 1 and "NO ANSWER" in said
    heard, listened = listener.end()
    assert listened == 1 and "0 frames answered, of 0 hosts" in heard


@pytest.mark.parametrize(
    "shape, hurt, arguments, status, words",
    [
        ({}, ("blackhole", 0, 1, ETHERTYPE), ("-w", 500), 1, ["NO ANSWER", "do not come back"]),
        ({"mtu": 9000}, ("set_mtu", 1, 1500), (), 1, ["LARGE FRAMES DO NOT PASS", "9018",
          r"what passes is 1500\b", "large frames, 1514 bytes: 0 of 20 lost"]),
        ({}, ("set_loss", 30), ("-c", 10), 1, ["FRAMES GET LOST", "ethtool -S eth0",
          r"frames, \d+ bytes: [1-9]\d* of 10 lost"]),
        ({"nic": "plain"}, None, ("-c", 3), 0, ["batches: pass. The kernel",
          "ethtool -K eth0 tx on sg on tso on"]),
        ({}, ("blackhole", 1, 0, 0x0800), ("-c", 3), 0, ["batches: do not pass"]),
    ],
    ids=["way back", "large frames", "loss", "batches cut", "batches lost"],
)  # fmt: skip
def test_what_does_not_pass(make_lab, ping, shape, hurt, arguments, status, words):
    lab = make_lab(hosts=2, **shape)
    if hurt:
        getattr(lab, hurt[0])(*hurt[1:])
    listener = Listener(lab, ping, 1, "-i", "eth0")
    said, ended = ask(lab, ping, "-i", "eth0", *arguments, lab.nic(1).mac)
    assert ended == status, said
    for word in words:
        assert re.search(word, said), f"no {word!r}: {said}"
    listener.hear("asked by")
    listener.end()


def begin_multicast(lab, ping):
    """Listen on all hosts but the first; return the listeners, and the arguments of the sender."""
    listeners = [Listener(lab, ping, host, "-i", "eth0") for host in lab.hosts[1:]]
    macs = [lab.nic(host).mac for host in lab.hosts[1:]]
    return listeners, ["--multicast", "-i", "eth0", *QUICK, *macs]


@pytest.mark.parametrize("nic", ["whole", "cut"])
def test_multicast_passes(make_lab, ping, nic):
    lab = make_lab(hosts=4, nic=nic)
    listeners, arguments = begin_multicast(lab, ping)
    said, status = ask(lab, ping, *arguments)
    assert status == 0, said
    for host in lab.hosts[1:]:
        assert f"{lab.nic(host).mac}: plain frames pass, batches pass\n" in said
    for listener in listeners:
        assert listener.end()[0].count(f"asked by {lab.nic(0).mac}") == 1


def test_multicast_passes_a_bridge_that_snoops(make_lab, ping):
    lab = make_lab(hosts=3)
    snoop = "ip link set br0 type bridge mcast_snooping 1 mcast_query_response_interval 10"
    lab.at_switch(*snoop.split())
    listeners, arguments = begin_multicast(lab, ping)
    said, status = ask(lab, ping, *arguments)
    assert status == 0 and said.count("plain frames pass, batches pass\n") == 2, said
    for listener in listeners:
        listener.end()


def test_multicast_does_not_pass(make_lab, ping):
    lab = make_lab(hosts=4)
    lab.at_switch("bridge", "link", "set", "dev", lab.nic(1).port, "mcast_flood", "off")
    lab.blackhole(2, 0, 0x0800)
    listeners, arguments = begin_multicast(lab, ping)
    listeners.pop().end()  # the third host
    said, status = ask(lab, ping, *arguments)
    assert status == 1, said
    assert f"{lab.nic(1).mac}: plain frames DO NOT PASS, batches DO NOT PASS\n" in said
    assert f"{lab.nic(2).mac}: plain frames pass, batches DO NOT PASS\n" in said
    assert f"{lab.nic(3).mac}: NO ANSWER" in said and "mcast_flood" in said
    for listener in listeners:
        listener.end()


def test_the_only_interface_needs_no_name(make_lab, ping):
    lab = make_lab(hosts=2)
    said, status = ask(lab, ping, "02:00:00:00:00:09")
    assert status == 2 and "-i" in said and "eth0" in said  # there is ctl0, too
    lab.run(0, ["ip", "link", "set", "ctl0", "down"])
    said, _ = ask(lab, ping, "-w", 100, "02:00:00:00:00:09")
    assert said.startswith("eth0 ("), said


def test_wrong_use_is_told(make_lab, ping):
    lab = make_lab(hosts=1)
    for arguments, word in (
        ([], "whom to ask"),
        (["-i", "nosuch0", "02:00:00:00:00:09"], "nosuch0"),
        (["-i", "lo", "02:00:00:00:00:09"], "not an Ethernet interface"),
        (["-i", "eth0", "nonsense"], "nonsense"),
        (["-i", "eth0", "01:00:5e:00:00:01"], "group address"),
        (["-i", "eth0", "-c", "0", "02:00:00:00:00:09"], "--count"),
        (["-i", "eth0", "-e", "zz", "02:00:00:00:00:09"], "--ethertype"),
        (["--listen", "02:00:00:00:00:09"], "takes no address"),
        (["--listen", "--multicast"], "leave --multicast"),
        (["--multicast", "-i", "eth0"], "whom to ask"),
        (["--nonsense"], "Usage"),
    ):
        said, status = ask(lab, ping, *arguments)
        assert status == 2 and word in said, said


def test_an_interface_that_is_down_or_ones_own(make_lab, ping):
    lab = make_lab(hosts=2)
    said, status = ask(lab, ping, "-i", "eth0", lab.nic(0).mac)
    assert status == 2 and "own interface" in said
    lab.link_down(0)
    said, status = ask(lab, ping, "-i", "eth0", lab.nic(1).mac)
    assert status == 2 and "ip link set eth0 up" in said and "cable" in said


def test_without_cap_net_raw(make_lab, ping):
    lab = make_lab(hosts=1)
    bare = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", ping]
    done = lab.run(0, [*bare, "-i", "eth0", "02:00:00:00:00:09"])
    assert done.returncode == 2 and "CAP_NET_RAW" in done.stderr, done.stderr
