# SPDX-License-Identifier: BSD-3-Clause
"""Makes the driver's package, and those it borrows from, importable; hands out sample outputs."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BENCH = HERE.parents[1]
BESIDE = [BENCH / "app-runs", BENCH / "lib", BENCH / "imb-runs", BENCH.parent / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]


@pytest.fixture
def sample():
    """The text of a sample output by its file's name."""
    return lambda name: (HERE / "outputs" / name).read_text(encoding="utf-8")
