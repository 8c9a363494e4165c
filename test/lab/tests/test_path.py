# SPDX-License-Identifier: BSD-3-Clause
"""Paths that change while a job runs, or that carry only some frames; and what a switch floods."""

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    assert_one_message,
    assert_success,
    help_messages,
    show,
    wait_until,
)
from jobs import Job, assert_failure

from rawelab import faults
from rawelab.capture import packets

IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "4")  # for jobs that this timeout ends
PING, PONG = 7, 8


def rewrite_source(lab, sender, receiver, reaches):
    """Let frames from one host arrive with a source address that is not that of its NIC.

    With `reaches`, the host receives frames to that address, as with a bond of mode balance-tlb.
    Without, PINGs and PONGs keep their address, so that path discovery succeeds.
    """
    other = "02:00:00:00:00:99"
    ours, theirs = lab.nic(sender), lab.nic(receiver)
    kind = f"ether type {ETHERTYPE:#06x}"
    connections = "" if reaches else f"@ll,116,4 != {PING} @ll,116,4 != {PONG}"
    faults._replace_table(
        lab.host(receiver),
        theirs,
        "source",
        [f"{kind} {connections} ether saddr {ours.mac} ether saddr set {other}"],
    )
    if reaches:
        back = f"{kind} ether daddr {other} ether daddr set {ours.mac} meta pkttype set host"
        faults._replace_table(lab.host(sender), ours, "source", [back])


@pytest.mark.thorough
def test_refused_connections_are_reported_and_end_the_job(make_lab, build, endless):
    for _ in range(4):  # Open MPI loses a help message now and then, see test_bad_days.py
        lab = make_lab(hosts=2)
        rewrite_source(lab, 0, 1, reaches=False)
        job = Job(lab, build, ["-np", 2, *RAWE, *IMPATIENT, endless, "rounds", 20])
        result = job.finish()
        if help_messages(result):
            break
    assert_failure(result)
    assert_one_message(result, "makes no progress", "eth0", "does not answer", "balance-tlb")


@pytest.mark.thorough
def test_a_peer_that_answers_at_another_address_is_followed(make_lab, build, endless):
    lab = make_lab(hosts=2)
    rewrite_source(lab, 0, 1, reaches=True)
    result = Job(lab, build, ["-np", 2, *RAWE, endless, "rounds", 20]).finish()
    assert_success(result)
    assert help_messages(result) == []


@pytest.mark.parametrize("batches", [0, 1])
def test_a_lowered_mtu_is_found_out_and_the_job_goes_on(
    make_lab, build, endless, tmp_path, batches
):
    # Without offloads, the kernel cuts batches and drops the pieces that are too long.
    lab = make_lab(hosts=2, nic="plain")
    end_file = tmp_path / "end"
    options = ("--mca", "btl_rawe_batches", batches)
    job = Job(lab, build, ["-np", 2, *RAWE, *options, endless, "until", end_file])
    job.wait_for("works", 2)
    for host in (0, 1):
        lab.set_mtu(host, 1200)
    # 150 rounds of messages; probing the MTU takes a tenth of these bytes.
    before = [lab.statistic(host, "rx_bytes") for host in (0, 1)]
    wait_until(
        lambda: all(lab.statistic(host, "rx_bytes") > before[host] + 3_000_000 for host in (0, 1)),
        "message that passes",
    )
    end_file.touch()
    result = job.finish()
    assert_success(result)
    for message in help_messages(result):
        assert "MTU that passes:   1024" in message, message


def frames_of(file):
    """Yield the complete frames of our EtherType in a pcap file, from the frame header on."""
    for frame, length in packets(file):
        if len(frame) == length and int.from_bytes(frame[12:14], "big") == ETHERTYPE:
            yield frame[14:]


def test_no_session_key_is_flooded(make_lab, build, endless, tmp_path):
    """A switch floods frames to addresses that it has not learned, mostly at first contact."""
    lab = make_lab(hosts=3, topology="switch")
    files = [tmp_path / "job.pcap", tmp_path / "flooded.pcap"]
    ours = ["ether", "proto", hex(ETHERTYPE)]
    captures = [lab.capture(host, file, ours) for host, file in zip((0, 2), files)]
    hosts = ",".join(lab.host(host).name for host in (0, 1))
    arguments = ["-np", 2, "--host", hosts, *RAWE, "--mca", "btl_rawe_batches", "0"]
    result = lab.mpirun([*arguments, endless, "rounds", 20], HANG_SECONDS, build=build)
    assert_success(result)
    for capture in captures:
        capture.end()
    keys = {frame[4:8] for frame in frames_of(files[0]) if frame[0] & 15 not in (PING, PONG)}
    assert len(keys) == 2, show(result)
    flooded = list(frames_of(files[1]))
    assert flooded, "nothing was flooded: the test shows nothing"
    for frame in flooded:
        assert not any(key in frame for key in keys), frame.hex()
