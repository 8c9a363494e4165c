# SPDX-License-Identifier: BSD-3-Clause
"""Tests of bench/instructions and bench/memory on made-up outputs, and of built.py and text.py."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from benchlib import built, text
from benchlib.error import BenchError

BENCH = Path(__file__).resolve().parents[2]
MEMORY = """core memory peers=4 window_frames=512 frames_limit=1000 in_flight=10 bytes=64
core memory state=endpoint heap_bytes=100
core memory state=opened heap_bytes=400 resident_bytes=500
core memory state=connected heap_bytes=4400
core memory state=active heap_bytes=14400
"""


def script(name):
    """One of the commands in bench/ as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_instructions__reads_the_total_of_callgrind():
    assert script("instructions").instructions("events: Ir\nsummary: 3391424\n") == 3391424


@pytest.mark.parametrize("listing", ["events: Ir\n", "summary: 0\n"])
def test_instructions__nothing_counted_is_an_error(listing):
    with pytest.raises(BenchError, match="inlined"):
        script("instructions").instructions(listing)


def test_memory__adds_the_endpoint_and_names_the_bound():
    lines, bound = script("memory").table(MEMORY)
    assert [line[1] for line in lines[1:]] == ["100", "500", "4500", "14500"]
    assert lines[2][2] == "600" and lines[-1][0] == "and 10 messages of 64 B in flight"
    # 4500 idle, and 512 frames of 1000 bytes each
    assert "512 frames of 1000 bytes: 504 KiB" in bound and "1000 frames" in bound


def test_run__names_what_failed_and_what_is_missing():
    assert built.run([sys.executable, "-c", "print(5)"]) == "5\n"
    with pytest.raises(BenchError, match="status 3 of: .*\nno luck"):
        built.run([sys.executable, "-c", "import sys; print('no luck'); sys.exit(3)"])
    with pytest.raises(BenchError, match="install-deps"):
        built.run(["no-such-program-anywhere"])


def test_program__without_a_build_says_so(tmp_path):
    with pytest.raises(BenchError, match="--build"):
        built.program(tmp_path, "core/core-memory")


def test_fields__only_of_the_lines_asked_for():
    assert built.fields("a b=1 c=2\nd b=3\na x\n", "a ") == [{"b": "1", "c": "2"}, {}]


def test_aligned__words_left_numbers_right():
    assert text.aligned([["size", "tcp"], ["1 B", "4.00"]]) == "size   tcp\n1 B   4.00"
