# SPDX-License-Identifier: BSD-3-Clause
"""The command line's options: their parsing and their defaults."""

import argparse
import os
import shlex
from pathlib import Path

from imbruns import prepare, suites

from . import plan

EPILOG = """Without --class and --np: LU class A on 2 hosts, LU class W and SP class W on 4 hosts.
Without --hostfile: virtual hosts on this machine (as root), one for each rank, four at most.
LU runs on 1, 2, 4, 8, ... ranks, SP on 1, 4, 9, 16, ...; other combinations are left out.
NPB_BIN=DIR runs NPB's own binaries in DIR (lu.A.x, or lu.A.4 built for 4 ranks) instead of the
project's own implementation of the two from the NAS specification.

examples:
  compare --quick
  compare --bench lu --class S,W --np 2,4 --mtu 9000
  NPB_BIN=~/NPB3.4-MPI/bin compare --class A --np 4 --hostfile hosts

Exit status: 0 all runs verified, 1 some did not or a transport is missing, 2 nothing could be
measured, 130 interrupted; what was measured until then is reported all the same."""


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


def _list_of(names, what):
    """Parses a comma-separated list of names, small or capital; returns them as spelt here."""
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


def parser():
    """The argument parser."""
    made = argparse.ArgumentParser(
        prog="compare",
        description="Measure NAS LU and SP over raw Ethernet frames (rawe) against TCP.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--quick", action="store_true", help="classes S and W, 2 rounds; within 3 minutes")
    add("--bench", type=_list_of(("LU", "SP"), "benchmark"), metavar="A,B", help="default lu,sp")
    classes = _list_of(tuple(plan.CLASSES), "class")
    add("--class", dest="problems", type=classes, metavar="A,B", help="of S, W, A, B (default W)")
    add("--np", type=_counts, metavar="N,M", help="numbers of ranks (default 4)")
    add("--rounds", type=_count, help="alternating rounds (default 5)")
    add(
        "--peers",
        type=_list_of(tuple(suites.PEERS), "transport"),
        default=["tcp", "rawe"],
        metavar="A,B",
        help=f"transports, the first one (or tcp) is the base; of {', '.join(suites.PEERS)}",
    )
    add("--timeout", type=_seconds, default=900.0, help="of one mpirun (default 900)")
    add("--output", type=Path, metavar="DIR", help="default: results/<date-time>")
    add("--resume", type=Path, metavar="DIR", help="go on with an interrupted comparison")
    add("--build", type=Path, metavar="DIR", help="build directory (default ./build)")
    add("--no-build", action="store_true", help="take packages and component as they are")
    virtual = made.add_argument_group("virtual hosts (as root)")
    virtual.add_argument("--hosts", type=_count, help="default: one for each rank, 4 at most")
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
    shape = ("mtu", "topology", "offload", "rate", "loss")
    if options.hostfile is not None:
        given = [f"--{name}" for name in ("hosts", *shape) if getattr(options, name) is not None]
        if given:
            made.error(f"{', '.join(given)} shapes virtual hosts; leave it out with --hostfile")
        if not options.hostfile.is_file():
            made.error(f"--hostfile {options.hostfile}: there is no such file")
    elif options.interface or options.mpirun_args:
        made.error("--interface and --mpirun-args go with --hostfile; virtual hosts have their own")
    options.shape = {name: getattr(options, name) for name in shape}
    if options.offload is not None:
        options.shape["offload"] = options.offload == "on"
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.build = (options.build or prepare.SOURCE / "build").resolve()
    return options


def cases(options):
    """The Cases the options ask for, and why others were left out."""
    virtual = options.hostfile is None
    benchmarks = options.bench or ["LU", "SP"]
    if options.problems or options.np:
        problems = options.problems or (["S", "W"] if options.quick else ["W"])
        return plan.make(benchmarks, problems, options.np or [4], options.hosts, virtual)
    chosen = [
        case
        for case in (plan.QUICK if options.quick else plan.DEFAULT)
        if case.benchmark in benchmarks
    ]
    if virtual and options.hosts is None:
        return chosen, []
    return plan.relocate(chosen, options.hosts if virtual else 0)


def setup(options, started):
    """Everything that --resume must find again, in a form that JSON can hold."""
    wanted, left_out = cases(options)
    return {
        "cases": [[one.benchmark, one.problem, one.ranks, one.hosts] for one in wanted],
        "left_out": left_out,
        "peers": options.peers,
        "rounds": options.rounds,
        "shape": options.shape,
        "hostfile": None if options.hostfile is None else str(options.hostfile.resolve()),
        "interface": options.interface,
        "mpirun_args": options.mpirun_args,
        "programs": programs_wanted(),
        "started": started,
    }


def programs_wanted():
    """Whether NPB's own binaries are to run, or the project's."""
    return "NPB" if os.environ.get("NPB_BIN") else "own"
