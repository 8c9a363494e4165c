# SPDX-License-Identifier: BSD-3-Clause
"""The command line's options: their parsing, their defaults, and what does not go together."""

import argparse
import re
import shlex
from pathlib import Path

from . import prepare, session, suites

ALL_RANKS = (2, 4, 8)  # what the suite all runs on
HOSTS_MOST = 4  # virtual ones, by default
EPILOG = """examples:
  compare                                  two virtual hosts, tcp against rawe, under 2 minutes
  compare --quick --mtu 9000               a first look at jumbo frames
  compare --suite all                      all of IMB-MPI1 on 2, 4 and 8 ranks
  compare --suite seeds                    MPBench's, GAMMA's and ESP's tests
  compare --rate 1gbit --topology switch --suite bandwidth
  compare --peers tcp,ofi,ucx,rawe --suite latency
  compare --hostfile hosts --interface eth1 --np 8
  compare --resume bench/imb-runs/results/<date-time>

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


def _counts(text):
    return list(dict.fromkeys(_count(word.strip()) for word in text.split(",")))


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
    made.add_argument(
        "--np",
        type=_counts,
        metavar="N,M",
        help="numbers of ranks, each measured for itself (default: one a host; suite all: 2,4,8)",
    )
    made.add_argument("--time", type=_seconds, help="most seconds for a size (default 0.02; with --rate 1)")
    made.add_argument("--iterations", type=_count, help="most repetitions of a size (default 1000)")
    made.add_argument("--timeout", type=_seconds, default=180.0, help="of one mpirun (default 180)")
    made.add_argument("--check", action="store_true", help="let rawe-imb verify contents")
    made.add_argument("--no-baseline", dest="baseline", action="store_false", help="no baseline figures")
    made.add_argument("--output", type=Path, metavar="DIR", help="default: results/<date-time>")
    made.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with an interrupted comparison"
    )
    made.add_argument("--build", type=Path, metavar="DIR", help="build directory (default ./build)")
    made.add_argument("--no-build", action="store_true", help="take packages and build as they are")
    virtual = made.add_argument_group("virtual hosts (as root)")
    virtual.add_argument("--hosts", type=_count, help="default: one for each rank, at most 4")
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
    real.add_argument(
        "--starter",
        type=shlex.split,
        default=[],
        metavar="CMD",
        help="put in front of the program on every rank, such as what grants CAP_NET_RAW",
    )
    return made


def parse(argv):
    """Options with every default filled in and contradictions refused."""
    made = parser()
    options = made.parse_args(argv)
    if options.resume is not None:
        return _resuming(made, options, argv)
    shape = ("mtu", "topology", "offload", "rate", "loss")
    if options.hostfile is not None:
        given = ("hosts", *shape)
        given = [f"--{name}" for name in given if getattr(options, name) is not None]
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
    options.shape = {name: getattr(options, name) for name in shape}
    if options.offload is not None:
        options.shape["offload"] = options.offload == "on"
    options.groups = _groups(made, options)
    if suites.SHARED_MEMORY in options.peers and any(group.hosts > 1 for group in options.groups):
        made.error(f"{suites.SHARED_MEMORY} reaches ranks of the same host only; use --hosts 1 --np 2")
    options.rounds = options.rounds or (2 if options.quick else 5)
    # A window of long messages alone takes half a second on a slow line.
    options.time = options.time or (1.0 if options.rate else 0.01 if options.quick else 0.02)
    options.iterations = options.iterations or (200 if options.quick else 1000)
    options.baseline_time = 0.01 if options.quick else 0.02
    options.baseline = options.baseline and bool(options.benchmarks or options.suite != "collectives")
    options.parts = suites.parts_of(options.suite, options.benchmarks or (), options.msglog)
    options.build = (options.build or prepare.SOURCE / "build").resolve()
    return options


def _resuming(made, options, argv):
    """Options of --resume: everything else is as it was."""
    words = [word for word in argv if word != "--no-build" and not word.startswith("--resume=")]
    if words not in ([], ["--resume", str(options.resume)]):
        made.error("--resume goes on with the options it was begun with; only --no-build goes with it")
    return options


def _hosts_in(hostfile):
    lines = hostfile.read_text(encoding="utf-8").splitlines()
    return max(2, len([line for line in lines if line.split("#")[0].strip()]))


def _groups(made, options):
    """How many ranks on how many hosts."""
    if options.hostfile is not None:
        hosts = _hosts_in(options.hostfile)
        counts = options.np or [hosts]
        if options.np is None and options.suite == "all":
            counts = sorted({*(n for n in ALL_RANKS if n < hosts), hosts})
        return [session.Group(count) for count in counts]
    counts = options.np or [options.hosts or 2]
    if options.np is None and options.hosts is None and options.suite == "all":
        counts = list(ALL_RANKS)
    most = 2 if options.topology == "pair" else HOSTS_MOST
    for count in counts:
        if count < 2:
            made.error("--np 1: a single rank has nobody to send to")
        if count < (options.hosts or 2):
            made.error(f"--np {count} leaves some of {options.hosts} hosts idle; --hosts {count}?")
    return [session.Group(count, options.hosts or min(count, most)) for count in counts]


def without_output(argv):
    """The arguments but --output, whose directory holds these results now."""
    kept, skip = [], False
    for word in argv:
        if not skip and not word.startswith("--output"):
            kept.append(word)
        skip = word == "--output"
    return kept
