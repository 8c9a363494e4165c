# SPDX-License-Identifier: BSD-3-Clause
"""Tests of facts.py: facts of several places, and what a reader has to know."""

import os
from types import SimpleNamespace

from benchlib import facts
from benchlib.plan import Case


def test_merge__facts_that_differ_name_their_hosts():
    merged = facts.merge(
        {
            2: [("Hosts", "2 virtual"), ("Wiring", "direct"), ("MTU", "1500 bytes")],
            4: [("Hosts", "4 virtual"), ("Wiring", "bridge"), ("MTU", "1500 bytes")],
        }
    )
    assert merged == [
        ("Hosts", "2 virtual; 4 virtual"),
        ("Wiring", "direct (2 hosts); bridge (4 hosts)"),
        ("MTU", "1500 bytes"),
    ]


def test_about__more_ranks_than_cores_are_noted(tmp_path):
    shape = dict.fromkeys(("mtu", "topology", "nic", "rate", "loss"))
    options = SimpleNamespace(build=tmp_path, hostfile=None, shape=shape, rounds=2, against=None)
    cores = len(os.sched_getaffinity(0))
    for ranks, noted in ((cores, False), (cores + 1, True)):
        found = dict(facts.about(options, "now", [Case("a", "", ranks, 2)]))
        assert ("Note" in found) == noted
        assert (found["Ranks"], found["Rounds"], found["Date"]) == (str(ranks), 2, "now")
