# SPDX-License-Identifier: BSD-3-Clause
"""Frames that no peer sends: from an unknown peer with port and key, and from a faulty peer."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    RAWE,
    assert_one_message,
    assert_success,
    help_messages,
)
from jobs import HEAR, EndlessJob, Job

from rawelab import launch, wiring

# Plain frames, which have the receiver's port and key at fixed offsets.
PLAIN = ("--mca", "btl_rawe_batches", "0")

# Receivers drop frames with a wrong checksum.
SEAL = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from rawelab.checksums import seal
"""

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


@needs_number
def test_calls_of_nobody_are_refused_and_the_job_goes_on(make_lab, build, endless, tmp_path):
    assert ETHERTYPE == 0x88B5
    lab = make_lab(hosts=2)
    end_file = tmp_path / "end"
    stats = ("--mca", "btl_rawe_stats", "1")
    job = Job(lab, build, ["-np", 2, *RAWE, *PLAIN, *stats, endless, "until", end_file])
    job.wait_for("works", 2)
    pid = re.search(r"pid (\d+)", "".join(job.output)).group(1)
    called = lab.run(0, [sys.executable, "-c", CALL, job_of(pid), 200], timeout=HANG_SECONDS)
    end_file.touch()
    result = job.finish()
    assert "called" in called.stdout, called.stderr
    assert_success(result)
    refused = max(int(count) for count in re.findall(r"dropped_unknown_peer=(\d+)", result.errors))
    assert refused > 100, result.errors
    assert all(int(count) == 0 for count in re.findall(r"peers_lost=(\d+)", result.errors))


def daemon_of(lab, host):
    """Return the process id of Open MPI's daemon on a host other than the first."""
    for pid in wiring.processes([lab.host(host).netns]):
        name = Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
        if name in ("orted", "prted"):  # of 4.1, of 5.0
            return pid
    raise AssertionError(f"no daemon on {lab.host(host).name}")


def assert_moves(lab, host, frames):
    """Wait until the host has received this many more frames of the job."""
    deadline = time.monotonic() + HANG_SECONDS
    before = lab.frames(host)
    while lab.frames(host) < before + frames:
        assert time.monotonic() < deadline, f"{lab.frames(host) - before} frames, then no more"
        time.sleep(0.1)


@needs_number
def test_a_call_of_nobody_waits_for_the_runtime_alone(make_lab, build, endless, tmp_path):
    """Only the runtime can identify the caller; while its daemon is stopped, the job continues."""
    lab = make_lab(hosts=2)
    end_file = tmp_path / "end"
    job = Job(lab, build, ["-np", 2, *RAWE, *PLAIN, endless, "until", end_file])
    job.wait_for("works", 2)
    pid = re.search(r"pid (\d+)", "".join(job.output)).group(1)
    lab.count_frames(ETHERTYPE)
    daemon = daemon_of(lab, 1)
    os.kill(daemon, signal.SIGSTOP)
    try:
        called = lab.run(0, [sys.executable, "-c", CALL, job_of(pid), 5], timeout=HANG_SECONDS)
        assert "called" in called.stdout, called.stderr
        assert_moves(lab, 0, 5000)
    finally:
        os.kill(daemon, signal.SIGCONT)
    end_file.touch()
    assert_success(job.finish())


def test_data_for_unknown_memory_ends_the_job(make_lab, build, endless):
    for _ in range(4):  # Open MPI loses a help message now and then, see test_bad_days.py
        lab = make_lab(hosts=2)
        job = EndlessJob(lab, build, endless, ranks=2, arguments=PLAIN)
        with subprocess.Popen(lab.host_command(0, [sys.executable, "-c", PUT])) as put:
            try:
                job.process.wait(HANG_SECONDS)
                assert put.poll() is None, "it has ended early"
            finally:
                put.kill()
        result = job.end()
        if help_messages(result):
            break
    assert_one_message(result, f"{lab.name}-h1", "data is lost", "not registered")
