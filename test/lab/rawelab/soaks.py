# SPDX-License-Identifier: BSD-3-Clause
"""Parts of test/soak: pulls the cables of a running lab, and watches the job start.

Cables are pulled at random, from a seed, one NIC of one host at a time.
"""

import random
import subprocess
import threading
import time
from pathlib import Path

WAYS = ("cable", "silence", "one way")
LEAST_SECONDS, MOST_SECONDS = 0.02, 10.0  # duration of a pull
SETTLE_SECONDS = 3.0  # time for the job to start; it ignores interfaces that are down at its start


def plan(seed, count, seconds, hosts, nics):
    """Return [(start, duration, host, nic, way)]; pulls do not overlap."""
    chance = random.Random(seed)
    slot = (seconds - SETTLE_SECONDS) / count
    pulls = []
    for i in range(count):
        begin = SETTLE_SECONDS + i * slot + chance.uniform(0, slot / 4)
        # Draw durations logarithmically: milliseconds and seconds have different effects.
        most = min(MOST_SECONDS, slot / 2)
        length = LEAST_SECONDS * (most / LEAST_SECONDS) ** chance.random()
        pulls.append(
            (begin, length, chance.randrange(hosts), chance.randrange(nics), chance.choice(WAYS))
        )
    return pulls


def pull(lab, host, nic, way):
    """Disconnect a NIC, which then loses its carrier, all its frames, or only incoming frames."""
    if way == "cable":
        lab.link_down(host, nic)
    elif way == "silence":
        lab.set_wire("loss=100%", host, nic, "both")
    else:
        lab.set_wire("loss=100%", host, nic, "in")


def mend(lab, host, nic, way):
    """Reconnect a NIC, with the faults of the lab's wire."""
    if way == "cable":
        lab.link_up(host, nic)
    else:
        lab.set_wire(lab.spec.wire or "none", host, nic, "in")
        lab.set_wire("none", host, nic, "out")


class Puller:
    """Executes a plan in its own thread; `done` counts pulls, `error` is why the thread failed."""

    def __init__(self, lab, pulls, say=print):
        self.lab, self.pulls, self.say = lab, pulls, say
        self.done = 0
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _until(self, when):
        """Wait until this time after the start. Returns false if the thread must end earlier."""
        return not self._stop.wait(max(0.0, self._start + when - time.monotonic()))

    def _run(self):
        try:
            for number, (begin, length, host, nic, way) in enumerate(self.pulls, 1):
                if not self._until(begin):
                    return
                pull(self.lab, host, nic, way)
                now = time.monotonic() - self._start
                self.say(
                    f"pull {number} at {now:.1f} s: h{host} eth{nic}, {way}, {length:.2f} s",
                    flush=True,
                )
                self._until(now + length)
                mend(self.lab, host, nic, way)
                self.done += 1
        except Exception as error:  # noqa: BLE001 (the thread's owner reports it)
            self.error = error


GDB = ("gdb", "-batch", "-nx", "-ex", "thread apply all backtrace")
GDB_SECONDS = 60


def backtraces(lab, program):
    """Yield gdb backtraces of each process that runs a program on the lab's hosts."""
    for pid in sorted(lab.processes()):
        try:
            if Path(f"/proc/{pid}/exe").readlink() != Path(program).resolve():
                continue
        except OSError:
            continue  # it has ended
        done = subprocess.run(
            [*GDB, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=GDB_SECONDS,
            check=False,
        )
        yield f"--- process {pid}\n{done.stdout}"


class StartWatcher:
    """Shows backtraces of all ranks if the file `started` does not appear within `seconds`."""

    def __init__(self, lab, program, started, seconds, say=print):
        self.lab, self.program, self.started = lab, program, Path(started)
        self.seconds, self.say = seconds, say
        self.late = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        if self._stop.wait(self.seconds) or self.started.exists():
            return
        self.late = True
        self.say(f"the job has not started after {self.seconds:g} s", flush=True)
        try:
            for text in backtraces(self.lab, self.program):
                self.say(text, flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            self.say(f"no backtrace: {error}", flush=True)
