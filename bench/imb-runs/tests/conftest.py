# SPDX-License-Identifier: BSD-3-Clause
"""Makes the package importable and reads sample outputs."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
BESIDE = [TESTS.parent, TESTS.parents[1] / "lib", TESTS.parents[2] / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]


@pytest.fixture(name="sample_output")
def fixture_sample_output():
    """Reads a file of tests/outputs."""
    return lambda name: (TESTS / "outputs" / name).read_text(encoding="utf-8")
