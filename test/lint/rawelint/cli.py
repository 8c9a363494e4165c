# SPDX-License-Identifier: BSD-3-Clause
"""The command line of test/lint/lint."""

import argparse
import sys
import time

from . import layers, tables, tools, words, writers

# name -> (function of path prefixes that gives lines of text, what to do about them)
CHECKS = {
    "clang-format": (tools.clang_format, "clang-format -i FILE writes it as .clang-format has it"),
    "cppcheck": (
        tools.cppcheck,
        "mend it; where cppcheck is wrong: // cppcheck-suppress ID and why, on the line above",
    ),
    "shellcheck": (
        tools.shellcheck,
        "mend it; where it is meant: # shellcheck disable=SCxxxx and why, on the line above",
    ),
    "codespell": (
        tools.codespell,
        "mend it; a word that is right goes into test/lint/codespell.txt",
    ),
    "ruff": (
        tools.ruff,
        "build/lint/ruff/bin/ruff check --fix (or format) --config test/lint/ruff.toml FILE",
    ),
    "layers": (
        lambda prefixes: layers.check(),
        "move what is needed down, or hand it a function pointer; the rules are in "
        "test/lint/layers.toml",
    ),
    "writers": (
        lambda prefixes: writers.check() + writers.check_glue(),
        "call a function of the module that writes the field; the struct names it",
    ),
    "words": (
        lambda prefixes: words.check(prefixes=prefixes),
        "use the word that is named; test/lint/words.toml has the list",
    ),
    "tables": (
        lambda prefixes: tables.check(),
        "test/lint/lint --write renews doc/parameters.md and doc/counters.md",
    ),
    "results": (
        lambda prefixes: tools.results(),
        "bench/results-page writes doc/results.md and the README's figures",
    ),
}


def run(name, prefixes, most):
    """Run one check and print its problems. Returns true if there are none."""
    check, remedy = CHECKS[name]
    start = time.monotonic()
    try:
        problems = check(prefixes)
    except tools.ToolMissing as error:
        problems, remedy = [str(error)], "see above"
    shown = problems[:most] if most else problems
    for problem in shown:
        print(problem)
    if len(shown) < len(problems):
        print(f"... and {len(problems) - len(shown)} more: test/lint/lint {name}")
    verdict = f"{len(problems)} problems. What to do: {remedy}" if problems else "nothing found"
    print(f"lint: {name}: {verdict} ({time.monotonic() - start:.1f} s)", flush=True)
    return not problems


def main():
    """Run the checks. Returns the exit status: 1 if there are problems."""
    parser = argparse.ArgumentParser(
        prog="test/lint/lint",
        description="Checks the source tree without building it. Without arguments: all checks.",
        epilog=f"Checks: {', '.join(CHECKS)}. test/lint/README.md says what each is for.",
    )
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PREFIX",
        help="only files whose path begins with PREFIX (not for layers, tables, results)",
    )  # fmt: skip
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="show the first N problems of each check"
    )
    parser.add_argument(
        "--write", action="store_true", help="renew the tables of parameters and counters in doc/"
    )
    options = parser.parse_args()
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        parser.error(f"there is no check {unknown[0]}; choose from {', '.join(CHECKS)}")
    if options.write:
        try:
            tables.write()
        except tables.TablesError as error:
            print(f"test/lint/lint: {error}", file=sys.stderr)
            return 1
        return 0
    results = [run(name, options.only, options.most) for name in options.checks or CHECKS]
    return 0 if all(results) else 1
