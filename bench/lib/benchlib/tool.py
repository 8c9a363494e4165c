# SPDX-License-Identifier: BSD-3-Clause
"""The command line, the end and the output of the small benchmarks, which are no comparisons."""

import argparse
import sys
from pathlib import Path

from rawelab import LabError, interrupts
from rawelab.spec import NIC_KINDS

from .error import BenchError
from .options import count
from .prepare import SOURCE
from .summary import write_csv
from .text import aligned


def parser(name, description, rounds=None, nic=None):
    """The options that all have; --rounds, --quick and --nic where there is a default for them."""
    made = argparse.ArgumentParser(
        prog=f"bench/{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    if rounds:
        add("--rounds", type=count, help=f"medians are taken of (default {rounds})")
        add("--quick", action="store_true", help="one short round, only to try it")
    if nic:
        add("--nic", choices=NIC_KINDS, default=nic, help=f"as of compare (default {nic})")
    add("--build", type=Path, default=SOURCE / "build", metavar="DIR", help="default ./build")
    file = f"{name.partition('/')[0]}.csv"
    add("--output", type=Path, metavar="DIR", help=f"write {file} there")
    made.set_defaults(file=file, usual_rounds=rounds)
    return made


def run(made, measure, argv=None, finish=lambda options: None):
    """Parse, measure, print and write a table; returns the exit status.

    `measure(options)` gives the lines of the table, the first one its heads, and text below it or
    None.
    """
    options = made.parse_args(argv)
    options.build = options.build.resolve()
    if options.usual_rounds:
        options.rounds = options.rounds or (1 if options.quick else options.usual_rounds)
    finish(options)
    interrupts.install()
    try:
        lines, words = measure(options)
    except (BenchError, LabError) as error:
        print(f"{made.prog}: {error}", file=sys.stderr)
        return 2
    except interrupts.Interrupted as stop:
        return 128 + stop.number
    print(aligned(lines))
    if words:
        print(words)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        write_csv(
            options.output / options.file, [*lines, *([["bound", words, ""]] if words else [])]
        )
    return 0
