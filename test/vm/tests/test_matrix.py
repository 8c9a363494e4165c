# SPDX-License-Identifier: BSD-3-Clause
"""Real drivers on real kernels: every byte arrives, in batches."""

import pytest
from conftest import assert_exact, counters, on_all, silent_kernels
from rawevm.fetch import KERNELS
from rawevm.spec import NICS

# The counters that show that batches are used, and those that the final report shows.
IN_USE = ("validations_passed", "bulk_frames_received")
NOTED = (*IN_USE, "batches_sent", "bulk_send_errors", "frames_sent", "frames_resent")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nic", NICS)
def test_every_byte_arrives(cluster_of, build, verify, nic, kernel, note):
    cluster = cluster_of(nic=nic, kernel=kernel)
    with silent_kernels(cluster):
        result = assert_exact(cluster, build, verify, groups=None)
    found = counters(result, "eth0")
    note(" ".join(f"{name}={found[name]}" for name in NOTED))
    assert found["frames_received"] > 0
    assert all(found[name] > 0 for name in IN_USE), found
    with on_all(cluster, "ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500"):
        assert_exact(cluster, build, verify)


def test_three_machines(fresh_cluster_of, build, verify):
    cluster = fresh_cluster_of(hosts=3, kernel="6.12")
    assert_exact(cluster, build, verify, ranks=3, groups="pt2pt,random,unexpected")
