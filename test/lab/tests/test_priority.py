# SPDX-License-Identifier: BSD-3-Clause
"""btl_rawe_socket_priority, as seen by a queueing discipline or a VLAN interface."""

import json

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show
from test_helper import place, start  # noqa: F401 (a fixture)

EFFORT = ("--quick", "--scale", "0.1", "--only", "pt2pt")
TABLE = """table netdev rawe_priority {{
    chain egress {{
        type filter hook egress device "{device}" priority 0; policy accept;
        meta priority 0:{priority} counter accept
        counter
    }}
}}
"""


def count(lab, device, priority):
    """Start to count, from 0, the packets that each host sends through a device."""
    for host in lab.hosts:
        script = TABLE.format(device=device, priority=priority)
        done = lab.run(host, ["nft", "-f", "-"], input=script)
        assert done.returncode == 0, done.stderr


def counts(lab):
    """Yield for each host how many packets were sent with the priority, and with another one."""
    for host in lab.hosts:
        listing = lab.run(host, ["nft", "-j", "list", "table", "netdev", "rawe_priority"]).stdout
        rules = [part["rule"] for part in json.loads(listing)["nftables"] if "rule" in part]
        yield tuple(
            match["counter"]["packets"]
            for rule in rules
            for match in rule["expr"]
            if "counter" in match
        )


@pytest.mark.parametrize("priority", [1, 6])
def test_all_that_is_sent_has_the_priority(make_lab, build, verify, priority):
    lab = make_lab(hosts=2)
    count(lab, "eth0", priority)
    options = ["--mca", "btl_rawe_socket_priority", priority]
    words = ["-np", 2, *RAWE, *options, verify, *EFFORT]
    result = lab.mpirun(words, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    for with_it, others in counts(lab):
        assert with_it > 0 and others == 0, show(result)


def test_by_default_nothing_has_one(make_lab, build, verify):
    lab = make_lab(hosts=2)
    count(lab, "eth0", 0)
    result = lab.mpirun(["-np", 2, *RAWE, verify, *EFFORT], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    for with_none, others in counts(lab):
        assert with_none > 0 and others == 0, show(result)


def test_sockets_of_the_helper_have_the_priority(make_lab, place):  # noqa: F811
    lab = make_lab(hosts=1)
    count(lab, "lo", 6)
    options = ["--mca", "btl_rawe_socket_priority", 6]
    job = start(lab, place, "-np", 2, *RAWE, *options, place / "rawe-verify", *EFFORT)
    assert_success(job.finish())
    ((with_it, _),) = counts(lab)
    assert with_it > 0
