# SPDX-License-Identifier: BSD-3-Clause
"""The command line's options."""

import argparse

from benchlib import options as common

from . import plan

EPILOG = """Without --apps: all of them, on one rank a host, one to four hosts.
Without --hostfile: virtual hosts on this machine (as root). With it, the results' folder
(--output) has to be visible under the same path on every host: applications work there.
NetPIPE runs on 2 ranks, HPCC on 2 and more, bitonic on powers of two, Cannon on squares; other
combinations are left out.

examples:
  compare --quick
  compare --apps lammps,abinit --np 4 --mtu 9000
  compare --apps hpcc --np 16 --hostfile hosts --interface eth1 --output /home/me/results

Exit status: 0 all runs passed their checks, 1 some did not or a transport is missing, 2 nothing
could be measured, 130 interrupted; what was measured until then is reported all the same."""


def parser():
    """The argument parser."""
    made = argparse.ArgumentParser(
        prog="compare",
        description="Measure applications over raw Ethernet frames (rawe) against TCP.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--quick", action="store_true", help="small problems, 2 rounds; 3 minutes")
    names = tuple(plan.APPS)
    made.add_argument(
        "--apps",
        type=common.list_of(names, "application"),
        default=list(names),
        metavar="A,B",
        help=f"of {', '.join(names)}",
    )
    common.add_common(made)
    return made


def parse(argv):
    """Options with every default filled in and contradictions refused."""
    made = parser()
    options = made.parse_args(argv)
    common.finish(made, options)
    return options


def setup(options, started):
    """Everything that --resume must find again, in a form that JSON can hold."""
    size = "quick" if options.quick else "full"
    virtual = options.hostfile is None
    wanted, left_out = plan.make(options.apps, size, options.np, options.hosts, virtual)
    return {
        **common.setup(options, started),
        "cases": [[one.app, one.size, one.ranks, one.hosts] for one in wanted],
        "left_out": left_out,
        "arguments": options.arguments,
    }
