# SPDX-License-Identifier: BSD-3-Clause
"""Links that refuse frames: senders wait, and give up batches that are refused for long."""

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show, wait_until
from jobs import Job
from test_counters import STATS, reports

# A link accepts this much at once: a batch, or a few frames, fewer than a long message has. Its
# queue holds two of these, and needs longer for a frame than the slowest machine does to send it.
RATE = "40mbit"
BATCH_BYTES = 70000
FRAMES_BYTES = 8000
IPV4 = 0x0800  # the EtherType of batches


def sums(result, *names):
    """Return the sum of some counters for each rank on the network."""
    return {
        rank: sum(counters[name] for name in names)
        for (rank, interface), counters in reports(result).items()
        if interface == "eth0"
    }


@pytest.mark.parametrize("batches", [0, 1])
def test_all_arrives_through_links_that_refuse(make_lab, build, verify, batches):
    # Each rank has three peers, and the job ends only if all connections make progress.
    lab = make_lab(hosts=4)
    at_once = BATCH_BYTES if batches else FRAMES_BYTES
    lab.set_short_queue(RATE, at_once, 2 * at_once)
    options = ["--mca", "btl_rawe_batches", batches, *STATS]
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random,flood"]
    arguments = ["-np", 4, *RAWE, *options, verify, *effort]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    refused = sums(result, "link_send_full", "bulk_send_full")
    assert len(refused) == 4 and min(refused.values()) > 0, refused
    assert set(sums(result, "link_send_errors").values()) == {0}


@pytest.mark.thorough
def test_batches_refused_for_long_count_as_lost(make_lab, build, endless, tmp_path):
    lab = make_lab(hosts=2)
    end_file = tmp_path / "end"
    job = Job(lab, build, ["-np", 2, *RAWE, *STATS, endless, "until", end_file])
    job.wait_for("works", 2)
    # Batches are used once one has been acknowledged. They are the only IPv4 packets here.
    lab.count_frames(IPV4)
    wait_until(lambda: all(lab.frames(host) > 100 for host in lab.hosts), "batches")
    lab.refuse_batches()
    wait_until(lambda: all(lab.dropped(host, purpose="refuse") for host in lab.hosts), "refusal")
    end_file.touch()
    result = job.finish()
    # The messages are longer than a frame, so the rest of them arrived in plain frames.
    assert_success(result)
    assert min(sums(result, "bulk_send_full").values()) > 0
    assert min(sums(result, "bulk_send_errors").values()) > 0
    assert min(sums(result, "link_frames_sent").values()) > 0


def test_batches_refused_from_the_start_do_not_stop_a_job(make_lab, build, verify):
    lab = make_lab(hosts=2)
    lab.refuse_batches()
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt"]
    arguments = ["-np", 2, *RAWE, *STATS, verify, *effort]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    assert min(sums(result, "bulk_send_full").values()) > 0
