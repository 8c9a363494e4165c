# SPDX-License-Identifier: BSD-3-Clause
"""The command line of compare: from arguments to the report."""

import datetime
import os
import shlex
import sys
import time
from pathlib import Path

from benchlib import machine
from rawelab import LabError, interrupts
from rawelab.spec import LabSpec, parse_rate

from . import options as command_line
from . import plot, prepare, report, session, shaping, summary
from .journal import Journal
from .places import HostfilePlace, LabPlace
from .progress import Progress, clock

UNREST_MAX = 0.3  # on a quiet machine a typical figure stays below that
HERE = Path(__file__).resolve().parents[1]


def _prepare(options, record, say):
    """Packages, build, programs; returns programs by name."""
    if not options.no_build:
        prepare.install_packages(say)
        prepare.build(options.build, say)
    programs = {"own": prepare.program(options.build, "imb")}
    real = prepare.real_imb()
    programs["imb"] = real or programs["own"]
    say(f"benchmark: {programs['imb']}")
    if options.check and real is not None:
        record.notes.append("--check does nothing with the real IMB-MPI1")
    if options.baseline:
        programs["pingpong"] = prepare.program(options.build, "pingpong")
        programs["stream"] = prepare.program(options.build, "stream")
    for peer, reason in prepare.missing_peers(options.peers, options.build).items():
        say(f"NOT AVAILABLE: {peer}: {reason}")
        record.unavailable[peer] = reason
        options.peers.remove(peer)
    if not options.peers:
        raise prepare.PrepareError("none of the transports asked for is available")
    return programs


def _place(options, group):
    component = options.build if (options.build / prepare.COMPONENT).exists() else None
    if options.hostfile is None:
        return LabPlace({**options.shape, "hosts": group.hosts}, component)
    if prepare.rawe_installed():
        component = None
    return HostfilePlace(options.hostfile, options.interface, component, options.mpirun_args)


def _facts_of_places(options, places):
    """Facts about the places; where groups differ, each value says whose it is."""
    values = {}
    for group, place in zip(options.groups, places):
        for name, value in place.describe():
            values.setdefault(name, {}).setdefault(value, []).append(str(group.processes))
    facts = []
    for name, by_value in values.items():
        texts = list(by_value)
        if len(texts) > 1:
            texts = [f"{text} ({', '.join(ranks)} ranks)" for text, ranks in by_value.items()]
        facts.append((name, "; ".join(texts)))
    return facts


def _shares(options, found):
    """Goodputs against what a shaped line allows; none without --rate."""
    if not options.shape.get("rate"):
        return []
    spec = LabSpec(**{name: value for name, value in options.shape.items() if value is not None})
    return shaping.shares(found, parse_rate(spec.rate), spec.mtu, spec.offload)


def _report(options, record, places, directory, setup):
    """Tables on the terminal, files in the directory."""
    base = "tcp" if "tcp" in options.peers else options.peers[0]
    found = summary.tables(record, options.peers, base)
    for table in found:
        print("\n" + report.terminal_table(table))
    print()
    shaped = _shares(options, found)
    for line in shaped:
        print(line.sentence())
    report.write_csv(directory, record, options.peers, base)
    images = plot.draw(record, options.peers, directory, places[0].title())
    if not images:
        record.notes.append("There are no plots: install Debian's python3-matplotlib.")
        print("no plots: test/install-deps bench installs matplotlib")
    facts = [
        *_facts_of_places(options, places),
        *machine.facts(),
        ("Ranks", ", ".join(str(group.processes) for group in options.groups)),
        ("Rounds", options.rounds),
    ]
    unrest = summary.unrest(record, options.peers)
    if unrest is not None:
        text = f"a typical figure differs by {unrest:.0%} between rounds"
        facts.append(("Unrest", text))
        quiet = "" if unrest < UNREST_MAX else ": the machine is busy with other things"
        print(f"unrest: {text}{quiet}")
    command = shlex.join(["bench/imb-runs/compare", *setup["argv"]])
    about = {"date": setup["started"], "table": facts}
    names = report.write_page(directory, record, found, about, images, command, shaped)
    print(f"report: {directory / names[0]}, {names[1]}")
    print(f"plot:   {', '.join(str(directory / name) for name, _ in images) or 'none'}")
    print(f"data:   {directory / 'samples.csv'}, medians.csv, raw/")


def _measure(options, record, programs, journal):
    """Make the runs that are missing; the places of all groups."""
    places = [_place(options, group) for group in options.groups]
    runs = session.plan(options, programs, places[0].interface)
    journal.pin(runs)
    progress = Progress(runs, options.rounds)
    work = session.Session(options, runs, journal, record)

    def place_of(run):
        return places[options.groups.index(session.group_of(run, options.groups))]

    left = work.replay(progress, lambda run: place_of(run).command(run.arguments))
    try:
        for place in places:
            indices = [index for index in left if place_of(runs[index]) is place]
            if indices:
                with place:
                    work.execute(indices, place, progress)
    except interrupts.Interrupted:
        record.interrupted = True
    progress.clear()
    return places


def _open(argv):
    """Options, journal and setup: of a new comparison, or of the one to go on with."""
    options = command_line.parse(argv)
    if options.resume is not None:
        journal = Journal(os.path.abspath(options.resume))
        setup = journal.setup()
        words = setup["argv"] + (["--no-build"] if options.no_build else [])
        os.chdir(setup["directory"])
        return command_line.parse(words), journal, setup
    started = datetime.datetime.now()
    setup = {
        "argv": command_line.without_output(argv),
        "directory": os.getcwd(),
        "started": started.strftime("%Y-%m-%d %H:%M"),
    }
    directory = options.output or HERE / "results" / started.strftime("%Y-%m-%d-%H%M%S")
    journal = Journal(os.path.abspath(directory))
    journal.create(setup)
    return options, journal, setup


def main(argv):
    """Run compare; returns the exit status."""
    begun = time.monotonic()
    interrupts.install()
    record = session.Record()
    try:
        options, journal, setup = _open(argv)
        programs = _prepare(options, record, lambda text: print(text, flush=True))
        places = _measure(options, record, programs, journal)
    except (prepare.PrepareError, LabError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        print("compare: interrupted before anything was measured", file=sys.stderr)
        return 128 + stop.number
    if not any(peer != session.BASELINE for _, peer, _ in record.samples):
        where = "interrupted" if record.interrupted else "see the failures above"
        print(f"compare: nothing was measured ({where})", file=sys.stderr)
        return 130 if record.interrupted else 2
    _report(options, record, places, journal.directory, setup)
    if record.interrupted:
        print(f"interrupted after {record.finished} of {record.planned} runs; go on with:")
        print(f"  bench/imb-runs/compare --resume {journal.directory}")
        return 130
    print(f"took {clock(time.monotonic() - begun)} min")
    for peer, reason in record.unavailable.items():
        print(f"not measured: {peer}: {reason}")
    if record.failures:
        print(f"{len(record.failures)} of the runs failed; see above and the report")
    return 1 if record.failures or record.unavailable else 0
