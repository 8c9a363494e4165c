# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of the small benchmarks: command line, build, table, CSV file."""

import argparse
import subprocess
import sys
from pathlib import Path

from rawelab import LabError, interrupts
from rawelab.spec import NIC_KINDS

from . import BenchError, prepare
from .cli import count
from .page import aligned
from .summary import write_csv


def parser(name, description, rounds=None, nic=None):
    """Return a parser of the common options; --rounds, --quick and --nic if they have a default."""
    made = argparse.ArgumentParser(
        prog=f"bench/{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    if rounds:
        add("--rounds", type=count, help=f"rounds of which medians are taken (default {rounds})")
        add("--quick", action="store_true", help="one short round, only to try it")
    if nic:
        add("--nic", choices=NIC_KINDS, default=nic, help=f"as in compare (default {nic})")
    build = prepare.SOURCE / "build"
    add("--build", type=Path, default=build, metavar="DIR", help="default ./build")
    file = f"{name.partition('/')[0]}.csv"
    add("--output", type=Path, metavar="DIR", help=f"write {file} there")
    made.set_defaults(file=file, usual_rounds=rounds)
    return made


def output_of(argv, timeout_seconds=600):
    """Return the standard output of a command; if it fails, raise BenchError with the end of it."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except FileNotFoundError as error:
        raise BenchError(f"{words[0]} is not there; test/install-deps bench installs it") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"no end within {timeout_seconds} s: {' '.join(words)}") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-1000:]
        raise BenchError(f"status {done.returncode} of: {' '.join(words)}\n{output}")
    return done.stdout


def fields(text, start):
    """Return the name=value pairs of each line that begins with `start`, as dictionaries."""
    return [
        dict(word.split("=", 1) for word in line.split() if "=" in word)
        for line in text.splitlines()
        if line.startswith(start)
    ]


def main(made, measure, argv=None, finish=lambda options: None):
    """Parse, build, measure, print and write a table. Returns the exit status.

    `finish(options)` fills in defaults. `measure(options)` returns the lines of the table, heads
    first, and the text below it or None.
    """
    options = made.parse_args(argv)
    options.build = options.build.resolve()
    if options.usual_rounds:
        options.rounds = options.rounds or (1 if options.quick else options.usual_rounds)
    finish(options)
    interrupts.install()
    try:
        prepare.build(options.build, print)
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
        below = [["bound", words, ""]] if words else []
        write_csv(options.output / options.file, [*lines, *below])
    return 0
