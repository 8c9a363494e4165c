# SPDX-License-Identifier: BSD-3-Clause
"""The command line of compare: from arguments to the report."""

import argparse
import datetime
import os
import re
import shlex
import sys
import time
from pathlib import Path

from rawelab import LabError, interrupts

from . import plot, prepare, report, session, suites, summary
from .places import HostfilePlace, LabPlace
from .progress import Progress, clock

UNREST_MAX = 0.3  # on a quiet machine a typical figure stays below that
HERE = Path(__file__).resolve().parents[1]
EPILOG = """examples:
  compare                                  two virtual hosts, tcp against rawe, under 2 minutes
  compare --quick --mtu 9000               a first look at jumbo frames
  compare --suite all --hosts 4 --rounds 7
  compare --peers tcp,ofi,ucx,rawe --suite latency
  compare --hostfile hosts --interface eth1 --np 8

Exit status: 0 all runs ended well, 1 some failed (each is shown with the command that repeats it),
2 nothing could be measured, 130 interrupted; what was measured until then is reported all the same.
IMB-MPI1 is used when it is on PATH or named by IMB_MPI1, rawe-imb otherwise."""


def _list_of(names, what):
    def parse(text):
        chosen = [name.strip().lower() for name in text.split(",") if name.strip()]
        unknown = [name for name in chosen if name not in names]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown) or 'nothing'} is no {what}; there are: {', '.join(names)}"
            )
        return list(dict.fromkeys(chosen))

    return parse


def _benchmarks(text):
    try:
        return [suites.benchmark_named(name) for name in text.split(",") if name.strip()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _msglog(text):
    match = re.fullmatch(r"(?:(\d+):)?(\d+)", text)
    if not match or not int(match.group(1) or 0) <= int(match.group(2)) <= 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW:HIGH with 0 <= LOW <= HIGH <= 30")
    return int(match.group(1) or 0), int(match.group(2))


def _count(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def parser():
    """The argument parser."""
    made = argparse.ArgumentParser(
        prog="compare",
        description="Measure MPI over raw Ethernet frames (rawe) against TCP and others.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--quick", action="store_true", help="2 rounds and little time for each size")
    made.add_argument("--rounds", type=_count, help="alternating rounds (default 5)")
    made.add_argument("--suite", choices=tuple(suites.SUITES), default="default")
    made.add_argument("--benchmarks", type=_benchmarks, metavar="A,B", help="instead of a suite")
    made.add_argument("--msglog", type=_msglog, metavar="LOW:HIGH", help="sizes 0, 2^LOW..2^HIGH")
    made.add_argument(
        "--peers",
        type=_list_of(tuple(suites.PEERS), "transport"),
        default=["tcp", "rawe"],
        metavar="A,B",
        help=f"transports, the first one (or tcp) is the base; of {', '.join(suites.PEERS)}",
    )
    made.add_argument("--np", type=_count, help="ranks (default: one a host)")
    made.add_argument("--time", type=_seconds, help="most seconds for a size (default 0.02)")
    made.add_argument("--iterations", type=_count, help="most repetitions of a size (default 1000)")
    made.add_argument("--timeout", type=_seconds, default=90.0, help="of one mpirun (default 90)")
    made.add_argument("--check", action="store_true", help="let rawe-imb verify contents")
    made.add_argument("--no-floor", dest="floor", action="store_false", help="no floor figures")
    made.add_argument("--output", type=Path, metavar="DIR", help="default: results/<date-time>")
    made.add_argument("--build", type=Path, metavar="DIR", help="build directory (default ./build)")
    made.add_argument("--no-build", action="store_true", help="take packages and build as they are")
    virtual = made.add_argument_group("virtual hosts (as root)")
    virtual.add_argument("--hosts", type=_count, help="default 2")
    virtual.add_argument("--mtu", type=_count, help="bytes (default 1500)")
    virtual.add_argument("--topology", choices=("pair", "switch"))
    virtual.add_argument("--offload", choices=("on", "off"), help="default on")
    virtual.add_argument("--rate", help="line rate, as 1gbit")
    virtual.add_argument("--loss", help="frames lost on each way, as 1%%")
    real = made.add_argument_group("real hosts")
    real.add_argument("--hostfile", type=Path, metavar="FILE", help="mpirun's, one host a line")
    real.add_argument("--interface", help="network interface to measure, the same on all hosts")
    real.add_argument(
        "--mpirun-args", type=shlex.split, default=[], metavar="ARGS", help="handed to mpirun"
    )
    return made


def parse(argv):
    """Options with every default filled in and contradictions refused."""
    made = parser()
    options = made.parse_args(argv)
    shape = ("hosts", "mtu", "topology", "offload", "rate", "loss")
    if options.hostfile is not None:
        given = [f"--{name}" for name in shape if getattr(options, name) is not None]
        if given:
            made.error(f"{', '.join(given)} shapes virtual hosts; leave it out with --hostfile")
        if not options.hostfile.is_file():
            made.error(f"--hostfile {options.hostfile}: there is no such file")
        options.hostfile = options.hostfile.resolve()
    elif options.interface or options.mpirun_args:
        made.error("--interface and --mpirun-args go with --hostfile; virtual hosts have their own")
    options.shape = {name: getattr(options, name) for name in shape}
    if options.offload is not None:
        options.shape["offload"] = options.offload == "on"
    options.np = options.np or _default_np(options)
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.time = options.time or (0.01 if options.quick else 0.02)
    options.iterations = options.iterations or (200 if options.quick else 1000)
    options.floor_time = 0.01 if options.quick else 0.02
    options.floor = options.floor and bool(options.benchmarks or options.suite != "collectives")
    options.parts = suites.parts_of(options.suite, options.benchmarks or (), options.msglog)
    options.build = (options.build or prepare.SOURCE / "build").resolve()
    return options


def _default_np(options):
    if options.hostfile is None:
        return options.hosts or 2
    lines = options.hostfile.read_text(encoding="utf-8").splitlines()
    return max(2, len([line for line in lines if line.split("#")[0].strip()]))


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
    if options.floor:
        programs["pingpong"] = prepare.program(options.build, "pingpong")
        programs["stream"] = prepare.program(options.build, "stream")
    for peer, reason in prepare.missing_peers(options.peers, options.build).items():
        say(f"NOT AVAILABLE: {peer}: {reason}")
        record.unavailable[peer] = reason
        options.peers.remove(peer)
    if not options.peers:
        raise prepare.PrepareError("none of the transports asked for is available")
    return programs


def _place(options):
    component = options.build if (options.build / prepare.COMPONENT).exists() else None
    if options.hostfile is None:
        return LabPlace(options.shape, component)
    if prepare.rawe_installed():
        component = None
    return HostfilePlace(options.hostfile, options.interface, component, options.mpirun_args)


def _without_output(argv):
    """The arguments but --output, whose directory holds these results now."""
    kept, skip = [], False
    for word in argv:
        if not skip and not word.startswith("--output"):
            kept.append(word)
        skip = word == "--output"
    return kept


def _report(options, record, place, directory, argv, started):
    """Tables on the terminal, files in the directory."""
    base = "tcp" if "tcp" in options.peers else options.peers[0]
    found = summary.tables(record, options.peers, base)
    for table in found:
        print("\n" + report.terminal_table(table))
    print()
    report.write_csv(directory, record, options.peers, base)
    try:
        images = plot.draw(record, options.peers, directory, place.title())
    except ImportError as error:
        images = []
        record.notes.append(f"There is no plot: {error} (Debian: python3-matplotlib)")
        print(f"no plot: {error}; test/install-deps bench installs matplotlib")
    facts = [
        *place.describe(),
        *report.machine(),
        ("Ranks", options.np),
        ("Rounds", f"{record.rounds_done} of {options.rounds}"),
    ]
    unrest = summary.unrest(record, options.peers)
    if unrest is not None:
        text = f"a typical figure differs by {unrest:.0%} between rounds"
        facts.append(("Unrest", text))
        quiet = "" if unrest < UNREST_MAX else ": the machine is busy with other things"
        print(f"unrest: {text}{quiet}")
    table = {"date": started.strftime("%Y-%m-%d %H:%M"), "table": facts}
    command = shlex.join(["bench/imb-runs/compare", *_without_output(argv)])
    report.write_markdown(directory, record, found, table, images, command)
    print(f"report: {directory / 'report.md'}")
    print(f"plot:   {', '.join(str(directory / name) for name, _ in images) or 'none'}")
    print(f"data:   {directory / 'samples.csv'}, medians.csv, raw/")


def _measure(options, record, place, programs, directory):
    runs = session.plan(options, programs, place.interface)
    progress = Progress(runs, options.rounds)
    (directory / "raw").mkdir(parents=True, exist_ok=True)
    try:
        with place:
            session.execute(options, runs, place, progress, directory / "raw", record)
    except interrupts.Interrupted:
        record.interrupted = True
    progress.clear()


def main(argv):
    """Run compare; returns the exit status."""
    begun = time.monotonic()
    started = datetime.datetime.now()
    options = parse(argv)
    interrupts.install()
    record = session.Record()
    directory = options.output or HERE / "results" / started.strftime("%Y-%m-%d-%H%M%S")
    directory = Path(os.path.abspath(directory))
    try:
        if (directory / "raw").exists():
            raise prepare.PrepareError(f"{directory} holds results; choose another --output")
        programs = _prepare(options, record, lambda text: print(text, flush=True))
        place = _place(options)
        _measure(options, record, place, programs, directory)
    except (prepare.PrepareError, LabError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        print("compare: interrupted before anything was measured", file=sys.stderr)
        return 128 + stop.number
    if not any(peer != session.FLOOR for _, peer, _ in record.samples):
        where = "interrupted" if record.interrupted else "see the failures above"
        print(f"compare: nothing was measured ({where})", file=sys.stderr)
        return 130 if record.interrupted else 2
    _report(options, record, place, directory, argv, started)
    if record.interrupted:
        print(f"interrupted after {record.rounds_done} complete rounds of {options.rounds}")
        return 130
    print(f"took {clock(time.monotonic() - begun)} min")
    for peer, reason in record.unavailable.items():
        print(f"not measured: {peer}: {reason}")
    if record.failures:
        print(f"{len(record.failures)} of the runs failed; see above and the report")
    return 1 if record.failures or record.unavailable else 0
