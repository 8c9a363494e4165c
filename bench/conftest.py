# SPDX-License-Identifier: BSD-3-Clause
"""The modules that tests import, and a fixture for several folders."""

import re
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent
FOLDERS = ("lib", "lib/tests", "app-runs", "imb-runs", "nas-runs", "../test/lab")
sys.path[:0] = [str(BENCH / folder) for folder in FOLDERS]


@pytest.fixture
def sample_output(request):
    """Return a function that reads an output, by name, from outputs.txt beside the test."""
    text = (request.path.parent / "outputs.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2])).__getitem__
