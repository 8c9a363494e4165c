# SPDX-License-Identifier: BSD-3-Clause
"""Programs of the build for the small benchmarks: builds them, runs them, reads their output."""

import subprocess
from pathlib import Path

from .error import BenchError

TIMEOUT_SECONDS = 600


def program(build, name):
    """Path of a benchmark program below bench/, built if it is missing."""
    build = Path(build)
    if not (build / "Makefile").exists():
        raise BenchError(
            f"{build} is no build directory; configure one as doc/install.md says, or name yours "
            "with --build"
        )
    done = subprocess.run(
        ["make", "-s", "-C", str(build), "all"], capture_output=True, text=True, check=False
    )
    path = build / "bench" / name
    if done.returncode != 0 or not path.exists():
        raise BenchError(f"make failed in {build}:\n{(done.stdout + done.stderr)[-2000:]}")
    return path


def run(argv):
    """Standard output of a command; BenchError with the end of its output when it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise BenchError(f"{words[0]} is not there; test/install-deps bench installs it") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"no end within {TIMEOUT_SECONDS} s: {' '.join(words)}") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-1000:]
        raise BenchError(f"status {done.returncode} of: {' '.join(words)}\n{output}")
    return done.stdout


def fields(text, start):
    """The name=value pairs of each line that begins with `start`, as dictionaries."""
    return [
        dict(word.split("=", 1) for word in line.split() if "=" in word)
        for line in text.splitlines()
        if line.startswith(start)
    ]
