# SPDX-License-Identifier: BSD-3-Clause
"""The programs to run: NPB's own binaries where NPB_BIN names them, otherwise the project's own."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .error import NasError

SOURCES = Path(__file__).resolve().parent.parent / "src"
FLAGS = ("-O3", "-std=c11")
OWN = {"LU": "rawe-lu", "SP": "rawe-sp"}
PRELOAD = "libmpi_share.so"


@dataclass(frozen=True)
class Program:
    """A command line and how to start it."""

    words: tuple  # program and its arguments
    preload: Path = None  # library that adds the MPI share to NPB's output
    origin: str = "own"  # own or NPB


def _newest(paths):
    return max(path.stat().st_mtime for path in paths)


def _compile(target, sources, extra, libraries):
    inputs = [*sources, *SOURCES.glob("*.h")]
    if target.exists() and target.stat().st_mtime >= _newest(inputs):
        return target
    if shutil.which("mpicc") is None:
        raise NasError("mpicc is not on PATH; install Debian's libopenmpi-dev")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")  # so that no other run finds half a program
    words = ["mpicc", *FLAGS, *extra, "-o", str(fresh), *map(str, sources), *libraries]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NasError(f"cannot build {target.name}: {' '.join(words)}\n{done.stderr.strip()}")
    fresh.replace(target)
    return target


def build_own(benchmark, directory):
    """The project's own LU or SP, compiled into `directory` unless it is up to date there."""
    common = sorted(SOURCES.glob("nas_*.c"))
    parts = sorted(SOURCES.glob(f"{benchmark.lower()}*.c"))
    flags = f'-DNAS_COMPILE_FLAGS="mpicc {" ".join(FLAGS)}"'
    return _compile(Path(directory) / OWN[benchmark], [*parts, *common], [flags], ["-lm"])


def build_preload(directory):
    """The library that measures NPB's share of time in MPI."""
    sources = [SOURCES / "mpi_share_preload.c"]
    return _compile(Path(directory) / PRELOAD, sources, ["-shared", "-fPIC"], ["-ldl"])


def find_npb(directory, benchmark, problem, ranks):
    """NPB's binary in `directory`: lu.A.x (3.4), or lu.A.4, built for that number of ranks."""
    names = [f"{benchmark.lower()}.{problem}.{suffix}" for suffix in ("x", ranks)]
    for name in names:
        path = Path(directory) / name
        if path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
    raise NasError(
        f"NPB_BIN={directory} has neither {names[0]} nor {names[1]}; build it there "
        f"(`make {benchmark} CLASS={problem}` in NPB's MPI directory), choose another class or "
        "number of ranks, or unset NPB_BIN to run the project's own program"
    )


def choose(case, directory, environment=None):
    """The Program for a case; builds what is missing in `directory`."""
    npb = (os.environ if environment is None else environment).get("NPB_BIN")
    if npb:
        binary = find_npb(npb, case.benchmark, case.problem, case.ranks)
        return Program((str(binary),), build_preload(directory).resolve(), "NPB")
    return Program((str(build_own(case.benchmark, directory).resolve()), case.problem))
