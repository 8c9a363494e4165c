# SPDX-License-Identifier: BSD-3-Clause
"""Shows what is running, in which round, and how long it will still take."""

import sys
import time

GUESS_SECONDS = 4.0  # of a run nothing like which has run yet


def clock(seconds):
    """Seconds as minutes:seconds."""
    whole = max(0, int(seconds + 0.5))
    return f"{whole // 60}:{whole % 60:02d}"


class Progress:
    """One line that changes on a terminal; one line for each run elsewhere."""

    def __init__(self, runs, rounds, stream=None, now=time.monotonic):
        self.runs = runs
        self.rounds = rounds
        self.stream = stream or sys.stdout
        self.now = now
        self.live = self.stream.isatty()
        self.taken = {}  # (peer, (part, processes)) -> seconds of its last run
        self.open = set(range(len(runs)))
        self.current = None
        self.started = 0.0

    def _kind(self, index):
        run = self.runs[index]
        return run.peer, (run.part, run.processes)

    def expected(self, index):
        """Seconds that a run will take: as the last of its kind, else as other transports' part."""
        peer, part = self._kind(index)
        if (peer, part) in self.taken:
            return self.taken[peer, part]
        alike = [value for (_, other), value in self.taken.items() if other == part]
        known = alike or list(self.taken.values())
        return sum(known) / len(known) if known else GUESS_SECONDS

    def left(self):
        """Seconds until all runs are done."""
        total = sum(self.expected(index) for index in self.open)
        if self.current is not None:
            elapsed = self.now() - self.started
            total -= min(elapsed, self.expected(self.current))
        return total

    def _text(self, index):
        run = self.runs[index]
        return (
            f"[{index + 1:>{len(str(len(self.runs)))}}/{len(self.runs)}] {run.processes} ranks, "
            f"round {run.round} of {self.rounds}: {run.peer}, {run.part}"
        )

    def begin(self, index):
        """A run starts."""
        self.current, self.started = index, self.now()
        self.tick()
        if not self.live:
            print(f"{self._text(index)} ({clock(self.left())} left)", file=self.stream, flush=True)

    def tick(self):
        """Renew the line on a terminal."""
        if self.live and self.current is not None:
            text = f"{self._text(self.current)} ... {clock(self.left())} left"
            print(f"\r\033[K{text}", end="", file=self.stream, flush=True)

    def clear(self):
        """Take the line away."""
        if self.live:
            print("\r\033[K", end="", file=self.stream, flush=True)

    def known(self, index, seconds):
        """A run was made before this program started."""
        self.open.discard(index)
        self.taken[self._kind(index)] = seconds

    def skip(self, index):
        """A run is left out."""
        self.open.discard(index)

    def end(self, index, seconds, failure):
        """A run is over; a failure is told at once."""
        self.open.discard(index)
        self.taken[self._kind(index)] = seconds
        self.current = None
        if failure is not None:
            self.clear()
            print(failure_text(failure), file=self.stream, flush=True)


def failure_text(failure):
    """What a person needs to know of a failed run."""
    run = failure.run
    lines = [
        f"FAILED: {run.processes} ranks, round {run.round}, {run.peer}, {run.part}: "
        f"{failure.reason}"
    ]
    lines += [f"    | {line}" for line in failure.last_lines]
    lines.append(f"  all it said: {failure.raw}")
    lines.append(f"  repeat it with: {failure.command}")
    return "\n".join(lines)
