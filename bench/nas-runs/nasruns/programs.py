# SPDX-License-Identifier: BSD-3-Clause
"""The programs to run: NPB's own binaries where NPB_BIN names them, otherwise the project's own."""

import os
from dataclasses import dataclass
from pathlib import Path

from benchlib.compile import FLAGS, compile_mpi

from .error import NasError

SOURCES = Path(__file__).resolve().parent.parent / "src"
OWN = {"LU": "rawe-lu", "SP": "rawe-sp"}
PRELOAD = "libmpi_share.so"


@dataclass(frozen=True)
class Program:
    """A command line and how to start it."""

    words: tuple  # program and its arguments
    preload: Path = None  # library that adds the MPI share to NPB's output
    origin: str = "own"  # own or NPB


def build_own(benchmark, directory):
    """The project's own LU or SP, compiled into `directory` unless it is up to date there."""
    common = sorted(SOURCES.glob("nas_*.c"))
    parts = sorted(SOURCES.glob(f"{benchmark.lower()}*.c"))
    flags = f'-DNAS_COMPILE_FLAGS="mpicc {" ".join(FLAGS)}"'
    target, headers = Path(directory) / OWN[benchmark], sorted(SOURCES.glob("*.h"))
    return compile_mpi(target, [*parts, *common], headers, [flags], ["-lm"])


def build_preload(directory):
    """The library that measures NPB's share of time in MPI."""
    sources = [SOURCES / "mpi_share_preload.c"]
    return compile_mpi(Path(directory) / PRELOAD, sources, (), ["-shared", "-fPIC"], ["-ldl"])


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
