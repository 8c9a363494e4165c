# SPDX-License-Identifier: BSD-3-Clause
"""Turns SIGINT, SIGTERM and SIGHUP into one exception, so that cleaning up is not interrupted."""

import contextlib
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked this process to end. Not an Exception, because only cleanup may catch it."""

    def __init__(self, number):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class _Catcher:
    def __init__(self):
        self.pending = None  # the first signal received
        self.shielded = False

    def handle(self, number, _frame):
        """Raise Interrupted on the first signal, unless shielded; ignore later signals."""
        if self.pending is not None:
            return
        self.pending = number
        if not self.shielded:
            raise Interrupted(number)


_CATCHER = _Catcher()


def install():
    """Catch the signals from now on. Call this once, from the main thread."""
    for number in SIGNALS:
        signal.signal(number, _CATCHER.handle)


@contextlib.contextmanager
def shield():
    """Defer signals within this context; at its end, raise the first one, if any."""
    already = _CATCHER.pending
    _CATCHER.shielded = True
    try:
        yield
    finally:
        _CATCHER.shielded = False
    if already is None and _CATCHER.pending is not None:
        raise Interrupted(_CATCHER.pending)
