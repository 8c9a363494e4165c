# SPDX-License-Identifier: BSD-3-Clause
"""A place without mpirun, a display that shows nothing, and how a session is run with them."""

from types import SimpleNamespace

from benchlib.journal import Journal
from benchlib.session import Record, Session


class Place:
    """Answers each mpirun as a function of its arguments says."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def run(self, arguments, timeout, tick):
        tick()
        self.asked.append(arguments)
        return self.answer(arguments)

    @staticmethod
    def command(arguments):
        return " ".join(["mpirun", *arguments])


class Quiet:
    """A progress display that shows nothing."""

    begin = tick = skip = known = end = lambda self, *_: None


def transport_of(arguments):
    """The transport that a command line asks for."""
    return arguments[arguments.index("btl") + 1].split(",")[0]


def options_of(**changes):
    """Options of two transports and two rounds."""
    values = {"rounds": 2, "transports": ["tcp", "rawe"], "timeout": 5, "starter": []}
    values["against"] = None
    return SimpleNamespace(**{**values, **changes})


def execute(driver, options, answer, directory):
    """A session in a directory: a new one, or what is missing of the one there. Ends as at Ctrl-C
    when `answer` raises KeyboardInterrupt."""
    journal = Journal(directory)
    if not (directory / "setup.json").exists():
        journal.create({})
    runs = driver.plan(options, None)
    journal.pin(runs)
    record, place = Record(), Place(answer)
    work = Session(driver, options, runs, journal, record)
    left = work.replay(Quiet())
    try:
        work.execute(left, place, Quiet())
    except KeyboardInterrupt:
        record.interrupted = True
    return record, place
