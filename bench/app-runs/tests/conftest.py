# SPDX-License-Identifier: BSD-3-Clause
"""Makes the driver's package and the library importable; reads sample outputs."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LIB = TESTS.parents[1] / "lib"
BESIDE = [TESTS.parent, LIB, LIB / "tests", TESTS.parents[2] / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]


@pytest.fixture(name="sample_output")
def fixture_sample_output():
    """Reads a file of tests/outputs."""
    return lambda name: (TESTS / "outputs" / name).read_text(encoding="utf-8")
