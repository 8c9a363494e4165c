# SPDX-License-Identifier: BSD-3-Clause
"""The options that every driver has: hosts, transports, rounds, where to build and write."""

import argparse
import shlex
from pathlib import Path

from imbruns import prepare, suites

SHAPE = ("mtu", "topology", "offload", "rate", "loss")


def count(text):
    """A whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def counts(text):
    """Whole numbers from 1 on, separated by commas."""
    return list(dict.fromkeys(count(word.strip()) for word in text.split(",")))


def seconds(text):
    """A time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def list_of(names, what):
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


def add_common(made):
    """Add to a parser what does not depend on the programs that are run."""
    add = made.add_argument
    add("--np", type=counts, metavar="N,M", help="numbers of ranks")
    add("--rounds", type=count, help="alternating rounds (default 5)")
    add(
        "--peers",
        type=list_of(tuple(suites.PEERS), "transport"),
        default=["tcp", "rawe"],
        metavar="A,B",
        help=f"transports, the first one (or tcp) is the base; of {', '.join(suites.PEERS)}",
    )
    add("--timeout", type=seconds, default=900.0, help="of one mpirun (default 900)")
    add("--output", type=Path, metavar="DIR", help="default: results/<date-time>")
    add("--resume", type=Path, metavar="DIR", help="go on with an interrupted comparison")
    add("--build", type=Path, metavar="DIR", help="build directory (default ./build)")
    add("--no-build", action="store_true", help="take packages and component as they are")
    virtual = made.add_argument_group("virtual hosts (as root)")
    virtual.add_argument("--hosts", type=count, help="default: one for each rank, 4 at most")
    virtual.add_argument("--mtu", type=count, help="bytes (default 1500)")
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


def finish(made, options):
    """Fill in defaults and refuse contradictions, by `made`'s error()."""
    if options.hostfile is not None:
        given = [f"--{name}" for name in ("hosts", *SHAPE) if getattr(options, name) is not None]
        if given:
            made.error(f"{', '.join(given)} shapes virtual hosts; leave it out with --hostfile")
        if not options.hostfile.is_file():
            made.error(f"--hostfile {options.hostfile}: there is no such file")
        options.hostfile = options.hostfile.resolve()
    elif options.interface or options.mpirun_args:
        made.error("--interface and --mpirun-args go with --hostfile; virtual hosts have their own")
    shared = suites.SHARED_MEMORY
    if shared in options.peers and options.hostfile is None and options.hosts != 1:
        made.error(f"{shared} reaches ranks of the same host only; use --hosts 1")
    options.shape = {name: getattr(options, name) for name in SHAPE}
    if options.offload is not None:
        options.shape["offload"] = options.offload == "on"
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.build = (options.build or prepare.SOURCE / "build").resolve()


def setup(options, started):
    """What --resume must find again of these options, in a form that JSON can hold."""
    return {
        "peers": options.peers,
        "rounds": options.rounds,
        "shape": options.shape,
        "hostfile": None if options.hostfile is None else str(options.hostfile),
        "interface": options.interface,
        "mpirun_args": options.mpirun_args,
        "started": started,
    }
