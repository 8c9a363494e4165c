# SPDX-License-Identifier: BSD-3-Clause
"""The command line of compare: from arguments to the report."""

import datetime
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from benchlib import facts, rounds, where
from benchlib.folder import FolderError
from imbruns import prepare
from rawelab import LabError, interrupts

from . import options as command_line, plan, report, runner, summary
from .error import NasError
from .records import Records

RESULTS = Path(__file__).resolve().parent.parent / "results"
BASE = "tcp"
PROGRAMS = {
    "NPB": "NPB's own binaries (NPB_BIN)",
    "own": "own implementation of RNR-94-007, mpicc -O3",
}


@dataclass
class Settings:
    """What the runs need to know."""

    program_directory: Path
    timeout: float


def say(text):
    """One line for the person who waits."""
    print(text, flush=True)


def _open_records(options):
    """The Records to write to, and their setup."""
    if options.resume is None:
        started = datetime.datetime.now()
        setup = command_line.setup(options, started.strftime("%Y-%m-%d %H:%M"))
        directory = options.output or RESULTS / started.strftime("%Y-%m-%d-%H%M%S")
        records = Records(os.path.abspath(directory))
        records.create(setup)
        return records, setup
    records = Records(os.path.abspath(options.resume))
    setup = records.setup()
    wanted = command_line.programs_wanted()
    if wanted != setup["programs"]:
        raise NasError(
            f"{options.resume} was begun with {setup['programs']} programs, NPB_BIN now asks for "
            f"{wanted}; set or unset NPB_BIN as it was, or start a new comparison"
        )
    return records, setup


def _measure(records, setup, peers, options):
    """Make every run that is missing; True when all were made, False when interrupted."""
    settings = Settings(options.build / "bench" / "nas-runs" / "programs", options.timeout)
    try:
        for words in setup["cases"]:
            case = plan.Case(*words)
            if rounds.missing(case, peers, setup["rounds"], records.runs()):
                with where.place_of(setup, case.hosts, options.build) as place:
                    runner.run_case(place, case, peers, setup["rounds"], settings, records, say)
    except interrupts.Interrupted:
        return False
    return True


def _report(records, setup, peers, missing, options):
    """Tables on the terminal, files in the folder; how many runs failed."""
    runs = records.runs()
    cases = [plan.Case(*words) for words in setup["cases"]]
    base = BASE if BASE in peers else peers[0]
    comparisons = summary.condense(runs, cases, peers)
    failures = [run for run in runs if run.failure]
    described = [
        (case, where.place_of(setup, case.hosts, options.build).describe()) for case in cases
    ]
    about = facts.about(setup, cases, PROGRAMS[setup["programs"]]) + facts.merge(described)
    for peer, reason in missing.items():
        reason = reason.replace(str(options.build), "the build directory")
        about.append((f"{peer} not measured", reason))
    say("\n" + report.table_text(comparisons, base) + "\n")
    for one in comparisons:
        for peer in peers:
            if peer != base:
                say(one.reading(peer, base))
    names, trouble = report.write_all(records.directory, comparisons, base, about, failures)
    if trouble:
        say(trouble)
    say(f"written to {records.directory}: {', '.join(names)}, runs.csv")
    if failures:
        say(f"{len(failures)} of {len(runs)} runs failed; their output is in {records.directory}")
    return len(failures)


def main(argv):
    """Run compare; returns the exit status."""
    options = command_line.parse(argv)
    interrupts.install()
    try:
        records, setup = _open_records(options)
        for reason in setup["left_out"]:
            say(f"left out: {reason}")
        missing = where.make_ready(options, setup["peers"], say)
        peers = [peer for peer in setup["peers"] if peer not in missing]
        complete = _measure(records, setup, peers, options)
        if not records.runs():
            print("compare: nothing was measured", file=sys.stderr)
            return 2 if complete else 130
        failed = _report(records, setup, peers, missing, options)
    except (NasError, FolderError, LabError, prepare.PrepareError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        print(f"compare: {stop}", file=sys.stderr)
        return 128 + stop.number
    if not complete:
        print(f"interrupted; go on with: bench/nas-runs/compare --resume {records.directory}")
        return 130
    return 1 if failed or missing else 0
