# SPDX-License-Identifier: BSD-3-Clause
"""The command line's options: their parsing and their defaults."""

import argparse
import os

from benchlib import options as common

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
    programs = common.list_of(("LU", "SP"), "benchmark")
    add("--bench", type=programs, metavar="A,B", help="default lu,sp")
    classes = common.list_of(tuple(plan.CLASSES), "class")
    add("--class", dest="problems", type=classes, metavar="A,B", help="of S, W, A, B (default W)")
    common.add_common(made)
    return made


def parse(argv):
    """Options with every default filled in and contradictions refused."""
    made = parser()
    options = made.parse_args(argv)
    common.finish(made, options)
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
        "programs": programs_wanted(),
        **common.setup(options, started),
    }


def programs_wanted():
    """Whether NPB's own binaries are to run, or the project's."""
    return "NPB" if os.environ.get("NPB_BIN") else "own"
