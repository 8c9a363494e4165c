# SPDX-License-Identifier: BSD-3-Clause
"""Each fault is reported once, with host, interface and remedy; nothing hangs or is left behind.

A job that did not select rawe sees no message from it, unless it requests verbose output.
"""

import signal
import time

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    EndlessJob,
    UntilJob,
    assert_clean_end,
    assert_failure,
    assert_one_message,
    assert_success,
    help_messages,
    run_job,
    show,
    thorough,
    until_told,
    wait_until,
)

WITH_TCP = ("--mca", "btl", "rawe,tcp,self")
TCP_NIC = ("--mca", "btl_tcp_if_include", "eth1")
ROUNDS = ("rounds", 20)
NO_RAW_SOCKETS = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
# Give up a blocked peer sooner than by default; the tests do not depend on this time.
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "3")
# Only for ranks that cannot connect at all: on a busy machine, connecting may take this long.
UNCONNECTED = ("--mca", "btl_rawe_connect_timeout_ms", "1000")


def run_told(lab, btls, *words, **options):
    """Run two ranks on two hosts until they show a message; return the MpiResult."""
    options = {"timeout": HANG_SECONDS, "build": lab.build, **options}
    return until_told(lambda: lab.mpirun(["-np", 2, *btls, *words], **options))


def include(interfaces):
    """Return the parameter that selects interfaces."""
    return ["--mca", "btl_rawe_if_include", interfaces]


def deaf(*ways):
    """Return a function that drops our frames for each of these (receiver, sender) pairs."""
    return lambda lab: [lab.blackhole(*way, ETHERTYPE) for way in ways]


# Faults at startup: how to damage the lab, the job's arguments, words of the message.
PACKET = ("--mca", "btl_rawe_kind", "packet")
LOST = [*UNCONNECTED, *IMPATIENT, *PACKET, *include("eth0")]
TROUBLES = {
    "unknown interface": (None, include("nosuch0"), ["nosuch0", "btl_rawe_if_include"]),
    "parameter out of range": (
        None,
        ["--mca", "btl_rawe_window_frames", "1000000"],
        ["btl_rawe_window_frames", "1000000"],
    ),
    "include and exclude": (
        None,
        [*include("eth0"), "--mca", "btl_rawe_if_exclude", "eth1"],
        ["btl_rawe_if_include", "btl_rawe_if_exclude"],
    ),
    "interface down": (lambda lab: lab.link_down(1, nic=0), include("eth0"), ["eth0", "ip link"]),
    "interface gone": (lambda lab: lab.delete_nic(1, nic=0), include("eth0"), ["eth0"]),
    "unknown subnet": (None, include("10.255.0.0/16"), ["10.255.0.0/16"]),
    "lost both ways": (deaf((0, 1), (1, 0)), LOST, ["eth0", "nft list ruleset"]),
    "lost one way": (deaf((1, 0)), LOST, ["eth0", "nft list ruleset"]),
}
# test_udp.py has firewalls that drop UDP.
RAW_TROUBLES = ("lost both ways", "lost one way")
EACH_TROUBLE = [
    pytest.param(name, marks=pytest.mark.raw if name in RAW_TROUBLES else ()) for name in TROUBLES
]


def begin(lab, trouble):
    """Damage the lab; return the job's arguments and the words of the message."""
    damage, arguments, words = TROUBLES[trouble]
    if damage is not None:
        damage(lab)
    return arguments, words


def two_nics(make_lab):
    """Bring up two hosts with eth0 for rawe and eth1 for tcp."""
    return make_lab(hosts=2, nics=2)


# With only rawe, the job ends; with tcp on the other NIC, it continues.
@pytest.mark.parametrize(
    "btls, check",
    [(RAWE, assert_failure), thorough((*WITH_TCP, *TCP_NIC), assert_success)],
    ids=["rawe", "tcp"],
)
@pytest.mark.parametrize("trouble", EACH_TROUBLE)
def test_trouble_at_start_is_told_once(make_lab, exchange, trouble, btls, check):
    lab = two_nics(make_lab)
    arguments, words = begin(lab, trouble)
    result = run_told(lab, btls, *arguments, exchange, *ROUNDS)
    check(result)
    assert_one_message(result, f"{lab.name}-h", *words)


@pytest.mark.raw
@pytest.mark.parametrize(
    "btls, check", [(RAWE, assert_failure), (WITH_TCP, assert_success)], ids=["rawe", "tcp"]
)
def test_without_cap_net_raw_there_is_one_message(make_lab, exchange, btls, check):
    lab = make_lab(hosts=2)
    result = run_told(lab, btls, *PACKET, exchange, *ROUNDS, prefix=NO_RAW_SOCKETS)
    check(result)
    assert_one_message(result, f"{lab.name}-h", "eth0", "CAP_NET_RAW", "doc/security.md")


def test_peers_with_different_mtu_are_told_once_and_work(make_lab, verify):
    lab = make_lab(hosts=2, mtu=9000)
    lab.set_mtu(1, 1500)
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random"]
    result = run_told(lab, RAWE, verify, *effort)
    assert_success(result)
    assert_one_message(result, f"{lab.name}-h", "eth0", "9000", "1500", "ip link set")


def test_limits_that_differ_end_the_job_with_one_message(make_lab, verify):
    lab = make_lab(hosts=2)
    lab.set_environment(
        1, OMPI_MCA_btl_rawe_eager_limit=16384, OMPI_MCA_btl_rawe_max_send_size=16384
    )
    result = run_told(lab, RAWE, verify, "--quick", "--only", "pt2pt")
    assert_failure(result)
    assert_one_message(result, "btl_rawe_max_send_size", "16384", "65600", f"{lab.name}-h0")


def test_a_good_day_says_nothing(make_lab, exchange):
    result = run_job(make_lab(hosts=2), 2, exchange, *ROUNDS)
    assert help_messages(result) == []
    assert "rawe" not in result.errors, result.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_mpirun_ends_the_job(make_lab, exchange, number):
    job = EndlessJob(make_lab(hosts=2), exchange)
    job.process.send_signal(number)
    job.end()


def test_mpi_abort_ends_the_job_with_its_status(make_lab, build, exchange):
    lab = make_lab(hosts=2)
    words = ["-np", 4, *RAWE, exchange, "abort"]
    result = lab.mpirun(words, timeout=HANG_SECONDS, build=lab.build)
    assert_clean_end(result)
    assert result.returncode == 7, show(result)


def test_a_network_that_dies_ends_the_job_with_one_message(make_lab, exchange):
    lab = make_lab(hosts=2)

    def attempt():
        job = EndlessJob(lab, exchange, ranks=2, arguments=IMPATIENT)
        lab.blackhole(0, 1)
        lab.blackhole(1, 0)
        result = job.end()
        lab.end_blackhole(0)
        lab.end_blackhole(1)
        return result

    assert_one_message(until_told(attempt), f"{lab.name}-h", "eth0", "btl_rawe_peer_timeout")


def test_a_network_that_pauses_ends_nothing(make_lab, exchange):
    lab = make_lab(hosts=2)
    job = UntilJob(lab, exchange)
    lab.set_loss(100)
    time.sleep(2)  # long enough for retransmissions, and for reactions to missing answers
    wait_until(lambda: lab.dropped() > 0, "frame lost")
    lab.set_loss(0)
    job.end()


VERBOSE = ("--mca", "btl_base_verbose", "10")
# Selections of BTLs that do not name rawe, or that exclude it.
UNASKED = {
    "none": (),
    "others excluded": ("--mca", "btl", "^openib,usnic"),
    "rawe excluded": ("--mca", "btl", "^rawe"),
    "others named": ("--mca", "btl", "tcp,vader,self"),
}


def run_unasked(lab, *words, **options):
    """Run two ranks on two hosts, which succeed because tcp is available."""
    return run_job(lab, 2, *words, btls=TCP_NIC, **options)


def assert_silent(result):
    """There is no error output, except mpirun's "plm:ssh: Warning: setpgid(...) failed in parent"
    on a busy machine, when a daemon has executed its program already."""
    lines = [line for line in result.errors.splitlines() if ": Warning: setpgid(" not in line]
    assert lines == [], show(result)


@pytest.mark.parametrize("selection", UNASKED.values(), ids=UNASKED)
def test_without_cap_net_raw_nothing_is_said(make_lab, exchange, selection):
    result = run_unasked(two_nics(make_lab), *selection, exchange, *ROUNDS, prefix=NO_RAW_SOCKETS)
    assert_silent(result)


@pytest.mark.thorough
@pytest.mark.parametrize("trouble", EACH_TROUBLE)
def test_of_trouble_at_start_nothing_is_said(make_lab, exchange, trouble):
    lab = two_nics(make_lab)
    arguments, _ = begin(lab, trouble)
    result = run_unasked(lab, *arguments, exchange, *ROUNDS)
    assert_silent(result)


def test_where_rawe_is_used_unasked_nothing_is_said(make_lab, exchange):
    lab = two_nics(make_lab)
    lab.set_mtu(1, 1400, nic=0)
    result = run_unasked(lab, exchange, *ROUNDS)
    assert_silent(result)


@pytest.mark.raw
def test_who_asks_hears_why_rawe_is_not_used(make_lab, exchange):
    lab = two_nics(make_lab)
    result = run_unasked(lab, *VERBOSE, exchange, *ROUNDS, prefix=NO_RAW_SOCKETS)
    found = [line for line in result.errors.splitlines() if "btl:rawe: found" in line]
    assert len(found) == 2 and all("eth0 (tried)" in line for line in found), show(result)
    assert "CAP_NET_RAW" in result.errors and "doc/security.md" in result.errors, show(result)


@pytest.mark.raw
def test_who_asks_hears_what_rawe_uses(make_lab, exchange):
    lab = two_nics(make_lab)
    lab.link_down(0, nic=0)
    result = run_unasked(lab, *VERBOSE, exchange, *ROUNDS)
    found = [line for line in result.errors.splitlines() if "btl:rawe: found" in line]
    used = [line for line in result.errors.splitlines() if "btl:rawe: uses" in line]
    assert any("eth0 (down or without carrier), eth1" in line for line in found), show(result)
    assert sorted(line.split()[-1] for line in used) == ["eth1", "eth1", "lo", "lo"], show(result)
