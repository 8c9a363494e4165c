# SPDX-License-Identifier: BSD-3-Clause
"""Messages to a process arrive in order over several interfaces: ob1 can sort only a few."""

import time

import pytest
from conftest import RAWE, assert_success, thorough
from jobs import Job

# Messages, bytes (0: mixed, up to 100 kB), outstanding messages, ms of computation, reductions.
SHORT_TO_ONE_AWAY = (70000, 4, 1, 300, 0)
SHORT = (200000, 4, 1, 0, 0)
OUTSTANDING = (100000, 200, 1000, 100, 0)
MIXED = (20000, 0, 1000, 100, 0)
REDUCE = (1000, 4, 1, 0, 70000)

OUT_SECONDS = 2  # of silence of an interface


def nothing(lab):
    """All interfaces work, and are alike."""


def slow(lab):
    """One interface has a tenth of the rate of the other."""
    lab.set_wire("rate=1gbit", nic=0, direction="both")
    lab.set_wire("rate=100mbit", nic=1, direction="both")


def stalled(lab):
    """One interface loses all frames for a while."""
    lab.set_wire("loss=100%", 1, 1, "both")
    time.sleep(OUT_SECONDS)
    lab.set_wire("none", 1, 1, "both")


def out(lab):
    """One interface is pulled, and plugged in again."""
    lab.link_down(1, 1)
    time.sleep(OUT_SECONDS)
    lab.link_up(1, 1)


@pytest.mark.parametrize(
    "nics, ranks, happens, pattern",
    [
        (2, 1, nothing, SHORT_TO_ONE_AWAY),
        (2, 1, out, MIXED),
        thorough(2, 1, nothing, SHORT),
        thorough(2, 1, nothing, REDUCE),
        thorough(2, 1, slow, SHORT),
        thorough(2, 1, slow, OUTSTANDING),
        thorough(2, 1, stalled, OUTSTANDING),
        thorough(2, 2, stalled, SHORT_TO_ONE_AWAY),
        thorough(2, 4, out, OUTSTANDING),
        thorough(3, 1, nothing, SHORT_TO_ONE_AWAY),
        thorough(3, 1, slow, MIXED),
        thorough(3, 2, out, SHORT),
        thorough(3, 2, stalled, MIXED),
    ],
)
def test_messages_come_in_order_by_several_nics(
    make_lab, build, numbered, nics, ranks, happens, pattern
):
    lab = make_lab(hosts=2, nics=nics, topology="wire" if happens in (slow, stalled) else "switch")
    job = Job(lab, build, ["-np", 2 * ranks, *RAWE, numbered, *pattern])
    job.wait_for("begins")
    happens(lab)
    assert_success(job.finish())
