# SPDX-License-Identifier: BSD-3-Clause
"""rawe-advise recommends changes to a host, but makes none itself."""

import json
import re
import shlex
import shutil

import pytest
from conftest import COMPONENT_SOURCES, ROOT, load_program

PROGRAM = ROOT / "tools/rawe-advise"

ETHTOOL_RING = """Ring parameters for eth1:
Pre-set maximums:
RX:             8192
RX Mini:        n/a
RX Jumbo:       n/a
TX:             8192
Current hardware settings:
RX:             512
RX Mini:        n/a
RX Jumbo:       n/a
TX:             512
"""
ETHTOOL_COALESCE = """Coalesce parameters for eth1:
Adaptive RX: on  TX: n/a
stats-block-usecs: n/a
sample-interval: n/a
rx-usecs: 20
rx-frames: n/a
rx-usecs-irq: 0
tx-usecs: 0
"""
ETHTOOL_FEATURES = """Features for eth1:
rx-checksumming: on
tcp-segmentation-offload: on
\ttx-tcp-segmentation: off
generic-receive-offload: on
tx-gso-list: off [fixed]
"""
ETHTOOL_PAUSE = """Pause parameters for eth1:
Autonegotiate:\ton
RX:\t\toff
TX:\t\toff
"""


ETHTOOL_HASH = """TCP over IPV4 flows use these fields for computing Hash flow key:
IP SA
IP DA
L4 bytes 0 & 1 [TCP/UDP src port]
L4 bytes 2 & 3 [TCP/UDP dst port]

"""
# Rules that track connections.
TRACKING = (
    "add table ip fire",
    "add chain ip fire walls { type filter hook prerouting priority 0 ; }",
    "add rule ip fire walls ct state invalid drop",
)


@pytest.fixture(scope="module", name="advise")
def load():
    """Return the program as a module."""
    return load_program("rawe-advise")


def commands(found):
    """Return all commands of a list of advice."""
    return [command for advice in found if advice.kind == "change" for command in advice.commands]


def test_what_ethtool_says_is_read(advise):
    assert advise.parse_ring(ETHTOOL_RING) == {"rx": 512, "rx max": 8192}
    assert advise.parse_coalesce(ETHTOOL_COALESCE) == {"adaptive-rx": "on", "rx-usecs": 20}
    features = advise.parse_features(ETHTOOL_FEATURES)
    assert features["tx-tcp-segmentation"] == "off"
    assert features["tx-gso-list"] == "off [fixed]"
    assert features["generic-receive-offload"] == "on"
    assert advise.parse_pause(ETHTOOL_PAUSE) == {"rx": "off", "tx": "off"}
    assert advise.parse_tcp_hash(ETHTOOL_HASH) == "sdfn"
    assert advise.parse_tcp_hash("\n".join(ETHTOOL_HASH.splitlines()[:3])) == "sd"
    assert advise.parse_tcp_hash("") == ""
    assert advise.parse_kernel("5.14.0-362.el9.x86_64") == (5, 14)
    assert advise.parse_kernel("strange") is None
    for parse in (
        advise.parse_ring,
        advise.parse_coalesce,
        advise.parse_features,
        advise.parse_pause,
    ):
        assert parse("") == {}, "a driver that reports nothing"


def interface(advise, **facts):
    """Return an interface without problems, except for the given facts."""
    good = {
        "mtu": 9000,
        "max_mtu": 9216,
        "speed_mbps": 10000,
        "duplex": "full",
        "qdiscs": ["mq", "fq_codel"],
        "ring": {"rx": 4096, "rx max": 8192},
        "coalesce": {"rx-usecs": 0, "adaptive-rx": "off"},
        "features": {"tx-tcp-segmentation": "on", "generic-receive-offload": "on"},
        "pause": {"rx": "on", "tx": "on"},
    }
    return advise.Interface(name="eth1", **{**good, **facts})


@pytest.mark.parametrize(
    "facts, expected",
    [
        ({}, []),
        ({"up": False}, ["ip link set eth1 up"]),
        ({"mtu": 1500}, ["ip link set dev eth1 mtu 9000"]),
        ({"mtu": 1500, "max_mtu": 1500}, []),
        (
            {"mtu": 1500, "parent": "eth0"},
            ["ip link set dev eth0 mtu 9000", "ip link set dev eth1 mtu 9000"],
        ),
        ({"features": {"tx-tcp-segmentation": "off"}}, ["ethtool -K eth1 tx-tcp-segmentation on"]),
        ({"features": {"tx-tcp-segmentation": "off [fixed]"}}, []),
        ({"features": {}}, []),
        ({"features": {"generic-receive-offload": "off"}}, ["ethtool -K eth1 gro on"]),
        (
            {"features": {"tx-tcp-segmentation": "off", "tx-checksumming": "off"}},
            ["ethtool -K eth1 tx on tx-tcp-segmentation on"],
        ),
        (
            {"coalesce": {"rx-usecs": 20, "adaptive-rx": "on"}},
            ["ethtool -C eth1 adaptive-rx off rx-usecs 0"],
        ),
        ({"coalesce": {"rx-usecs": 3}}, ["ethtool -C eth1 rx-usecs 0"]),
        ({"coalesce": {}}, []),
        ({"ring": {"rx": 512, "rx max": 8192}}, ["ethtool -G eth1 rx 4096"]),
        ({"ring": {"rx": 256, "rx max": 1024}}, ["ethtool -G eth1 rx 1024"]),
        ({"ring": {"rx": 256, "rx max": 256}}, []),
        ({"qdiscs": ["tbf"]}, ["tc qdisc del dev eth1 root"]),
        ({"rx_queues": 8, "tcp_hash": "sdfn"}, []),
        ({"rx_queues": 8, "tcp_hash": "sd"}, ["ethtool -N eth1 rx-flow-hash tcp4 sdfn"]),
        ({"rx_queues": 8, "tcp_hash": ""}, []),
        ({"rx_queues": 1, "tcp_hash": "sd"}, []),
        ({"pause": {"rx": "off"}}, []),
    ],
    ids=str,
)
def test_advice_on_an_interface(advise, facts, expected):
    found = advise.advise_interface(interface(advise, **facts), advise.Host())
    assert commands(found) == expected
    assert all(one.why for one in found if one.kind == "change" and facts.get("up") is not False)


@pytest.mark.parametrize(
    "facts, word",
    [
        ({"carrier": False}, "no carrier"),
        ({"duplex": "half"}, "half duplex"),
        ({"speed_mbps": 100}, "100 Mb/s"),
        ({"numa_node": 1}, "NUMA node 1"),
        ({"rx_queues": 8}, "8 receive queues"),
        ({"features": {"large-receive-offload": "on"}}, "large-receive-offload"),
        ({"pause": {"rx": "off"}}, "flow control"),
        ({"features": {"tx-tcp-segmentation": "off [fixed]"}}, "cannot cut TCP"),
    ],
    ids=str,
)
def test_findings_without_a_command(advise, facts, word):
    host = advise.Host(numa_nodes=2)
    found = advise.advise_interface(interface(advise, **facts), host)
    assert any(word in one.what for one in found if one.kind != "good"), found
    assert not any(word in one.what for one in advise.advise_interface(interface(advise), host))


@pytest.mark.parametrize(
    "facts, good",
    [
        ({}, ["tx-tcp-segmentation is on", "generic-receive-offload is on", "rx-usecs is 0"]),
        ({"features": {"tx-tcp-segmentation": "on [fixed]"}}, ["tx-tcp-segmentation is on"]),
        ({"features": {"generic-receive-offload": "off [fixed]"}}, []),
        ({"coalesce": {"adaptive-rx": "off"}}, []),  # rx-usecs: n/a
        ({"coalesce": {"rx-usecs": 0, "adaptive-rx": "on"}}, []),
    ],
    ids=str,
)
def test_what_is_found_good_is_known(advise, facts, good):
    known = {"features": {}, "coalesce": {}, **facts} if facts else {}
    found = advise.advise_interface(interface(advise, **known), advise.Host())
    words = ("tx-tcp-segmentation", "generic-receive-offload", "rx-usecs")
    said = [one.what for one in found if one.kind == "good" and one.what.startswith(words)]
    assert [one.split(":")[0] for one in said] == good
    assert not any("None" in one.what for one in found)


def test_adaptive_moderation_without_a_time(advise):
    found = advise.advise_interrupts(interface(advise, coalesce={"adaptive-rx": "on"}))
    assert commands(found) == ["ethtool -C eth1 adaptive-rx off"] and "None" not in found[0].what


def test_advice_on_the_host(advise):
    host = advise.Host(rmem_max=212992, wmem_max=212992, net_raw=False, governors=["powersave"])
    assert commands(advise.advise_buffers(host)) == [
        "sysctl -w net.core.rmem_max=8388608",
        "sysctl -w net.core.wmem_max=4194304",
    ]
    assert any(
        "setcap cap_net_raw" in command for command in commands(advise.advise_host(host, ["eth1"]))
    )
    assert "cpupower frequency-set -g performance" in commands(advise.advise_host(host, ["eth1"]))
    host = advise.Host(rmem_max=8 << 20, wmem_max=8 << 20, net_raw=True, governors=["performance"])
    assert commands(advise.advise_host(host, ["eth1"])) == []


@pytest.mark.parametrize("manager", ["apt-get", "zypper", None])
def test_how_to_install_ethtool_depends_on_the_distribution(advise, monkeypatch, manager):
    monkeypatch.setattr(shutil, "which", lambda name: name if name == manager else None)
    found = commands(advise.advise_host(advise.Host(net_raw=True, ethtool=False), []))
    assert found == ([f"{manager} install ethtool"] if manager else [])


@pytest.mark.parametrize(
    "kernel, kind, word",
    [
        ((4, 5), "change", "batches"),
        ((4, 11), "note", "groups"),
        ((4, 12), "good", "4.12"),
        ((6, 1), "good", "6.1"),
    ],
)
def test_what_the_kernel_is_too_old_for(advise, kernel, kind, word):
    (found,) = advise.advise_kernel(advise.Host(kernel=kernel))
    assert found.kind == kind and word in found.what
    assert advise.advise_kernel(advise.Host()) == []


def test_the_priority_of_progress_threads(advise):
    (found,) = advise.advise_priority(advise.Host(least_nice=0))
    assert found.kind == "note" and "nice -20" in found.commands[0]
    assert advise.advise_priority(advise.Host(least_nice=-20)) == []


def test_connection_tracking(advise):
    assert advise.advise_conntrack(advise.Host(conntrack=False, tracking=True)) == []
    assert advise.advise_conntrack(advise.Host(conntrack=True, tracking=False)) == []
    (found,) = advise.advise_conntrack(advise.Host(conntrack=True, tracking=None))
    assert found.kind == "note" and "nft add table" in found.why
    (found,) = advise.advise_conntrack(advise.Host(conntrack=True, tracking=True))
    assert found.kind == "change" and len(found.commands) == 3
    assert advise.tracks("ct state established accept") and advise.tracks('xt match "conntrack"')
    assert not advise.tracks("tcp dport 22 accept") and not advise.tracks("")


def test_advice_on_the_helper(advise):
    (only,) = advise.advise_capability(advise.Host(helper="/opt/helper"), ["ens3", "ens4"])
    assert only.kind == advise.CHANGE and "setcap cap_net_raw=ep /opt/helper" in only.commands
    assert "interface lo ens3 ens4\\n" in only.commands[-1]
    (only,) = advise.advise_capability(advise.Host(helper="/opt/helper", helper_usable=True), [])
    assert only.kind == advise.NOTE and "rawe-socket-helper" in only.what


def test_the_helper_names_its_access_list(advise, tmp_path):
    helper = tmp_path / "helper"
    helper.write_text('#!/bin/sh\necho "/opt/list of $1"\n', encoding="ascii")
    helper.chmod(0o755)
    path = advise.find_access_list(helper)
    assert path == "/opt/list of --access-list"
    (only,) = advise.advise_capability(advise.Host(access_list=path), [])
    assert only.commands[-1].endswith(f"> {path}")
    assert advise.find_access_list("/bin/false") is None
    assert advise.find_access_list("/nowhere/helper") is None


def test_a_helper_without_capability_is_not_usable(advise):
    assert not advise.is_usable("/bin/true")
    assert not advise.is_usable("/nowhere/rawe-socket-helper")


def state(lab):
    """Return the settings of a host that the program might change."""
    look = (
        "nft list ruleset; ip -details link show; ethtool -k eth0; tc qdisc show; ip address; "
        "cat /proc/sys/net/core/[rw]mem_max /proc/sys/kernel/hostname"
    )
    return lab.run(0, ["sh", "-c", look]).stdout


def test_a_host_is_looked_at_and_not_changed(make_lab, tmp_path):
    lab = make_lab(hosts=2, nic="plain")
    # Wrappers that log their arguments and run the real tools.
    log = tmp_path / "log"
    for tool in ("ip", "ethtool", "tc", "nft"):
        script = f'#!/bin/sh\necho {tool} "$@" >> {log}\nPATH=${{PATH#*:}} exec {tool} "$@"\n'
        (tmp_path / tool).write_text(script, encoding="ascii")
        (tmp_path / tool).chmod(0o755)
    for rule in TRACKING:
        lab.run(0, ["nft", rule], check=True)
    before = state(lab)
    command = ["sh", "-c", f'PATH={tmp_path}:$PATH exec "$@"', "sh", PROGRAM, "--json"]
    done = lab.run(0, command)
    assert done.returncode == 1, done.stderr
    assert state(lab) == before
    calls = log.read_text(encoding="ascii").splitlines()
    assert len(calls) > 4
    reading = ("ip -json -details link show", "tc -json qdisc show dev ", "nft list ruleset")
    reading += tuple(f"ethtool -{flag} " for flag in "gckan")
    assert all(call.startswith(reading) for call in calls), calls

    sections = json.loads(done.stdout)
    eth0 = next(found for title, found in sections.items() if title.startswith("eth0"))
    wanted = [command for advice in eth0 for command in advice["commands"]]
    assert "ethtool -K eth0 tx on sg on tx-tcp-segmentation on" in wanted
    assert "ethtool -K eth0 gro on" in wanted
    assert "ip link set dev eth0 mtu 9000" in wanted
    host = sections[f"host {lab.hosts[0].name}"]
    (tracking,) = [advice for advice in host if "connection tracking" in advice["what"]]
    wanted += tracking["commands"]

    # The advice works: once it has been followed, the program does not repeat it.
    for command in wanted:
        lab.run(0, shlex.split(command), check=True)
    text = lab.run(0, [PROGRAM, "eth0"]).stdout
    assert "tx-tcp-segmentation is on" in text and "MTU 9000" in text
    assert "connection tracking" not in text and "ethtool -K" not in text and "mtu 9000" not in text
    assert "Nothing has been changed" in text


PORTS = ("eth0", "eth1", "eth2", "eth3")
# Name, kind, master, and its kind.
LINKS = [
    ("lo", None, None, None),
    ("eth0", None, "bond0", "bond"),
    ("eth1", None, "bond0", "bond"),
    ("eth2", None, "br0", "bridge"),
    ("eth3", None, "vrf0", "vrf"),
    ("bond0", "bond", None, None),
    ("bond0.7", "vlan", None, None),
    ("br0", "bridge", None, None),
    ("veth1", "veth", None, None),
]


@pytest.mark.parametrize(
    "ports, chosen", [(PORTS, ["eth3", "bond0", "bond0.7"]), ((), ["bond0", "bond0.7", "veth1"])]
)
def test_interfaces_are_chosen_like_the_component_does(advise, monkeypatch, ports, chosen):
    links = [
        {
            "ifname": name,
            "link_type": "loopback" if name == "lo" else "ether",
            "linkinfo": {"info_kind": kind, "info_slave_kind": master_kind},
            **({"master": master} if master else {}),
        }
        for name, kind, master, master_kind in LINKS
        if ports or name not in PORTS
    ]
    monkeypatch.setattr(advise, "physical", lambda link: link["ifname"] in ports, raising=False)
    assert [link["ifname"] for link in advise.choose_links(links, [])] == chosen


def test_it_knows_the_kinds_that_the_component_knows(advise):
    source = (COMPONENT_SOURCES / "linux/sys/rawe_interface_select.c").read_text(encoding="ascii")
    kinds = re.findall(r'^    \{"(\w+)", "it ', source, re.MULTILINE)
    assert set(kinds) == advise.UNUSED_KINDS
    (kinds,) = re.findall(r"container_kinds\[\] = \{(.*)\};", source)
    assert set(re.findall(r"\w+", kinds)) == advise.CONTAINER_KINDS


def test_programs_for_root_are_found_without_their_directory_in_path(make_lab):
    done = make_lab(hosts=1).run(0, ["env", "PATH=/usr/bin:/bin", PROGRAM, "--json"])
    assert done.returncode == 1 and "ethtool is missing" not in done.stdout, done.stderr


def test_an_ip_without_json(make_lab, tmp_path):
    (tmp_path / "ip").write_text("#!/bin/sh\nexit 255\n", encoding="ascii")
    (tmp_path / "ip").chmod(0o755)
    done = make_lab(hosts=1).run(0, ["env", f"PATH={tmp_path}:/usr/bin:/bin", PROGRAM])
    assert done.returncode == 2 and "-json" in done.stderr


def test_an_interface_that_is_not_there(make_lab):
    lab = make_lab(hosts=1)
    done = lab.run(0, [PROGRAM, "nosuch0"])
    assert done.returncode == 2
    assert "nosuch0" in done.stderr and "eth0" in done.stderr


def test_an_interface_that_is_down(make_lab):
    lab = make_lab(hosts=2)
    lab.link_down(1)
    done = lab.run(1, [PROGRAM, "eth0"])
    assert done.returncode == 1 and "ip link set eth0 up" in done.stdout
