# SPDX-License-Identifier: BSD-3-Clause
"""Frames of somebody who knows a process's port and key, but is none of its peers."""

import re
import sys

from conftest import ETHERTYPE, HANG_SECONDS, RAWE, assert_success
from jobs import Job

# Plain frames, which tell the receiver's port and key in a place of their own.
PLAIN = ("--mca", "btl_rawe_superframes", "0")

# Runs on host 0 as root: reads the port and key of the peer from the job's own frames, then calls.
CALL = """
import re, socket, struct, sys
job, count = int(sys.argv[1]), int(sys.argv[2])
ours = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ours.bind(("eth0", 3))
me = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
while True:
    frame = ours.recv(2000)
    if frame[6:12] == me and frame[12:14] == bytes([0x88, 0xB5]) and frame[14] & 15 in (1, 2, 3):
        break
to, address = frame[0:6], frame[16:22]
stranger = bytes([2, 0, 0, 0, 0, 9])
for i in range(count):
    for jobid, rank, source in ((job, 1000 + i, me), (job + 65536, i, me), (job, 0, stranger)):
        who = struct.pack(">IIIIHBBIQ", jobid, rank, 1 << 20, 1, 2, i % 2, 0, 1472, 1 << 62)
        header = struct.pack(">BB6sIIIHH", 0x15, 0, address, 0, 0, 0, len(who), 4)
        ours.send(to + source + bytes([0x88, 0xB5]) + header + who)
print("called")
"""


def job_of(pid):
    """Open MPI's number of the job that a rank belongs to."""
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as environment:
        return re.search(r"OMPI_MCA_ess_base_jobid=(\d+)", environment.read()).group(1)


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
    refused = max(int(count) for count in re.findall(r"dropped_stranger=(\d+)", result.errors))
    assert refused > 100, result.errors
    assert all(int(count) == 0 for count in re.findall(r"peers_lost=(\d+)", result.errors))
