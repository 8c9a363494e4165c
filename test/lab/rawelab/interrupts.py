# SPDX-License-Identifier: BSD-3-Clause
"""Turns SIGINT, SIGTERM and SIGHUP into one exception, so that cleaning up is not interrupted."""

import contextlib
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked this process to end. Only cleanup may catch it, so it is not an Exception."""

    def __init__(self, number):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class _Catcher:
    def __init__(self):
        self.pending = None  # the first signal received
        self.shielded = False

    def handle(self, number, _frame):
        """Raise for the first signal, unless shielded; ignore all others."""
        if self.pending is not None:
            return
        self.pending = number
        if not self.shielded:
            raise Interrupted(number)


_CATCHER = _Catcher()


def install():
    """Catch the signals from now on. Call it once, from the main thread."""
    for number in SIGNALS:
        signal.signal(number, _CATCHER.handle)


@contextlib.contextmanager
def shield():
    """Record a signal in this context, and raise it at the end if it was the first."""
    already = _CATCHER.pending
    _CATCHER.shielded = True
    try:
        yield
    finally:
        _CATCHER.shielded = False
    if already is None and _CATCHER.pending is not None:
        raise Interrupted(_CATCHER.pending)
