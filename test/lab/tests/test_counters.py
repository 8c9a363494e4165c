# SPDX-License-Identifier: BSD-3-Clause
"""What a job shows about itself: its report, its dump, and its warning about a full ring."""

import re
import sys
from pathlib import Path

import pytest
from conftest import (
    HANG_SECONDS,
    HEAR,
    STATS,
    UntilJob,
    assert_one_message,
    help_messages,
    reports,
    run_job,
    show,
    thorough,
    until_told,
)

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "opal/mca/btl/rawe/core/base/rawe_counters.h"
ENGINE = re.findall(r"^ +X\((\w+), ", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
OTHERS = {
    f"{kind}_{name}"
    for kind, drops in (("link", "ring_drops"), ("bulk", "queue_drops"))
    for name in ("frames_sent", "frames_received", "send_full", "send_errors", drops)
} | {"pings_answered", "pongs_matched", "frames_unacked_most", "reassembly_buffers_most"}
OTHERS.add("bulk_dropped_checksum")
AT_ONCE = ("--mca", "btl_rawe_streak_us", "1000000")  # messages within a second are a burst
WORD = re.compile(r"(\w+)=(\S+)")


def both_sides(result):
    """Return the reports of ranks 0 and 1 about the network."""
    return [counters for (_, name), counters in reports(result.errors).items() if name == "eth0"]


def assert_known(counters):
    """Assert that a report contains only known counters, none of them 0."""
    strange = set(counters) - set(ENGINE) - OTHERS
    groups = ("round_trips_", "ping", "pong", "multicast")
    assert all(name.startswith(groups) for name in strange), strange
    assert 0 not in counters.values(), counters


def test_the_report_adds_up(make_lab, verify):
    lab = make_lab(hosts=2)
    effort = ["--quick", "--scale", "0.1", "--only", "pt2pt,random"]
    result = run_job(lab, 2, *STATS, verify, *effort)
    found = reports(result.errors)
    assert set(found) == {(rank, name) for rank in (0, 1) for name in ("eth0", "lo")}
    assert found[0, "lo"] == found[1, "lo"] == {}
    for rank in (0, 1):
        mine, other = found[rank, "eth0"], found[1 - rank, "eth0"]
        assert_known(mine)
        assert mine["messages_sent"] == other["messages_received"] > 0
        assert mine["bytes_sent"] == other["bytes_received"] > 0
        assert 0 < mine["frames_acknowledged"] <= mine["frames_sent"]
        assert other["frames_received"] <= mine["frames_sent"]
        sent = mine["frames_sent"] + mine["frames_resent"] + mine["acks_sent"]
        assert mine["link_frames_sent"] + mine["bulk_frames_sent"] >= sent
        assert mine["pongs_matched"] > 0 and mine["pings_answered"] > 0
        assert sum(value for name, value in mine.items() if name.startswith("round_trips_")) > 0
        reasons = ("losses_overtaken", "losses_probed", "duplicates", "dropped_length")
        for reason in (*reasons, "link_ring_drops"):
            assert mine[reason] == 0, f"{reason} without a fault\n{show(result)}"


def test_losses_are_counted_with_their_reason(make_lab, verify):
    lab = make_lab(hosts=2, loss=5)
    # Use plain frames, because each of them is lost independently.
    plain = ["--mca", "btl_rawe_batches", "0"]
    result = run_job(lab, 2, *STATS, *plain, verify, "--quick", "--only", "pt2pt")
    assert lab.dropped() > 0
    both = both_sides(result)
    total = {name: sum(counters[name] for counters in both) for name in ENGINE}
    assert 0 < total["frames_resent"] <= total["losses_overtaken"] + total["losses_probed"]
    assert total["frames_resent"] <= 1.3 * lab.dropped(), "more was sent again than was lost"
    assert total["losses_overtaken"] > 0 and total["losses_probed"] > 0
    assert total["probes_sent"] >= total["probes_answered"] > 0
    assert total["congestion_events"] > 0 and total["losses_validation"] == 0


@pytest.mark.parametrize("mtu, length", [(1500, 1000), (9000, 6000)])
@pytest.mark.parametrize("loss", [thorough(0), 2])
def test_messages_in_a_row_share_batches(make_lab, exchange, mtu, length, loss):
    lab = make_lab(hosts=2, mtu=mtu, loss=loss)
    many = [*STATS, exchange, "bursts", 20000, length, 64]
    # With the limit of a second they form a streak, however slow the machine is.
    for counters in both_sides(run_job(lab, 2, *AT_ONCE, *many)):
        assert counters["messages_sent"] >= 10000
        assert counters["bulk_frames_sent"] > 5000, "most of them fit a frame, and took this lane"
        assert counters["batches_sent"] < 2500, "a system call carried several of them"
    for never in ("btl_rawe_coalesce_from", "btl_rawe_streak_us"):
        for counters in both_sides(run_job(lab, 2, "--mca", never, "0", *many)):
            assert counters["messages_sent"] >= 10000
            assert counters["batches_sent"] == 0


def test_messages_that_wait_for_an_answer_go_alone(make_lab, exchange):
    alone = [*AT_ONCE, *STATS, exchange, "bursts", 20000, 1000, 1]
    for counters in both_sides(run_job(make_lab(hosts=2), 2, *alone)):
        assert counters["messages_sent"] >= 10000
        assert counters["batches_sent"] == 0, "a batch of one message costs more than a frame"


def dumps(away, rank, mark):
    """Return what rawe dumped between two marks of a rank: {(peer, lane): words}."""
    said = Path(f"{away}.dump.{rank}").read_text(encoding="utf-8")
    text = re.search(f"begin of {mark}\n(.*)end of {mark}\n", said, re.DOTALL)
    assert text, said
    found = re.findall(
        r"rawe dump: rank \d+ interface eth0 peer rank (\d+): lane=(\w+) (.*)", text.group(1)
    )
    return {(int(peer), lane): dict(WORD.findall(rest)) for peer, lane, rest in found}


def test_the_dump_tells_what_is_in_flight(make_lab, watch, tmp_path):
    # Without the progress thread, which would acknowledge the messages. A burst would use the bulk
    # lane.
    unguarded = ["--mca", "btl_rawe_progress_thread_ms", "0"]
    away = tmp_path / "away"
    run_job(make_lab(hosts=2), 2, *unguarded, watch, "dump", 8, away)
    asleep = dumps(away, 0, "dump while the peer is away")
    assert set(asleep) == {(1, "express")}
    before = asleep[1, "express"]
    assert before["state"] == "open"
    assert before["blocked_by"] == "nothing"
    # None of the eight messages has been acknowledged.
    unacknowledged = int(before["next"]) - int(before["una"])
    assert int(before["in_flight"]) + int(before["to_transmit"]) == unacknowledged >= 8

    mine = dumps(away, 0, "dump after all")[1, "express"]
    other = dumps(away, 1, "dump after all")[0, "express"]
    assert int(mine["una"]) >= int(before["next"]), "it has been acknowledged since"
    assert (mine["id"], mine["peer_id"]) == (other["peer_id"], other["id"])
    assert int(other["expected"]) >= int(mine["una"])
    # The RTT is that of the handshake. An acknowledgement that waited 0.2 s for the absent peer is
    # not a measurement; it would add an eighth of that time.
    assert int(mine["rtt_ns"]) < 10_000_000
    # The counters precede the connections.
    said = Path(f"{away}.dump.0").read_text(encoding="utf-8")
    assert re.search(r"rawe dump: host \S+ rank 0 interface eth0: messages_sent=\d", said)


# Runs on host 0 as root: stops process PID, and sends it one frame of the job many times.
AGAIN = f"""{HEAR}
os.kill(int(sys.argv[1]), signal.SIGSTOP)
for _ in range(1000):
    ours.send(frame)
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


def test_a_full_ring_is_told_once_with_what_to_raise(make_lab, exchange):
    lab = make_lab(hosts=2)
    small = ["--mca", "btl_rawe_ring_bytes", "262144", "--mca", "btl_rawe_batches", "0"]

    def attempt():
        job = UntilJob(lab, exchange, *STATS, *small)
        pid = job.told_pids()[1]
        again = lab.run(0, [sys.executable, "-c", AGAIN, pid], timeout=HANG_SECONDS)
        result = job.end()
        job.end_file.unlink()
        assert again.returncode == 0, again.stderr
        return result

    result = until_told(attempt)
    assert_one_message(result, f"{lab.name}-h1", "eth0", "262144", "btl_rawe_ring_bytes")
    found = reports(result.errors)
    drops = found[1, "eth0"]["link_ring_drops"]
    assert drops > 0
    assert f"Frames dropped: {drops}" in help_messages(result)[0]
    assert found[0, "eth0"]["link_ring_drops"] == 0
