# SPDX-License-Identifier: BSD-3-Clause
"""Watches the start of a job, and shows backtraces of its ranks if it takes too long."""

import subprocess
import threading
from pathlib import Path

GDB = ("gdb", "-batch", "-nx", "-ex", "thread apply all backtrace")
GDB_SECONDS = 60


def backtraces(lab, program):
    """Yield gdb's backtraces of each process of a program on the lab's hosts."""
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
    """Shows backtraces of all ranks if the file `started` does not exist after these seconds."""

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
