# SPDX-License-Identifier: BSD-3-Clause
"""A switch damages frames after their frame check: no damaged byte is delivered, nothing hangs."""

import re

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    RAWE,
    assert_success,
    help_messages,
    show,
    thorough,
)

from rawelab import launch

HOSTS = 3
MEMBERS = 4  # fewer do not multicast
JOB_SECONDS = 900
STATS = ("--mca", "btl_rawe_stats", "1")
KINDS = ("corrupt", "truncate", "pad", "lengthen", "repeat-changed")
# Messages and windows, from one byte to a megabyte.
VERIFY = ["--quick", "--skip", BEYOND_OPEN_MPI, "--timeout", 300]


def damage(percent):
    """Return the faults of a wire that damages this share of the frames, in all ways."""
    return ",".join(f"{kind}={percent / len(KINDS):.4f}%" for kind in KINDS)


def dropped(result):
    """Return how many damaged plain frames, and packets of batches, the processes have found."""
    return [
        sum(map(int, re.findall(rf" {name}=(\d+)", result.errors)))
        for name in ("dropped_checksum", "bulk_dropped_checksum")
    ]


def verify_over(lab, build, verify, *effort):
    """Run the verification program; it must succeed."""
    arguments = ["-np", HOSTS, *RAWE, *STATS, verify, *VERIFY, *effort]
    result = lab.mpirun(arguments, timeout=JOB_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    return result


@pytest.mark.parametrize("nic", ["cut", "plain"])
@pytest.mark.parametrize("mtu", [1500, thorough(9000)])
@pytest.mark.parametrize(
    "percent, effort",
    [(0.33, ("--scale", "0.2")), thorough(10, ("--scale", "0.05", "--max-bytes", "300K"))],
)
def test_no_damaged_byte_is_delivered(make_lab, build, verify, nic, mtu, percent, effort):
    lab = make_lab(hosts=HOSTS, nic=nic, mtu=mtu, topology="wire", wire=damage(percent))
    result = verify_over(lab, build, verify, *effort)
    assert lab.wire_total("corrupted") > 30
    assert min(dropped(result)) > 0, result.errors


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_of_one_kind_is_delivered(make_lab, build, verify, kind):
    lab = make_lab(hosts=HOSTS, nic="cut", topology="wire", wire=f"{kind}=3%")
    result = verify_over(lab, build, verify, "--scale", "0.1")
    assert lab.wire_total("corrupted") > 100
    # Appended bytes do not damage the frame before them.
    assert (min(dropped(result)) > 0) == (kind not in ("pad", "lengthen")), result.errors


def test_four_megabytes_in_batches(make_lab, build, verify):
    lab = make_lab(hosts=HOSTS, nic="cut", topology="wire", wire=damage(1))
    effort = ["--only", "pt2pt,onesided", "--max-bytes", "4M", "--scale", "0.1"]
    assert dropped(verify_over(lab, build, verify, *effort))[1] > 0


@pytest.mark.skipif(launch.open_mpi()[0] > 5, reason="6.0 has another interface for coll/rawe")
@pytest.mark.parametrize("percent", [0.33, thorough(10)])
@pytest.mark.parametrize("what", ["sizes", "long"])
def test_bcasts_deliver_no_damaged_byte(make_lab, build, bcasts, percent, what):
    lab = make_lab(hosts=MEMBERS, nic="cut", topology="wire", wire=damage(percent))
    arguments = ["-np", MEMBERS, *RAWE, *STATS, bcasts, what]
    result = lab.mpirun(arguments, timeout=JOB_SECONDS, build=build)
    assert_success(result)
    assert lab.wire_total("corrupted") > 0
    received = re.findall(r" multicast_messages_received=(\d+)", result.errors)
    assert sum(map(int, received)) > 0


def test_damage_is_told_once_with_the_interface(make_lab, build, verify):
    lab = make_lab(hosts=HOSTS, nic="cut", topology="wire", wire=damage(5))
    for _ in range(4):  # Open MPI loses a help message now and then, see test_bad_days.py
        result = verify_over(lab, build, verify, "--scale", "0.1", "--only", "pt2pt")
        if help_messages(result):
            break
    assert all("arrive damaged" in one and "eth0" in one for one in help_messages(result))
    assert help_messages(result) != []


def test_a_network_that_damages_nothing_is_not_blamed(make_lab, build, verify):
    result = verify_over(make_lab(hosts=HOSTS), build, verify, "--only", "pt2pt", "--scale", "0.1")
    assert dropped(result) == [0, 0]
    assert help_messages(result) == []
