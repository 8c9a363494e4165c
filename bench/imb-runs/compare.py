#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares MPI over raw Ethernet frames (rawe) with TCP and others: one command, one report."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
BESIDE = [HERE, HERE.parent / "lib", HERE.parents[1] / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]

from benchlib.cli import main  # noqa: E402 (the path comes first)
from imbruns.driver import ImbDriver  # noqa: E402

sys.exit(main(ImbDriver(), sys.argv[1:]))
