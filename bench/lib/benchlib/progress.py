# SPDX-License-Identifier: BSD-3-Clause
"""Shows what is running, in which round, and how long the rest will take."""

import sys
import time

from .session import describe

GUESS_SECONDS = 4.0  # of a run while nothing like it has run


def clock(seconds):
    """Seconds as minutes:seconds."""
    whole = max(0, int(seconds + 0.5))
    return f"{whole // 60}:{whole % 60:02d}"


class Progress:
    """One line that changes on a terminal; one line for each run elsewhere."""

    def __init__(self, runs, stream=None):
        self.runs = runs
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self.taken = {}  # (transport, case) -> seconds of its last run
        self.open = set(range(len(runs)))
        self.current = None
        self.started = 0.0

    def _kind(self, index):
        return self.runs[index].transport, self.runs[index].case

    def expected(self, index):
        """Seconds that a run will take: as the last of its kind, else as others of its case."""
        kind = self._kind(index)
        if kind in self.taken:
            return self.taken[kind]
        alike = [value for (_, case), value in self.taken.items() if case == kind[1]]
        known = alike or list(self.taken.values())
        return sum(known) / len(known) if known else GUESS_SECONDS

    def left(self):
        """Seconds until all runs are done."""
        total = sum(self.expected(index) for index in self.open)
        if self.current is not None:
            elapsed = time.monotonic() - self.started
            total -= min(elapsed, self.expected(self.current))
        return total

    def _text(self, index):
        count = len(self.runs)
        return f"[{index + 1:>{len(str(count))}}/{count}] {describe(self.runs[index])}"

    def _say(self, text):
        print(("\r\033[K" if self.live else "") + text, file=self.stream, flush=True)

    def begin(self, index):
        """A run starts."""
        self.current, self.started = index, time.monotonic()
        self.tick()
        if not self.live:
            self._say(f"{self._text(index)} ({clock(self.left())} left)")

    def tick(self):
        """Renew the line on a terminal."""
        if self.live and self.current is not None:
            text = f"{self._text(self.current)} ... {clock(self.left())} left"
            print(f"\r\033[K{text}", end="", file=self.stream, flush=True)

    def clear(self):
        """Remove the line."""
        if self.live:
            print("\r\033[K", end="", file=self.stream, flush=True)

    def known(self, index, seconds):
        """A run was made before this program started."""
        self.open.discard(index)
        self.taken[self._kind(index)] = seconds

    def skip(self, index):
        """A run is left out."""
        self.open.discard(index)

    def end(self, index, done, text):
        """A run is over; its failure, or `text` if there is any, stays on the terminal."""
        self.known(index, done.seconds)
        self.current = None
        if done.failure:
            self._say(failure_text(done))
        elif text:
            self._say(f"    {text}")


def failure_text(done):
    """What a person needs to know of a failed run."""
    lines = [f"FAILED: {describe(done.run)}: {done.failure}"]
    lines += [f"    | {line}" for line in done.last_lines]
    lines += [f"  its output: {done.raw}", f"  repeat it with: {done.command}"]
    return "\n".join(lines)
