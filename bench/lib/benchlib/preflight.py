# SPDX-License-Identifier: BSD-3-Clause
"""Checks all hosts of a hostfile before anything is measured."""

from .error import BenchError

SECONDS = 60  # ssh gives up on a silent address after a minute or two
LINES = 8  # of mpirun's output; the first ones name the cause
MARK = "rawe-preflight:"
# Arguments: the network interface, or nothing; then the files that every host must see.
SCRIPT = f"""
say() {{ echo "{MARK} $(hostname): $*"; }}
if [ -n "$1" ] && [ ! -e "/sys/class/net/$1" ] && ! ip link show dev "$1" >/dev/null 2>&1; then
  say "there is no network interface $1; it has" /sys/class/net/*
fi
shift
for file; do [ -r "$file" ] || say "$file is not there"; done
"""


def _first_lines(outcome):
    text = f"{outcome.errors}\n{outcome.output}"
    lines = [line for line in text.splitlines() if line.strip("- \t") and MARK not in line]
    return "".join(f"\n  | {line}" for line in lines[:LINES])


def check(place, interface, files):
    """Raises BenchError when mpirun cannot reach a host, or one lacks something."""
    arguments = ["sh", "-c", SCRIPT, "preflight", interface or "", *map(str, files)]
    outcome = place.run(arguments, SECONDS)
    if outcome.status != 0:
        ended = f"had not ended after {SECONDS} s" if outcome.timed_out else "failed"
        raise BenchError(
            f"not all hosts of the hostfile run programs: mpirun {ended}{_first_lines(outcome)}\n"
            f"try: {place.command(['hostname'])}"
        )
    lacks = {line.partition(MARK)[2] for line in outcome.output.splitlines() if MARK in line}
    if lacks:
        text = "".join(f"\n {line.replace('/sys/class/net/', '')}" for line in sorted(lacks))
        raise BenchError(
            f"hosts of the hostfile lack something:{text}\n"
            "--interface names one that all hosts have; files are found when rawe is installed "
            "on each host (make install), or built in a directory that they share"
        )
