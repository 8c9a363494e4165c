# SPDX-License-Identifier: BSD-3-Clause
"""Shows which run is under way, since when, and about how long all of them will still take."""

import sys
import time

from imbruns.progress import clock


class Progress:
    """A line that changes on a terminal, and one line for each finished run."""

    def __init__(self, total, stream=None, now=time.monotonic):
        self.total = total
        self.stream = stream or sys.stdout
        self.now = now
        self.live = self.stream.isatty()
        self.done = 0
        self.text = ""
        self.first = self.started = now()

    def say(self, text):
        """A line that stays."""
        clear = "\r\033[K" if self.live else ""
        print(f"{clear}{text}", file=self.stream, flush=True)

    def begin(self, text):
        """A run starts."""
        self.text, self.started = text, self.now()
        self.tick()

    def left(self):
        """Seconds that the runs not begun will take if they are like those before; or None."""
        if self.done == 0:
            return None
        mean = (self.started - self.first) / self.done
        return max(0.0, mean * (self.total - self.done) - (self.now() - self.started))

    def tick(self):
        """Renew the line on a terminal."""
        if self.live:
            left = self.left()
            rest = "" if left is None else f", about {clock(left)} left"
            line = f"[{self.done + 1}/{self.total}] {self.text} {clock(self.now() - self.started)}"
            print(f"\r\033[K{line}{rest}", end="", file=self.stream, flush=True)

    def end(self, text):
        """A run is over."""
        self.done += 1
        self.say(f"[{self.done}/{self.total}] {text}")
