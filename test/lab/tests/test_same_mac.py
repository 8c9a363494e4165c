# SPDX-License-Identifier: BSD-3-Clause
"""Several hosts have the same MAC address, as NICs between a board and its BMC do."""

import pytest
from conftest import RAWE, assert_success, help_messages, show
from jobs import assert_failure

BMC_MAC = "b0:3a:f2:b6:05:9f"


def isolate(lab, nic):
    """Give one NIC of each host the same MAC address, and disconnect these NICs."""
    switch = ["ip", "netns", "exec", lab.namespaces[-1], "ip", "link", "set"]
    for host in lab.hosts:
        device = host.nics[nic]
        lab.run(host.index, ["ip", "link", "set", device.device, "address", BMC_MAC], check=True)
        lab.run(host.index, [*switch, device.port, "nomaster"], check=True)


@pytest.mark.parametrize("nic", [0, 1])
def test_hosts_with_a_mac_in_common_reach_each_other_by_their_other_nics(
    make_lab, build, verify, nic
):
    lab = make_lab(hosts=2, nics=2, topology="switch")
    isolate(lab, nic)
    arguments = ["-np", 4, "--map-by", "node", *RAWE, verify, "--quick", "--only", "pt2pt"]
    result = lab.mpirun(arguments, build=build)
    assert_success(result)
    assert help_messages(result) == []


def test_a_job_whose_hosts_cannot_reach_each_other_ends_with_a_message(make_lab, build, verify):
    lab = make_lab(hosts=2, nics=1, topology="switch")
    isolate(lab, 0)
    timeout = ("--mca", "btl_rawe_connect_timeout_ms", "1000", "--mca", "btl_rawe_peer_timeout", 1)
    arguments = ["-np", 2, *RAWE, *timeout, verify, "--quick", "--only", "pt2pt"]
    result = lab.mpirun(arguments, build=build)
    assert_failure(result)
    assert any("got no answer from a peer" in message for message in help_messages(result))
    assert "rawe cannot reach rank" in result.errors, show(result)
    assert "Signal: " not in result.output + result.errors, show(result)
