# SPDX-License-Identifier: BSD-3-Clause
"""A place without mpirun, sessions there, and MPI programs on this machine alone."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import drivers
import pytest

from benchlib import cli
from benchlib.session import Journal, Record, Session


def plan_of(name, *argv):
    """Options, driver and Runs of a folder's command line, with a program that is there."""
    driver = drivers.driver_of(name)
    found = cli.parse(driver, ["--rounds", "1", *argv])
    driver.found = dict.fromkeys(found.cases, "program")
    return found, driver, driver.plan(found, None)


class Place:
    """Answers each mpirun by calling a function with its arguments."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def run(self, arguments, timeout):
        self.asked.append(arguments)
        return self.answer(arguments)

    @staticmethod
    def command(arguments):
        return " ".join(["mpirun", *arguments])


class Quiet:
    """A progress display that shows nothing."""

    begin = skip = known = end = lambda self, *_: None


def transport_of(arguments):
    """Return the transport of a command line."""
    return arguments[arguments.index("btl") + 1].split(",")[0]


def options_of(**changes):
    """Return options for two transports and two rounds."""
    values = {"rounds": 2, "transports": ["tcp", "rawe"], "timeout": 5, "starter": []}
    values["against"] = None
    return SimpleNamespace(**{**values, **changes})


def execute(driver, options, answer, directory):
    """Run a session in a directory, or the missing runs of the one there. A KeyboardInterrupt from
    `answer` ends it like Ctrl-C."""
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


LIMIT = 120  # seconds; a program that does not hang takes a hundredth of it
needs_mpi = pytest.mark.skipif(
    shutil.which("mpicc") is None or shutil.which("mpirun") is None,
    reason="Open MPI is not installed",
)


def start_local(program, arguments, ranks):
    """Start a program over shared memory. Returns its Popen, with standard output as a pipe."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_btl": "vader,self",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }
    words = ["mpirun", "--oversubscribe", "-np", str(ranks), str(program), *map(str, arguments)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def run_local(program, arguments, ranks):
    """Run a program over shared memory. Returns the CompletedProcess."""
    with start_local(program, arguments, ranks) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
