# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that a test observes and disturbs while they run."""

import re
import subprocess
import threading
import time
from pathlib import Path

from conftest import HANG_SECONDS, RAWE, assert_clean_end, show

from rawelab import launch


def assert_failure(result):
    """The job failed without being stopped, and left no process."""
    assert_clean_end(result)
    assert result.returncode != 0, show(result)


# The start of a program that runs on a host as root: `frame` is a frame that the job sent from this
# host, `ours` a packet socket.
HEAR = """
import os, signal, socket, struct, sys
ours = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ours.bind(("eth0", 3))
me = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
while True:
    frame = ours.recv(2000)
    if frame[6:12] == me and frame[12:14] == bytes([0x88, 0xB5]) and frame[14] & 15 in (1, 2, 3):
        break
"""


class Job:
    """A running mpirun whose output is read as it arrives."""

    def __init__(self, lab, build, arguments, **options):
        self.lab = lab
        self.process = lab.start_mpirun(arguments, build=build, **launch.PIPES, **options)
        self.output, self.errors = [], []
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=one, daemon=True)
            for one in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._news:
                lines.append(line)
                self._news.notify_all()

    def said(self):
        """Return the output of the job so far, for the message of an assertion."""
        return "".join(self.output + self.errors)

    def told_pids(self):
        """Return the process ids that its ranks have printed."""
        found = re.findall(r"rank (\d+) pid (\d+)", "".join(self.output))
        return {int(rank): int(pid) for rank, pid in found}

    def wait_for(self, text, count=1):
        """Wait until `count` lines of the output contain `text`."""
        self.wait_until(lambda lines: sum(text in line for line in lines) >= count, f"{text!r}")

    def wait_until(self, condition, what):
        """Wait until a condition, named `what`, holds for the lines of the output."""
        deadline = time.monotonic() + HANG_SECONDS
        with self._news:
            while not condition(self.output):
                left = deadline - time.monotonic()
                assert left > 0, f"no {what} within {HANG_SECONDS} s\n{self.said()}"
                assert self._readers[0].is_alive(), f"ended without {what}\n{self.said()}"
                self._news.wait(min(left, 0.5))

    def finish(self, timeout=HANG_SECONDS):
        """Wait for the end of mpirun, and kill it after `timeout`; return its MpiResult."""
        timed_out = False
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.lab.kill_processes()
            self.process.wait()
        for reader in self._readers:
            reader.join(HANG_SECONDS)
        leftover = launch.settle(self.lab)
        status = launch.TIMEOUT_STATUS if timed_out else launch.exit_status(self.process.returncode)
        return launch.MpiResult(
            status, "".join(self.output), "".join(self.errors), timed_out, leftover
        )


class EndlessJob(Job):
    """An endless job over rawe whose ranks have exchanged messages."""

    def __init__(self, lab, build, endless, ranks=4, arguments=(), salt=0):
        words = ["-np", ranks, *RAWE, *arguments, endless, "rounds", -1, salt]
        super().__init__(lab, build, words)
        self.wait_for("works", ranks)
        self.pids = self.told_pids()

    def end(self):
        """Wait for the failure of the job; return its MpiResult. Nothing may be left over."""
        result = self.finish()
        assert_failure(result)
        shared = [file.name for file in Path("/dev/shm").iterdir() if self.lab.name in file.name]
        assert not shared
        return result
