# SPDX-License-Identifier: BSD-3-Clause
"""Each fault is reported once, with host, interface and remedy; nothing hangs or is left behind."""

import signal
import time

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    assert_clean_end,
    assert_one_message,
    assert_success,
    help_messages,
    show,
    thorough,
    wait_until,
)
from jobs import EndlessJob, Job, assert_failure

WITH_TCP = ("--mca", "btl", "rawe,tcp,self")
TCP_NIC = ("--mca", "btl_tcp_if_include", "eth1")
ROUNDS = ("rounds", 20)
NO_RAW_SOCKETS = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
# A blocked peer is given up sooner than by default; the tests do not depend on how soon.
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "3")
# Only for ranks that cannot connect at all: on a busy machine, connecting may take this long.
UNCONNECTED = ("--mca", "btl_rawe_connect_timeout_ms", "1000")


def run(lab, build, btls, *arguments, **options):
    """Run two ranks on two hosts; return the MpiResult."""
    return lab.mpirun(["-np", 2, *btls, *arguments], timeout=HANG_SECONDS, build=build, **options)


def run_told(*arguments, **options):
    """
    The same, for a job that shows a message. Open MPI 4.1.4 loses a rank's help message now and
    then (btl/tcp's as well: mpirun says "Data unpack ... show_help.c", or nothing at all), so a
    job without any message is given three more chances.
    """
    for _ in range(4):
        result = run(*arguments, **options)
        if help_messages(result):
            break
    return result


def include(interfaces):
    """Return the parameter that selects interfaces."""
    return ["--mca", "btl_rawe_if_include", interfaces]


def deaf(*ways):
    """Return a function that drops our frames for each of these (receiver, sender) pairs."""
    return lambda lab: [lab.blackhole(*way, ETHERTYPE) for way in ways]


# Faults at start: how the lab is damaged, the job's arguments, words of the message.
LOST = [*UNCONNECTED, *IMPATIENT, *include("eth0")]
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


def begin(lab, trouble):
    """Damage the lab; return the job's arguments and the words of the message."""
    damage, arguments, words = TROUBLES[trouble]
    if damage is not None:
        damage(lab)
    return arguments, words


def two_nics(make_lab):
    """Bring up two hosts with eth0 for rawe and eth1 for tcp."""
    return make_lab(hosts=2, nics=2)


# With rawe alone the job ends; with tcp on the other NIC it continues.
@pytest.mark.parametrize(
    "btls, check",
    [(RAWE, assert_failure), thorough((*WITH_TCP, *TCP_NIC), assert_success)],
    ids=["rawe", "tcp"],
)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_at_start_is_told_once(make_lab, build, endless, trouble, btls, check):
    lab = two_nics(make_lab)
    arguments, words = begin(lab, trouble)
    result = run_told(lab, build, btls, *arguments, endless, *ROUNDS)
    check(result)
    assert_one_message(result, f"{lab.name}-h", *words)


@pytest.mark.parametrize(
    "btls, check", [(RAWE, assert_failure), (WITH_TCP, assert_success)], ids=["rawe", "tcp"]
)
def test_without_cap_net_raw_there_is_one_message(make_lab, build, endless, btls, check):
    lab = make_lab(hosts=2)
    result = run_told(lab, build, btls, endless, *ROUNDS, prefix=NO_RAW_SOCKETS)
    check(result)
    assert_one_message(result, f"{lab.name}-h", "eth0", "CAP_NET_RAW", "doc/security.md")


def test_peers_with_different_mtu_are_told_once_and_work(make_lab, build, verify):
    lab = make_lab(hosts=2, mtu=9000)
    lab.set_mtu(1, 1500)
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random"]
    result = run_told(lab, build, RAWE, verify, *effort)
    assert_success(result)
    assert_one_message(result, f"{lab.name}-h", "eth0", "9000", "1500", "ip link set")


def test_limits_that_differ_end_the_job_with_one_message(make_lab, build, verify):
    lab = make_lab(hosts=2)
    lab.set_environment(
        1, OMPI_MCA_btl_rawe_eager_limit=16384, OMPI_MCA_btl_rawe_max_send_size=16384
    )
    result = run_told(lab, build, RAWE, verify, "--quick", "--only", "pt2pt")
    assert_failure(result)
    assert_one_message(result, "btl_rawe_max_send_size", "16384", "65600", f"{lab.name}-h0")


def test_a_good_day_says_nothing(make_lab, build, endless):
    result = run(make_lab(hosts=2), build, RAWE, endless, *ROUNDS)
    assert_success(result)
    assert help_messages(result) == []
    assert "rawe" not in result.errors, result.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_mpirun_ends_the_job(make_lab, build, endless, number):
    job = EndlessJob(make_lab(hosts=2), build, endless)
    job.process.send_signal(number)
    job.end()


def test_mpi_abort_ends_the_job_with_its_status(make_lab, build, endless):
    lab = make_lab(hosts=2)
    result = lab.mpirun(["-np", 4, *RAWE, endless, "abort"], timeout=HANG_SECONDS, build=build)
    assert_clean_end(result)
    assert result.returncode == 7, show(result)


def test_a_network_that_dies_ends_the_job_with_one_message(make_lab, build, endless):
    for _ in range(4):  # see run_told
        lab = make_lab(hosts=2)
        job = EndlessJob(lab, build, endless, ranks=2, arguments=IMPATIENT)
        lab.blackhole(0, 1)
        lab.blackhole(1, 0)
        result = job.end()
        if help_messages(result):
            break
    assert_one_message(result, f"{lab.name}-h", "eth0", "btl_rawe_peer_timeout")


def test_a_network_that_pauses_ends_nothing(make_lab, build, endless, tmp_path):
    lab = make_lab(hosts=2)
    end_file = tmp_path / "end"
    job = Job(lab, build, ["-np", 2, *RAWE, endless, "until", end_file])
    job.wait_for("works", 2)
    lab.set_loss(100)
    time.sleep(2)  # long enough for retransmissions, and for what missing answers trigger
    wait_until(lambda: lab.dropped() > 0, "frame lost")
    lab.set_loss(0)
    end_file.touch()
    assert_success(job.finish())
