# SPDX-License-Identifier: BSD-3-Clause
"""Finds the build directory and the lab's programs in it."""

from pathlib import Path

from . import launch
from .command import LabError

VERIFY = "test/lab/verify/rawe-verify"


def find_build(build=None):
    """Return the given build directory, ./build, or that of this source tree."""
    if build is None:
        build = launch.find_build() or Path(__file__).resolve().parents[3] / "build"
    launch.component_path(build)
    return Path(build).resolve()


def program(build, path):
    """Return the path of a program in the build directory."""
    full = Path(build).resolve() / path
    if not full.exists():
        raise LabError(f"{full} is missing: build first (`make`)")
    return full
