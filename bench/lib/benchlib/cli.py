# SPDX-License-Identifier: BSD-3-Clause
"""The command `compare` of every driver: from arguments to the report."""

import datetime
import os
import shlex
import sys
import time
from pathlib import Path

from rawelab import LabError, interrupts

from . import BenchError, places, prepare, report, session, summary
from . import options as command_line
from .journal import Journal
from .page import plots_available
from .places import place_of
from .session import Progress, clock
from .transports import BASELINE, base_of

BENCH = Path(__file__).resolve().parents[2]


def say(text):
    """Print progress."""
    print(text, flush=True)


def _open(driver, argv):
    """Options, journal and setup: of a new comparison, or of the one to continue."""
    options = command_line.parse(driver, argv)
    if options.resume is not None:
        journal = Journal(os.path.abspath(options.resume))
        setup = journal.setup()
        words = setup["argv"] + (["--no-build"] if options.no_build else [])
        os.chdir(setup["directory"])
        return command_line.parse(driver, words), journal, setup
    if options.hostfile is None and os.geteuid() != 0:
        raise BenchError("virtual hosts need root; run it as root, or on real hosts: --hostfile")
    started = datetime.datetime.now()
    setup = {
        "argv": command_line.without_output(argv),
        "directory": os.getcwd(),
        "started": started.strftime("%Y-%m-%d %H:%M"),
    }
    default = BENCH / driver.name / "results" / started.strftime("%Y-%m-%d-%H%M%S")
    journal = Journal(os.path.abspath(options.output or default))
    journal.create(setup)
    return options, journal, setup


def _measure(driver, options, journal, record):
    """Make the runs that are missing, those on the same number of hosts in one go."""
    runs = driver.plan(options, place_of(options, options.cases[0].hosts).interface)
    journal.pin(runs)
    progress = Progress(runs)
    work = session.Session(driver, options, runs, journal, record)
    left = work.replay(progress)
    try:
        for hosts in dict.fromkeys(runs[index].case.hosts for index in left):
            mine = [index for index in left if runs[index].case.hosts == hosts]
            with place_of(options, hosts) as place:
                work.execute(mine, place, progress)
    except interrupts.Interrupted:
        record.interrupted = True


def _about(driver, options, record, setup):
    """Collect what the report needs besides the CSV files."""
    interrupted = ""
    if record.interrupted:
        interrupted = f"Interrupted after {len(record.done)} of {record.planned} runs."
    return {
        "base": base_of(options.transports),
        "command": shlex.join([f"bench/{driver.name}/compare", *setup["argv"]]),
        "date": setup["started"],
        "driver": driver.name,
        "facts": [*places.facts_of(options, setup["started"], options.cases), *driver.facts()],
        "interrupted": interrupted,
        "problems": record.problems(),
        "shape": options.shape,
        "transports": options.transports,
    }


def _report(driver, directory, record, about):
    """Tables on the terminal, files in the directory."""
    driver.write_csv(directory, record, about)
    report.save_about(directory, about)
    tables = driver.load(directory, about)
    print()
    for text in driver.texts(tables, about):
        print(text)
    print(summary.DOUBT)
    spread = report.spread_of(tables)
    if spread is not None:
        busy = ": the machine is busy with other work" if spread > report.SPREAD_MAX else ""
        print(f"\nspread: {report.spread_text(spread)}{busy}")
    names = report.write(driver, directory, about, directory)
    print(f"report: {', '.join([str(directory / names[0]), *names[1:]])}")
    if not plots_available():
        print("plots are missing: test/install-deps bench installs what makes them")
    print(f"data:   {', '.join(sorted(path.name for path in directory.glob('*.csv')))}, raw/")


def _how_to_continue(driver, journal):
    """The command that continues, below a line that ends in a colon."""
    return f"  {shlex.join([f'bench/{driver.name}/compare', '--resume', str(journal.directory)])}"


def main(driver, argv):
    """Run compare; returns the exit status."""
    begun = time.monotonic()
    interrupts.install()
    record, journal = session.Record(), None
    try:
        options, journal, setup = _open(driver, argv)
        for reason in options.left_out:
            say(f"left out: {reason}")
        record.unavailable = prepare.make_ready(options, driver.packages, say)
        record.notes = driver.prepare(options, say)
        _measure(driver, options, journal, record)
        return _conclude(driver, options, journal, record, setup, begun)
    except (BenchError, LabError, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        if record.done:
            print("what was measured is kept; continue with:", file=sys.stderr)
            print(_how_to_continue(driver, journal), file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        if record.done:
            print("compare: interrupted before the report was made; make it with:", file=sys.stderr)
            print(_how_to_continue(driver, journal), file=sys.stderr)
        else:
            print("compare: interrupted before anything was measured", file=sys.stderr)
        return 128 + stop.number


def _conclude(driver, options, journal, record, setup, begun):
    """Report what was measured; returns the exit status."""
    if not any(one.result for one in record.done if one.run.transport != BASELINE):
        where = "interrupted" if record.interrupted else "see the failures above"
        print(f"compare: nothing was measured ({where})", file=sys.stderr)
        return 130 if record.interrupted else 2
    about = _about(driver, options, record, setup)
    _report(driver, journal.directory, record, about)
    if record.interrupted:
        print(f"interrupted after {len(record.done)} of {record.planned} runs; continue with:")
        print(_how_to_continue(driver, journal))
        return 130
    print(f"took {clock(time.monotonic() - begun)} min")
    for transport, reason in record.unavailable.items():
        print(f"not measured: {transport}: {reason}")
    if record.failures:
        print(f"{len(record.failures)} of {len(record.done)} runs failed; see above and the report")
    return 1 if record.failures or record.unavailable else 0
