# SPDX-License-Identifier: BSD-3-Clause
"""The `compare` command of every driver: its options, the runs, and the report."""

import argparse
import datetime
import os
import shlex
import sys
import time
from pathlib import Path

from rawelab import LabError, interrupts
from rawelab.spec import NIC_KINDS

from . import BenchError, places, prepare, report, session, summary
from .page import plots_available
from .places import place_of
from .session import Journal, Progress, clock
from .transports import BASELINE, COMPONENT, OLD, SHARED_MEMORY, TRANSPORTS, base_of

BENCH = Path(__file__).resolve().parents[2]
SHAPE = ("mtu", "topology", "nic", "rate", "loss")


def count(text):
    """Parse a positive integer."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def counts(text):
    """Parse positive integers separated by commas."""
    return list(dict.fromkeys(count(word.strip()) for word in text.split(",")))


def seconds(text):
    """Parse a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def list_of(names, what):
    """Return a parser of comma-separated names in any case; it returns their proper spelling."""
    spelling = {name.lower(): name for name in names}

    def parse(text):
        words = [word.strip().lower() for word in text.split(",") if word.strip()]
        unknown = [word for word in words if word not in spelling]
        if unknown or not words:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown) or 'nothing'} is no {what}; there are: {', '.join(names)}"
            )
        return list(dict.fromkeys(spelling[word] for word in words))

    return parse


def parser(driver):
    made = argparse.ArgumentParser(
        prog=f"bench/{driver.name}/compare",
        description=driver.description,
        epilog=driver.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--quick", action="store_true", help=driver.quick)
    driver.add_options(made)
    add("--np", type=counts, metavar="N,M", help="numbers of ranks, each measured separately")
    add("--rounds", type=count, help="rounds; the transports alternate (default 5)")
    add(
        "--transports",
        type=list_of(tuple(TRANSPORTS), "transport"),
        metavar="A,B",
        help=f"of {', '.join(TRANSPORTS)}; the base is old, tcp, or the first one (default "
        f"{driver.transports_said}; with --against old,rawe)",
    )
    text = f"of one mpirun, in seconds (default {driver.timeout:g})"
    add("--timeout", type=seconds, default=driver.timeout, help=text)
    add("--output", type=Path, metavar="DIR", help="default: results/<date-time>")
    add("--resume", type=Path, metavar="DIR", help="continue an interrupted comparison")
    add("--build", type=Path, metavar="DIR", help="build directory (default ./build)")
    text = "another build of rawe, made before: measured in turns with --build, as transport old"
    add("--against", type=Path, metavar="DIR", help=text)
    add("--no-build", action="store_true", help="install no packages, build nothing")
    add = made.add_argument_group("virtual hosts (as root)").add_argument
    add("--hosts", type=count, help="default: one for each rank, at most 4")
    add("--mtu", type=count, help="bytes (default 1500)")
    add("--topology", choices=("pair", "switch"))
    text = "batches travel whole (default), are cut by the sender and merged by the receiver as "
    text += "with real NICs, or there are no offloads at all"
    add("--nic", choices=NIC_KINDS, help=text)
    add("--rate", help="line rate, as 1gbit")
    add("--loss", help="frames lost on each way, as 1%%")
    add = made.add_argument_group("real hosts").add_argument
    add("--hostfile", type=Path, metavar="FILE", help="mpirun's, one host a line")
    add("--interface", help="network interface to measure, the same on all hosts")
    words = {"type": shlex.split, "default": []}
    add("--mpirun-args", **words, metavar="ARGS", help="passed to mpirun")
    text = "starts the program on every rank, for example a command that grants CAP_NET_RAW"
    add("--starter", **words, metavar="CMD", help=text)
    return made


def parse(driver, argv):
    """Return the options with all defaults filled in. Conflicting options end the program."""
    made = parser(driver)
    options = made.parse_args(argv)
    if options.resume is not None:
        words = [word for word in argv if word != "--no-build" and not word.startswith("--resume=")]
        if "--resume" in words:
            at = words.index("--resume")
            del words[at : at + 2]
        if words:
            made.error("--resume keeps the options of the first start; add only --no-build")
        return options
    if options.hostfile is not None:
        given = [f"--{name}" for name in ("hosts", *SHAPE) if getattr(options, name) is not None]
        if given:
            made.error(f"{', '.join(given)} shapes virtual hosts; leave it out with --hostfile")
        if not options.hostfile.is_file():
            made.error(f"--hostfile {options.hostfile}: there is no such file")
        options.hostfile = options.hostfile.resolve()
    elif options.interface or options.mpirun_args or options.starter:
        made.error(
            "--interface, --mpirun-args and --starter go with --hostfile; virtual hosts have their "
            "own"
        )
    if options.against is not None:
        options.against = options.against.resolve()
        if not (options.against / COMPONENT).exists():
            made.error(f"--against {options.against}: no rawe was built there; run make in it")
    default = [OLD, "rawe"] if options.against else driver.transports(options)
    options.transports = options.transports or default
    if (OLD in options.transports) != (options.against is not None):
        made.error(f"transport {OLD} and --against DIR go together")
    if SHARED_MEMORY in options.transports and options.hostfile is None and options.hosts != 1:
        made.error(f"{SHARED_MEMORY} reaches ranks of the same host only; use --hosts 1")
    options.shape = {name: getattr(options, name) for name in SHAPE}
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.build = (options.build or prepare.SOURCE / "build").resolve()
    driver.finish(made, options)
    return options


def without_output(argv):
    """Return the arguments without --output, so that a repetition uses another directory."""
    kept, skip = [], False
    for word in argv:
        if not skip and not word.startswith("--output"):
            kept.append(word)
        skip = word == "--output"
    return kept


def say(text):
    print(text, flush=True)


def _open(driver, argv):
    """Return options, journal and setup of a new comparison, or of the one to continue."""
    options = parse(driver, argv)
    if options.resume is not None:
        journal = Journal(os.path.abspath(options.resume))
        setup = journal.setup()
        words = setup["argv"] + (["--no-build"] if options.no_build else [])
        os.chdir(setup["directory"])
        return parse(driver, words), journal, setup
    if options.hostfile is None and os.geteuid() != 0:
        raise BenchError("virtual hosts need root; run it as root, or on real hosts: --hostfile")
    started = datetime.datetime.now()
    setup = {
        "argv": without_output(argv),
        "directory": os.getcwd(),
        "started": started.strftime("%Y-%m-%d %H:%M"),
    }
    default = BENCH / driver.name / "results" / started.strftime("%Y-%m-%d-%H%M%S")
    journal = Journal(os.path.abspath(options.output or default))
    journal.create(setup)
    return options, journal, setup


def _measure(driver, options, journal, record):
    """Perform the missing runs, grouped by their number of hosts."""
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
    """Print the tables, and write the files into the directory."""
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
    """Return the command that continues the comparison, indented."""
    return f"  {shlex.join([f'bench/{driver.name}/compare', '--resume', str(journal.directory)])}"


def main(driver, argv):
    """Run compare. Returns the exit status."""
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
    """Report what was measured. Returns the exit status."""
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
