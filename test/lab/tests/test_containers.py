# SPDX-License-Identifier: BSD-3-Clause
"""Hosts as seen by containers: a macvlan with its parent in another namespace, or a bridge port,
and few capabilities."""

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, help_messages, show

from rawelab.command import ip_batch, run

# Root as restricted by --cap-drop ALL --cap-add NET_RAW of Docker and Podman.
CAPPED = ("setpriv", "--bounding-set=-all,+net_raw", "--inh-caps=-all")


@pytest.fixture
def behind_macvlan():
    """A function that moves the hosts' NICs to other namespaces and replaces them by macvlans."""
    made = []

    def move(lab):
        for host in lab.hosts:
            parent = f"{host.netns}-parent"
            run(["ip", "netns", "add", parent])
            made.append(parent)
            for nic in host.nics:
                ip_batch(host.netns, [f"link set {nic.device} netns {parent}"])
                ip_batch(
                    parent,
                    [
                        f"link set {nic.device} up",
                        f"link add link {nic.device} name macvlan0 type macvlan mode bridge",
                        f"link set macvlan0 netns {host.netns} name {nic.device}",
                    ],
                )
                ip_batch(host.netns, [f"link set {nic.device} up"])

    yield move
    for parent in made:
        run(["ip", "netns", "delete", parent])


@pytest.mark.parametrize("nic", ["whole", "cut"])
def test_macvlan_with_net_raw_only_is_exact(make_lab, build, verify, behind_macvlan, nic):
    lab = make_lab(hosts=2, nic=nic)
    behind_macvlan(lab)
    kinds = lab.run(0, ["ip", "-d", "link", "show", "eth0"]).stdout
    assert "macvlan" in kinds
    program = [*CAPPED, verify, "--quick", "--only", "pt2pt,outstanding"]
    result = lab.mpirun(["-np", 2, *RAWE, *program], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_ports_of_a_bridge_with_net_raw_only_are_exact(make_lab, build, verify):
    lab = make_lab(hosts=2, topology="switch")
    program = [*CAPPED, verify, "--quick", "--only", "pt2pt,outstanding"]
    result = lab.mpirun(["-np", 2, *RAWE, *program], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert help_messages(result) == [], show(result)
