# SPDX-License-Identifier: BSD-3-Clause
"""Hostile frames, from a host on the same switch or from a faulty peer: nothing crashes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    HEAR,
    SEAL,
    STATS,
    EndlessJob,
    UntilJob,
    assert_one_message,
    assert_success,
    counted,
    reports,
    show,
    thorough,
    until_told,
    wait_until,
)

from rawelab import attack, launch, wiring

JOB_SECONDS = 180
# Counters that each kind of attack must increment. Frames without the key are dropped by the
# kernel's filter, which does not count them. The UDP port drops short datagrams, and those of an
# unknown type.
REASONS = ["dropped_outside", "dropped_ack", "dropped_connection", "dropped_length"]
FORGED = [*REASONS, "dropped_source"]


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "source, kind, rejections",  # source: of UDP datagrams; None: raw frames
    [
        thorough(None, "random", []),
        (None, "replay", ["duplicates"]),
        thorough(None, "blind", []),
        (None, "forged", [*FORGED, "dropped_type", "dropped_short"]),
        thorough("peer", "random", []),
        thorough("peer", "replay", ["duplicates"]),
        thorough("peer", "blind", []),
        ("peer", "forged", FORGED),
        thorough("own", "random", []),
        ("own", "replay", ["dropped_source"]),
        thorough("own", "blind", []),
        thorough("own", "forged", ["dropped_source"]),
    ],
)
def test_an_attacked_job_is_right_to_the_last_byte(
    make_lab, build, tmp_path, source, kind, rejections, seconds
):
    lab = make_lab(hosts=attack.HOSTS)
    lab.pin_addresses()
    file, timeout = tmp_path / "frames.pcap", JOB_SECONDS + seconds
    outcome = attack.run(lab, build, seconds, kind=kind, file=file, timeout=timeout, source=source)
    assert_success(outcome.result)
    assert "rawe-verify: OK" in outcome.result.output, show(outcome.result)
    assert outcome.sent.get(kind, 0) >= attack.LEAST_FRAMES, outcome.attack
    rejected = outcome.rejected()
    for name in rejections:
        assert rejected.get(name, 0) > 0, f"{name} is 0: {rejected}\n{outcome.attack}"


@pytest.mark.parametrize("source", [None, "peer"])
def test_a_quiet_job_rejects_nothing(make_lab, build, source):
    lab = make_lab(hosts=attack.HOSTS)
    outcome = attack.run(lab, build, 1, timeout=JOB_SECONDS, source=source)
    assert_success(outcome.result)
    assert set(outcome.rejected()) <= {"dropped_connection"}, outcome.rejected()


# Plain frames, which have the receiver's port and key at fixed offsets.
PLAIN = ("--mca", "btl_rawe_batches", "0")

# Runs on host 0 as root: reads port and key of the peer from a frame of the job, sends CONNECTs.
CALL = f"""{SEAL}{HEAR}
job, count = int(sys.argv[1]), int(sys.argv[2])
to, address = frame[0:6], frame[16:22]
unknown_peer = bytes([2, 0, 0, 0, 0, 9])
for i in range(count):
    for jobid, rank, source in ((job, 1000 + i, me), (job + 65536, i, me), (job, 0, unknown_peer)):
        who = struct.pack(">IIIIHBBIQ", jobid, rank, 1 << 20, 1, 2, i % 2, 0, 1472, 1 << 62)
        header = struct.pack(">BB6sIIIHH", frame[14] & 0xF0 | 5, 0, address, 0, 0, 0, len(who), 4)
        ours.send(seal(to + source + bytes([0x88, 0xB5]) + header + who + bytes(4)))
print("called")
"""


# Runs on host 0 as root: injects PUTs to unregistered memory among the frames of its rank.
PUT = f"""{SEAL}
import socket, struct
me = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
put = struct.pack(">BBHIQQ", 3, 0, 8, 77, 1 << 40, 0) + bytes(8)

def heard(ours):
    # The newest frame of the rank, because a new socket has no older ones.
    while True:
        frame = ours.recv(2000)
        if frame[6:12] == me and frame[12:14] == bytes([0x88, 0xB5]) and frame[14] & 15 in (1, 2):
            return frame

while True:  # a guessed sequence number may be used already: guess again, until ended
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as ours:
        ours.bind(("eth0", 3))
        frame = heard(ours)
        sequence = struct.unpack_from(">I", frame, 26)[0]
        for i in range(100):  # the rank sends meanwhile
            number = struct.pack(">I", (sequence + 16 * i) % (1 << 32))
            length = struct.pack(">H", len(put))
            whole = frame[:26] + number + frame[30:34] + length + frame[36:38] + put
            ours.send(seal(whole + bytes(4)))
"""


needs_number = pytest.mark.skipif(
    launch.open_mpi()[0] >= 5, reason="5.0 does not show the jobid, which a CONNECT contains"
)


def job_of(pid):
    """Return the jobid of a rank."""
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as environment:
        return re.search(r"OMPI_MCA_ess_base_jobid=(\d+)", environment.read()).group(1)


def call(job, count):
    """Send CONNECTs from host 0 to a job."""
    argv = [sys.executable, "-c", CALL, job_of(job.told_pids()[0]), count]
    called = job.lab.run(0, argv, timeout=HANG_SECONDS)
    assert "called" in called.stdout, called.stderr


@needs_number
def test_calls_of_nobody_are_refused_and_the_job_goes_on(make_lab, exchange):
    assert ETHERTYPE == 0x88B5
    job = UntilJob(make_lab(hosts=2), exchange, *PLAIN, *STATS)
    call(job, 200)
    result = job.end()
    refused = [counters["dropped_unknown_peer"] for counters in reports(result.errors).values()]
    assert max(refused) > 100, result.errors
    assert counted(result, "peers_lost") == 0


def daemon_of(lab, host):
    """Return the process id of Open MPI's daemon on a host, which must not be the first."""
    for pid in wiring.processes([lab.host(host).netns]):
        name = Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
        if name in ("orted", "prted"):  # of 4.1, of 5.0
            return pid
    raise AssertionError(f"no daemon on {lab.host(host).name}")


@needs_number
def test_a_call_of_nobody_waits_for_the_runtime_alone(make_lab, exchange):
    """Only the runtime can identify the caller; while its daemon is stopped, the job continues."""
    lab = make_lab(hosts=2)
    job = UntilJob(lab, exchange, *PLAIN)
    lab.count_frames(ETHERTYPE)
    daemon = daemon_of(lab, 1)
    os.kill(daemon, signal.SIGSTOP)
    try:
        call(job, 5)
        before = lab.frames(0)
        wait_until(lambda: lab.frames(0) >= before + 5000, "5000 frames of the job")
    finally:
        os.kill(daemon, signal.SIGCONT)
    job.end()


def test_data_for_unknown_memory_ends_the_job(make_lab, exchange):
    lab = make_lab(hosts=2)

    def attempt():
        job = EndlessJob(lab, exchange, ranks=2, arguments=PLAIN)
        with subprocess.Popen(lab.host_command(0, [sys.executable, "-c", PUT])) as put:
            try:
                job.process.wait(HANG_SECONDS)
                assert put.poll() is None, "it has ended early"
            finally:
                put.kill()
        return job.end()

    words = (f"{lab.name}-h1", "data is lost", "not registered")
    assert_one_message(until_told(attempt), *words)
