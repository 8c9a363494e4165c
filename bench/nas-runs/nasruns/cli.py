# SPDX-License-Identifier: BSD-3-Clause
"""The command line of compare: from arguments to the report."""

import datetime
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from imbruns import places, prepare
from rawelab import LabError, interrupts

from . import facts, options as command_line, plan, report, runner, summary
from .error import NasError
from .records import Records

RESULTS = Path(__file__).resolve().parent.parent / "results"
BASE = "tcp"


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


def _prepare(options, peers):
    """Install and build what is missing; the reasons why transports cannot be measured."""
    if not options.no_build:
        prepare.install_packages(say)
        if "rawe" in peers and not prepare.rawe_installed():
            prepare.build(options.build, say)
    missing = prepare.missing_peers(peers, options.build)
    for peer, reason in missing.items():
        say(f"NOT AVAILABLE: {peer}: {reason}")
    if len(missing) == len(peers):
        raise NasError("none of the transports asked for is available")
    return missing


def _place(setup, hosts, build):
    component = build if (build / prepare.COMPONENT).exists() else None
    if setup["hostfile"] is None:
        return places.LabPlace({"hosts": hosts, **setup["shape"]}, component)
    if prepare.rawe_installed():
        component = None
    return places.HostfilePlace(
        setup["hostfile"], setup["interface"], component, setup["mpirun_args"]
    )


def _measure(records, setup, peers, options):
    """Make every run that is missing; True when all were made, False when interrupted."""
    settings = Settings(options.build / "bench" / "nas-runs" / "programs", options.timeout)
    try:
        for words in setup["cases"]:
            case = plan.Case(*words)
            if runner.missing(case, peers, setup["rounds"], records):
                with _place(setup, case.hosts, options.build) as place:
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
    described = [(case, _place(setup, case.hosts, options.build).describe()) for case in cases]
    about = facts.about(setup, cases) + facts.merge(described)
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
        missing = _prepare(options, setup["peers"])
        peers = [peer for peer in setup["peers"] if peer not in missing]
        complete = _measure(records, setup, peers, options)
        if not records.runs():
            print("compare: nothing was measured", file=sys.stderr)
            return 2 if complete else 130
        failed = _report(records, setup, peers, missing, options)
    except (NasError, LabError, prepare.PrepareError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        print(f"compare: {stop}", file=sys.stderr)
        return 128 + stop.number
    if not complete:
        print(f"interrupted; go on with: bench/nas-runs/compare --resume {records.directory}")
        return 130
    return 1 if failed or missing else 0
