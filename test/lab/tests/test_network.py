# SPDX-License-Identifier: BSD-3-Clause
"""The lab's virtual network is as its options specify."""

import json

import pytest
from conftest import ETHERTYPE, thorough, wait_until
from test_wire import PYTHON, SEND

from rawelab import LabError, LabSpec
from rawelab.spec import parse_percent, parse_rate


def send_frames(lab, sender, receiver, count, size=100):
    """Send plain frames of the default EtherType from one host to another."""
    done = lab.run(sender, [*PYTHON, SEND, "eth0", lab.nic(receiver).mac, count, size, 0])
    assert done.returncode == 0, done.stderr


def ping(lab, sender, address, *options):
    """Ping an address twice; return the CompletedProcess."""
    return lab.run(sender, ["ping", "-q", "-c", "2", "-i", "0.05", "-W", "60", *options, address])


def link(lab, host, device):
    """Return what `ip` shows of a device."""
    return json.loads(lab.run(host, ["ip", "-json", "link", "show", device]).stdout)[0]


@pytest.mark.parametrize(
    "options",
    [{"hosts": 2}, {"hosts": 2, "topology": "switch"}, {"hosts": 4, "nics": 2}],
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


def test_loss_drops_about_its_share_each_way(make_lab):
    lab = make_lab(hosts=2, loss=10)
    lab.count_frames(ETHERTYPE)
    for sender, receiver in ((0, 1), (1, 0)):
        send_frames(lab, sender, receiver, 5000)
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
    send_frames(lab, 0, 1, 5000)
    wait_until(lambda: lab.frames(1) >= 5000, "5000 frames")
    assert (lab.frames(1), lab.frames(0)) == (5000, 0)


def test_rate_is_set_on_hosts_and_ports_and_drops_beyond_the_buffer(make_lab):
    lab = make_lab(hosts=3, rate="1mbit", buffer=20000)
    # Two hosts send to one port of 1 Mb/s, which needs four seconds; its 20 kB overflow.
    senders = [lab.hosts[0], lab.hosts[2]]
    for sender in senders:
        lab.run(sender, ["tc", "qdisc", "del", "dev", "eth0", "root"])
        send_frames(lab, sender, 1, 200, size=1400)
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
    send_frames(lab, 0, 1, 10)
    send_frames(lab, 2, 1, 10)
    send_frames(lab, 1, 0, 10)
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
