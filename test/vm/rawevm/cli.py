# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the virtual machines."""

import argparse
import os
import signal
import sys

from rawelab import interrupts, launch
from rawelab.command import LabError

from . import fetch
from .cluster import STOP_SECONDS, Cluster
from .job import channel
from .spec import NICS

EPILOG = """examples:
  vm mpirun --nic e1000e --kernel 6.1 --mtu 9000 -- -np 2 --mca btl rawe,self ./prog
  vm exec --nic vmxnet3 --kernel 6.12 -- ethtool -k eth0

Machines are called vm0, vm1, ... and have the data NICs eth0, eth1, ... and a NIC ctl0 on a
network of its own that mpirun uses for itself. They see this machine's files, and what they write
to them vanishes with them. QEMU and the kernels are fetched from Debian when they are first needed,
into ~/.cache/rawe/vm or RAWE_VM_CACHE. Emulated processors are slow: this is for function, not for
speed."""
TIMEOUT_STATUS = launch.TIMEOUT_STATUS


def _add_shape(parser):
    group = parser.add_argument_group("shape of the cluster")
    group.add_argument("--hosts", type=int, metavar="N", help="virtual machines (default 2)")
    group.add_argument("--nic", choices=NICS, help="what QEMU emulates (default e1000e)")
    group.add_argument("--kernel", choices=fetch.KERNELS, help="of Debian 12 or 13 (default 6.1)")
    group.add_argument("--mtu", type=int, metavar="BYTES", help="of each data NIC (default 1500)")
    group.add_argument("--nics", type=int, metavar="N", help="data NICs per machine (default 1)")
    group.add_argument("--cpus", type=int, metavar="N", help="of each machine (default 1)")


def _cluster_of(options):
    names = ("hosts", "nic", "kernel", "mtu", "nics", "cpus")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return Cluster(**given)


def _words(options):
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise LabError(f"vm {options.action} needs a command behind --")
    return words


def _forward(kind, piece):
    os.write(1 if kind == channel.OUT else 2, piece)


def _attend(job, options):
    """The status of a job whose output is forwarded; signals that we get are passed on."""
    try:
        result = job.wait(options.timeout)
    except interrupts.Interrupted:
        with interrupts.shield():
            job.signal(signal.SIGTERM)
            job.wait(STOP_SECONDS)
        raise
    if result is not None:
        return result.returncode
    job.signal(signal.SIGTERM)
    job.wait(STOP_SECONDS)
    print(f"vm: stopped after {options.timeout:g} seconds, see --timeout", file=sys.stderr)
    return TIMEOUT_STATUS


def _with_cluster(options, start):
    cluster = _cluster_of(options)
    try:
        cluster.up()
        return _attend(start(cluster), options)
    finally:
        with interrupts.shield():
            cluster.down()


def _mpirun(options):
    words = _words(options)
    build = options.build or launch.find_build()
    return _with_cluster(
        options, lambda cluster: cluster.start_mpirun(words, build, forward=_forward)
    )


def _exec(options):
    words = _words(options)
    return _with_cluster(options, lambda cluster: cluster.hosts[0].spawn(words, forward=_forward))


def _fetch(_options):
    print(fetch.qemu().tree)
    for name in fetch.KERNELS:
        print(fetch.kernel(name).tree)
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="vm",
        description="Virtual machines with real drivers and kernels, and mpirun on them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    for name, call, text, words in (
        ("mpirun", _mpirun, "start machines, run mpirun on them, end them", "MPIRUN ARGUMENTS"),
        ("exec", _exec, "start machines, run a command on the first, end them", "COMMAND"),
    ):
        one = commands.add_parser(name, help=text)
        _add_shape(one)
        one.add_argument(
            "--timeout",
            type=float,
            default=900,
            metavar="S",
            help="stop it after that (default 900)",
        )
        if name == "mpirun":
            one.add_argument("--build", metavar="DIR", help="build directory (default ./build)")
        one.add_argument("words", nargs=argparse.REMAINDER, metavar=f"-- {words}")
        one.set_defaults(call=call)
    one = commands.add_parser("fetch", help="download QEMU and the kernels into the cache")
    one.set_defaults(call=_fetch)
    return parser


def main(argv=None):
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(argv)
    interrupts.install()
    try:
        return options.call(options)
    except LabError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
    except interrupts.Interrupted as interrupted:
        print(f"vm: {interrupted}", file=sys.stderr)
        return 128 + interrupted.number
