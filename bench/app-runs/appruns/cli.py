# SPDX-License-Identifier: BSD-3-Clause
"""The command line of compare: from arguments to the report."""

import datetime
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from benchlib import facts, where
from benchlib.folder import FolderError
from imbruns import prepare, stats
from rawelab import LabError, interrupts

from . import options as command_line, plan, report, runner, summary
from .app import AppError
from .progress import Progress
from .records import Records

RESULTS = Path(__file__).resolve().parent.parent / "results"
BASE = "tcp"


@dataclass
class Settings:
    """What the runs need to know."""

    programs: Path  # where compiled programs are kept
    timeout: float


def say(text):
    """One line for the person who waits."""
    print(text, flush=True)


def _open_records(options):
    """The Records to write to, and their setup."""
    if options.resume is not None:
        records = Records(os.path.abspath(options.resume))
        return records, records.setup()
    started = datetime.datetime.now()
    setup = command_line.setup(options, started.strftime("%Y-%m-%d %H:%M"))
    directory = options.output or RESULTS / started.strftime("%Y-%m-%d-%H%M%S")
    records = Records(os.path.abspath(directory))
    records.create(setup)
    return records, setup


def _find_all(cases, settings):
    """Look for every program before the first run: a missing one should be told at once."""
    for name in dict.fromkeys(case.app for case in cases):
        plan.APPS[name].find(settings.programs)


def _measure(records, setup, cases, peers, options, settings):
    """Make every run that is missing; True when all were made, False when interrupted."""
    done = {run.done for run in records.runs()}
    rounds = range(1, setup["rounds"] + 1)
    wanted = {(case, peer, number) for case in cases for peer in peers for number in rounds}
    progress = Progress(len(wanted - done))
    try:
        for hosts in dict.fromkeys(case.hosts for case in cases):
            mine = [case for case in cases if case.hosts == hosts]
            if not any((case, peer, n) not in done for case in mine for peer in peers
                       for n in rounds):  # fmt: skip
                continue
            with where.place_of(setup, hosts, options.build) as place:
                for case in mine:
                    runner.run_case(
                        place, case, peers, setup["rounds"], settings, records, progress
                    )
    except interrupts.Interrupted:
        return False
    return True


def _facts(setup, cases, missing, comparisons, options):
    described = [
        (case, where.place_of(setup, case.hosts, options.build).describe()) for case in cases
    ]
    programs = ", ".join(dict.fromkeys(plan.APPS[case.app].title for case in cases))
    about = facts.about(setup, cases, programs) + facts.merge(described)
    spreads = [
        value
        for one in comparisons
        for row in one.rows
        for value in row.spreads.values()
        if value is not None
    ]
    if spreads and setup["rounds"] > 1:
        text = f"a typical figure differs by {stats.median(spreads):.0%} between rounds"
        about.append(("Unrest", text))
    for peer, reason in missing.items():
        reason = reason.replace(str(options.build), "the build directory")
        about.append((f"{peer} not measured", reason))
    return about


def _without_output(argv):
    """The arguments but --output and --resume, whose directory holds these results now."""
    kept, skip = [], False
    for word in argv:
        own = word.startswith(("--output", "--resume"))
        if not skip and not own:
            kept.append(word)
        skip = word in ("--output", "--resume")
    return kept


def _report(records, setup, cases, peers, missing, options):
    """Tables on the terminal, files in the folder; how many runs failed."""
    runs = records.runs()
    base = BASE if BASE in peers else peers[0]
    comparisons = summary.condense(runs, cases, peers)
    failures = [run for run in runs if run.failure]
    say("\n" + report.table_text(comparisons, peers, base) + "\n")
    for one in comparisons:
        for peer in peers:
            if peer != base:
                say(one.reading(peer, base))
    about = _facts(setup, cases, missing, comparisons, options)
    command = shlex.join(["bench/app-runs/compare", *setup["arguments"]])
    names, trouble = report.write_all(
        records.directory, runs, comparisons, peers, base, about, failures, command
    )
    if trouble:
        say(trouble)
    say(f"written to {records.directory}: {', '.join(names)}, raw/")
    if failures:
        say(f"{len(failures)} of {len(runs)} runs do not count; see the report")
    return len(failures)


def main(argv):
    """Run compare; returns the exit status."""
    options = command_line.parse(argv)
    options.arguments = _without_output(argv)
    interrupts.install()
    try:
        records, setup = _open_records(options)
        for reason in setup["left_out"]:
            say(f"left out: {reason}")
        missing = where.make_ready(options, setup["peers"], say, ("build", "bench", "apps"))
        peers = [peer for peer in setup["peers"] if peer not in missing]
        cases = [plan.Case(*words) for words in setup["cases"]]
        settings = Settings(options.build / "bench" / "app-runs" / "programs", options.timeout)
        _find_all(cases, settings)
        complete = _measure(records, setup, cases, peers, options, settings)
        if not records.runs():
            print("compare: nothing was measured", file=sys.stderr)
            return 2 if complete else 130
        failed = _report(records, setup, cases, peers, missing, options)
    except (AppError, FolderError, LabError, prepare.PrepareError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        print(f"compare: {stop}", file=sys.stderr)
        return 128 + stop.number
    if not complete:
        print(f"interrupted; go on with: bench/app-runs/compare --resume {records.directory}")
        return 130
    return 1 if failed or missing else 0
