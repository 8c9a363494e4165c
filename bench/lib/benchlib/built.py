# SPDX-License-Identifier: BSD-3-Clause
"""Programs of the build for the small benchmarks: builds them, runs them, reads what they print."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
TIMEOUT_SECONDS = 600


class ToolError(Exception):
    """Something a person can act on: the text says what happened and what to do."""


def program(build, name):
    """Path of a benchmark program below bench/, made if need be."""
    build = Path(build)
    if not (build / "Makefile").exists():
        raise ToolError(
            f"{build} is no build directory; configure one as the README says, or name yours "
            "with --build"
        )
    done = subprocess.run(
        ["make", "-s", "-C", str(build), "all"], capture_output=True, text=True, check=False
    )
    path = build / "bench" / name
    if done.returncode != 0 or not path.exists():
        raise ToolError(f"make failed in {build}:\n{(done.stdout + done.stderr)[-2000:]}")
    return path


def run(argv):
    """Standard output of a command; ToolError, with the end of what it said, when it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise ToolError(f"{words[0]} is not there; test/install-deps bench installs it") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"no end within {TIMEOUT_SECONDS} s: {' '.join(words)}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-1000:]
        raise ToolError(f"status {done.returncode} of: {' '.join(words)}\n{said}")
    return done.stdout


def fields(text, start):
    """The name=value pairs of each line that begins with `start`, as dictionaries."""
    return [
        dict(word.split("=", 1) for word in line.split() if "=" in word)
        for line in text.splitlines()
        if line.startswith(start)
    ]
