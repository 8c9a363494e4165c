# SPDX-License-Identifier: BSD-3-Clause
"""Jobs with CAP_NET_RAW only: as described in doc/security.md, and as in containers."""

import re
import sys
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    NOBODY,
    RAISE,
    RAWE,
    USER,
    assert_success,
    help_messages,
    public_place,
    put_starter,
    run_as_user,
    run_job,
    show,
    until_told,
    wait_until,
)

from rawelab import command

PACKET = ("--mca", "btl_rawe_kind", "packet")
SECURITY = Path(__file__).resolve().parents[3] / "doc/security.md"


@pytest.fixture
def place(build, verify):
    """A directory that every user can read, with the starter program of the document."""
    with public_place(build, verify) as directory:
        put_starter(directory)
        yield directory


def test_the_starter_gives_a_user_what_rawe_needs(make_lab, place):
    starter = [place / "rawe-setpriv", *RAISE]
    result = run_as_user(make_lab(hosts=1), place, *PACKET, *starter)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_without_it_the_job_uses_udp(make_lab, place):
    result = run_as_user(make_lab(hosts=1), place)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_without_it_and_udp_the_user_is_told(make_lab, place):
    lab = make_lab(hosts=1)
    result = until_told(lambda: run_as_user(lab, place, *PACKET))
    assert result.returncode != 0 and not result.timed_out, show(result)
    messages = help_messages(result)
    assert messages and "CAP_NET_RAW" in messages[0], show(result)


def test_the_starter_gives_nothing_else(make_lab, place):
    lab = make_lab(hosts=1)
    command = [*USER, place / "rawe-setpriv", *RAISE, "grep", "^Cap", "/proc/self/status"]
    found = dict(line.split() for line in lab.run(0, command, check=True).stdout.splitlines())
    net_raw = f"{1 << 13:016x}"
    assert found["CapEff:"] == found["CapPrm:"] == found["CapAmb:"] == net_raw


def test_only_its_group_may_start_it(make_lab, place):
    lab = make_lab(hosts=1)
    outsider = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "--inh-caps=-all"]
    # Through a shell, because root keeps its rights until setpriv executes the first program.
    done = lab.run(0, [*outsider, "sh", "-c", '"$0" true', place / "rawe-setpriv"])
    assert done.returncode != 0 and "ermission denied" in done.stderr


def test_the_document_has_these_commands():
    text = SECURITY.read_text(encoding="utf-8")
    assert "install -o root -g rawe -m 0750 /usr/bin/setpriv" in text
    assert "setcap cap_net_raw=ep" in text and " ".join(RAISE) in text


def test_an_open_socket_needs_the_capability_no_more(make_lab):
    lab = make_lab(hosts=2)
    code = (
        "import os, socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
        f"os.setresuid({NOBODY}, {NOBODY}, {NOBODY}); s.bind(('eth0', 0)); "
        "print(s.send(bytes(60)))"
    )
    done = lab.run(0, ["/usr/bin/python3", "-c", code])
    assert done.stdout.strip() == "60", done.stderr


# Sends ten frames with another host's source address, then ten with our own; through the queueing
# discipline, and past it (PACKET_QDISC_BYPASS).
SEND = """
import socket, sys
to = bytes.fromhex(sys.argv[1].replace(":", ""))
for bypass in 0, 1:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.setsockopt(263, 20, bypass)
    wire.bind(("eth0", 0))
    for source in bytes.fromhex("020000000099"), wire.getsockname()[4]:
        for _ in range(10):
            try:
                wire.send(to + source + bytes.fromhex("88b5") + bytes(60))
            except OSError:
                pass  # dropped: some kernels say so
"""


def test_the_rule_drops_what_is_sent_in_the_name_of_another_host(make_lab, build, exchange):
    lab = make_lab(hosts=2)
    commands = re.findall(r"^    (nft .*)$", SECURITY.read_text(encoding="utf-8"), re.M)
    assert len(commands) == 3
    for line in commands:
        lab.run(0, ["sh", "-c", line.replace("eth1", "eth0")], check=True)
    lab.count_frames(ETHERTYPE)
    lab.run(0, [sys.executable, "-c", SEND, lab.nic(1).mac], check=True)
    wait_until(lambda: lab.frames(1) >= 20, "20 frames")
    assert lab.frames(1) == 20
    result = lab.mpirun(["-np", 2, *RAWE, exchange, "rounds", 20], build=build)
    assert_success(result)
    assert help_messages(result) == [], show(result)


# Root as restricted by --cap-drop ALL --cap-add NET_RAW of Docker and Podman.
CAPPED = ("setpriv", "--bounding-set=-all,+net_raw", "--inh-caps=-all")


@pytest.fixture
def behind_macvlan():
    """A function that moves the hosts' NICs to other namespaces and replaces them by macvlans."""
    made = []

    def move(lab):
        for host in lab.hosts:
            parent = f"{host.netns}-parent"
            command.run(["ip", "netns", "add", parent])
            made.append(parent)
            for nic in host.nics:
                command.ip_batch(host.netns, [f"link set {nic.device} netns {parent}"])
                command.ip_batch(
                    parent,
                    [
                        f"link set {nic.device} up",
                        f"link add link {nic.device} name macvlan0 type macvlan mode bridge",
                        f"link set macvlan0 netns {host.netns} name {nic.device}",
                    ],
                )
                command.ip_batch(host.netns, [f"link set {nic.device} up"])

    yield move
    for parent in made:
        command.run(["ip", "netns", "delete", parent])


@pytest.mark.parametrize("nic", ["whole", "cut"])
def test_macvlan_with_net_raw_only_is_exact(make_lab, verify, behind_macvlan, nic):
    lab = make_lab(hosts=2, nic=nic)
    behind_macvlan(lab)
    kinds = lab.run(0, ["ip", "-d", "link", "show", "eth0"]).stdout
    assert "macvlan" in kinds
    program = [*CAPPED, verify, "--quick", "--only", "pt2pt,outstanding"]
    result = run_job(lab, 2, *program)
    assert help_messages(result) == [], show(result)


def test_ports_of_a_bridge_with_net_raw_only_are_exact(make_lab, verify):
    lab = make_lab(hosts=2, topology="switch")
    program = [*CAPPED, verify, "--quick", "--only", "pt2pt,outstanding"]
    result = run_job(lab, 2, *program)
    assert help_messages(result) == [], show(result)
