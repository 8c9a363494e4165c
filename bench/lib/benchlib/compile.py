# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the MPI programs that the drivers bring along."""

import os
import shutil
import subprocess

from .error import BenchError

FLAGS = ("-O3", "-std=c11")


def _newest(paths):
    return max(path.stat().st_mtime for path in paths)


def compile_mpi(target, sources, headers=(), extra=(), libraries=()):
    """Make `target` of the C files `sources` with mpicc, unless it is newer than all of them."""
    if target.exists() and target.stat().st_mtime >= _newest([*sources, *headers]):
        return target
    if shutil.which("mpicc") is None:
        raise BenchError("mpicc is not on PATH; install Debian's libopenmpi-dev")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")  # no other run may find half a program
    words = ["mpicc", *FLAGS, *extra, "-o", str(fresh), *map(str, sources), *libraries]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"cannot build {target.name}: {' '.join(words)}\n{done.stderr.strip()}")
    fresh.replace(target)
    return target
