# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for the tests of several folders."""

import pytest


@pytest.fixture
def sample_output(request):
    """Reads a file of the folder outputs beside the test."""
    return lambda name: (request.path.parent / "outputs" / name).read_text(encoding="utf-8")
