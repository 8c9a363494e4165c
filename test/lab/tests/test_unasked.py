# SPDX-License-Identifier: BSD-3-Clause
"""A job that did not select rawe sees no message of it, unless it asks for verbose output."""

import pytest
from conftest import HANG_SECONDS, assert_success, show
from test_bad_days import NO_RAW_SOCKETS, ROUNDS, TCP_NIC, TROUBLES, begin, two_nics

VERBOSE = ("--mca", "btl_base_verbose", "10")
# Selections of BTLs that do not name rawe, or that exclude it.
UNASKED = {
    "none": (),
    "others excluded": ("--mca", "btl", "^openib,usnic"),
    "rawe excluded": ("--mca", "btl", "^rawe"),
    "others named": ("--mca", "btl", "tcp,vader,self"),
}


def run(lab, build, *arguments, **options):
    """Run two ranks on two hosts; they succeed, because tcp is available."""
    arguments = ["-np", 2, *TCP_NIC, *arguments]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build, **options)
    assert_success(result)
    return result


def assert_silent(result):
    """There is no error output, except mpirun's "plm:ssh: Warning: setpgid(...) failed in parent"
    on a busy machine, when a daemon has executed its program already."""
    lines = [line for line in result.errors.splitlines() if ": Warning: setpgid(" not in line]
    assert lines == [], show(result)


@pytest.mark.parametrize("selection", UNASKED.values(), ids=UNASKED)
def test_without_cap_net_raw_nothing_is_said(make_lab, build, endless, selection):
    result = run(two_nics(make_lab), build, *selection, endless, *ROUNDS, prefix=NO_RAW_SOCKETS)
    assert_silent(result)


@pytest.mark.thorough
@pytest.mark.parametrize("trouble", TROUBLES)
def test_of_trouble_at_start_nothing_is_said(make_lab, build, endless, trouble):
    lab = two_nics(make_lab)
    arguments, _ = begin(lab, trouble)
    result = run(lab, build, *arguments, endless, *ROUNDS)
    assert_silent(result)


def test_where_rawe_is_used_unasked_nothing_is_said(make_lab, build, endless):
    lab = two_nics(make_lab)
    lab.set_mtu(1, 1400, nic=0)
    result = run(lab, build, endless, *ROUNDS)
    assert_silent(result)


def test_who_asks_hears_why_rawe_is_not_used(make_lab, build, endless):
    lab = two_nics(make_lab)
    result = run(lab, build, *VERBOSE, endless, *ROUNDS, prefix=NO_RAW_SOCKETS)
    found = [line for line in result.errors.splitlines() if "btl:rawe: found" in line]
    assert len(found) == 2 and all("eth0 (tried)" in line for line in found), show(result)
    assert "CAP_NET_RAW" in result.errors and "doc/security.md" in result.errors, show(result)


def test_who_asks_hears_what_rawe_uses(make_lab, build, endless):
    lab = two_nics(make_lab)
    lab.link_down(0, nic=0)
    result = run(lab, build, *VERBOSE, endless, *ROUNDS)
    found = [line for line in result.errors.splitlines() if "btl:rawe: found" in line]
    used = [line for line in result.errors.splitlines() if "btl:rawe: uses" in line]
    assert any("eth0 (down or without carrier), eth1" in line for line in found), show(result)
    assert sorted(line.split()[-1] for line in used) == ["eth1", "eth1", "lo", "lo"], show(result)
