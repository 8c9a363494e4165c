# SPDX-License-Identifier: BSD-3-Clause
"""Paths that change while a job runs, that carry only some frames, or that damage frames."""

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    ETHERTYPE,
    RAWE,
    STATS,
    Job,
    UntilJob,
    assert_failure,
    assert_one_message,
    counted,
    help_messages,
    run_job,
    run_verify,
    show,
    thorough,
    until_told,
    wait_until,
)

from rawelab import faults, launch
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
def test_refused_connections_are_reported_and_end_the_job(make_lab, exchange):
    lab = make_lab(hosts=2)
    rewrite_source(lab, 0, 1, reaches=False)
    words = ["-np", 2, *RAWE, *IMPATIENT, exchange, "rounds", 20]
    result = until_told(lambda: Job(lab, words).finish())
    assert_failure(result)
    assert_one_message(result, "makes no progress", "eth0", "does not answer", "balance-tlb")


@pytest.mark.thorough
def test_a_peer_that_answers_at_another_address_is_followed(make_lab, exchange):
    lab = make_lab(hosts=2)
    rewrite_source(lab, 0, 1, reaches=True)
    assert help_messages(run_job(lab, 2, exchange, "rounds", 20)) == []


@pytest.mark.parametrize("batches", [0, 1])
def test_a_lowered_mtu_is_found_out_and_the_job_goes_on(make_lab, exchange, batches):
    # Without offloads, the kernel cuts batches and drops the pieces that are too long.
    lab = make_lab(hosts=2, nic="plain")
    job = UntilJob(lab, exchange, "--mca", "btl_rawe_batches", batches)
    for host in (0, 1):
        lab.set_mtu(host, 1200)
    # 150 rounds of messages; probing the MTU takes a tenth of these bytes.
    before = [lab.statistic(host, "rx_bytes") for host in (0, 1)]
    wait_until(
        lambda: all(lab.statistic(host, "rx_bytes") > before[host] + 3_000_000 for host in (0, 1)),
        "message that passes",
    )
    for message in help_messages(job.end()):
        assert "MTU that passes:   1024" in message, message


def frames_of(file):
    """Yield the complete frames of our EtherType in a pcap file, from the frame header on."""
    for frame, length in packets(file):
        if len(frame) == length and int.from_bytes(frame[12:14], "big") == ETHERTYPE:
            yield frame[14:]


def test_no_session_key_is_flooded(make_lab, exchange, tmp_path):
    """A switch floods frames to addresses that it has not learned, mostly at first contact."""
    lab = make_lab(hosts=3, topology="switch")
    files = [tmp_path / "job.pcap", tmp_path / "flooded.pcap"]
    ours = ["ether", "proto", hex(ETHERTYPE)]
    captures = [lab.capture(host, file, ours) for host, file in zip((0, 2), files)]
    hosts = ",".join(lab.host(host).name for host in (0, 1))
    options = ["--host", hosts, "--mca", "btl_rawe_batches", "0"]
    result = run_job(lab, 2, *options, exchange, "rounds", 20)
    for capture in captures:
        capture.end()
    keys = {frame[4:8] for frame in frames_of(files[0]) if frame[0] & 15 not in (PING, PONG)}
    assert len(keys) == 2, show(result)
    flooded = list(frames_of(files[1]))
    assert flooded, "nothing was flooded: the test shows nothing"
    for frame in flooded:
        assert not any(key in frame for key in keys), frame.hex()


DAMAGED_HOSTS = 3
MEMBERS = 4  # fewer do not multicast
JOB_SECONDS = 900
KINDS = ("corrupt", "truncate", "pad", "lengthen", "repeat-changed")
# Messages and windows, from one byte to a megabyte.
VERIFY = ["--quick", "--skip", BEYOND_OPEN_MPI, "--timeout", 300]


def damage(percent):
    """Return the faults of a wire that damages this share of the frames, in all ways."""
    return ",".join(f"{kind}={percent / len(KINDS):.4f}%" for kind in KINDS)


def dropped(result):
    """Return how many damaged plain frames, and packets of batches, the processes have found."""
    return [counted(result, name) for name in ("dropped_checksum", "bulk_dropped_checksum")]


def verify_over(lab, verify, *effort):
    """Run the verification program with its report."""
    words = [*STATS, verify, *VERIFY, *effort]
    return run_verify(lab, DAMAGED_HOSTS, *words, timeout=JOB_SECONDS)


@pytest.mark.parametrize("nic", ["cut", "plain"])
@pytest.mark.parametrize("mtu", [1500, thorough(9000)])
@pytest.mark.parametrize(
    "percent, effort",
    [(0.33, ("--scale", "0.2")), thorough(10, ("--scale", "0.05", "--max-bytes", "300K"))],
)
def test_no_damaged_byte_is_delivered(make_lab, verify, nic, mtu, percent, effort):
    lab = make_lab(hosts=DAMAGED_HOSTS, nic=nic, mtu=mtu, topology="wire", wire=damage(percent))
    result = verify_over(lab, verify, *effort)
    assert lab.wire_total("corrupted") > 30
    assert min(dropped(result)) > 0, result.errors


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_of_one_kind_is_delivered(make_lab, verify, kind):
    lab = make_lab(hosts=DAMAGED_HOSTS, nic="cut", topology="wire", wire=f"{kind}=3%")
    result = verify_over(lab, verify, "--scale", "0.1")
    assert lab.wire_total("corrupted") > 100
    # Appended bytes do not damage the frame before them.
    assert (min(dropped(result)) > 0) == (kind not in ("pad", "lengthen")), result.errors


def test_four_megabytes_in_batches(make_lab, verify):
    lab = make_lab(hosts=DAMAGED_HOSTS, nic="cut", topology="wire", wire=damage(1))
    effort = ["--only", "pt2pt,onesided", "--max-bytes", "4M", "--scale", "0.1"]
    assert dropped(verify_over(lab, verify, *effort))[1] > 0


@pytest.mark.skipif(launch.open_mpi()[0] > 5, reason="6.0 has another interface for coll/rawe")
@pytest.mark.parametrize("percent", [0.33, thorough(10)])
@pytest.mark.parametrize("what", ["sizes", "long"])
def test_bcasts_deliver_no_damaged_byte(make_lab, bcasts, percent, what):
    lab = make_lab(hosts=MEMBERS, nic="cut", topology="wire", wire=damage(percent))
    result = run_job(lab, MEMBERS, *STATS, bcasts, what, timeout=JOB_SECONDS)
    assert lab.wire_total("corrupted") > 0
    assert counted(result, "multicast_messages_received") > 0


def test_damage_is_told_once_with_the_interface(make_lab, verify):
    lab = make_lab(hosts=DAMAGED_HOSTS, nic="cut", topology="wire", wire=damage(5))
    words = ("--scale", "0.1", "--only", "pt2pt")
    result = until_told(lambda: verify_over(lab, verify, *words))
    assert all("arrive damaged" in one and "eth0" in one for one in help_messages(result))
    assert help_messages(result) != []


def test_a_network_that_damages_nothing_is_not_blamed(make_lab, verify):
    result = verify_over(make_lab(hosts=DAMAGED_HOSTS), verify, "--only", "pt2pt", "--scale", "0.1")
    assert dropped(result) == [0, 0]
    assert help_messages(result) == []
