# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for the tests of several folders."""

import re

import pytest


@pytest.fixture
def sample_output(request):
    """Return a function that reads an output, by name, from outputs.txt beside the test."""
    text = (request.path.parent / "outputs.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2])).__getitem__
