# SPDX-License-Identifier: BSD-3-Clause
"""Tests of compile.py: MPI programs are compiled when they are older than their sources."""

import os
import shutil

import pytest

from benchlib import compile as compiler
from benchlib.error import BenchError

pytestmark = pytest.mark.skipif(shutil.which("mpicc") is None, reason="mpicc is not installed")


def test_compile_mpi__only_what_is_older_than_its_sources(tmp_path):
    source, header, target = tmp_path / "a.c", tmp_path / "a.h", tmp_path / "bin" / "a"
    source.write_text('#include "a.h"\nint main(void) { return VALUE; }\n')
    header.write_text("#define VALUE 0\n")
    compiler.compile_mpi(target, [source], [header])
    first = target.stat().st_mtime_ns
    compiler.compile_mpi(target, [source], [header])
    assert target.stat().st_mtime_ns == first
    os.utime(header, (first / 1e9 + 5, first / 1e9 + 5))
    compiler.compile_mpi(target, [source], [header])
    assert target.stat().st_mtime_ns != first


def test_compile_mpi__an_error_shows_the_compilers_output(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return undeclared; }\n")
    with pytest.raises(BenchError, match="undeclared"):
        compiler.compile_mpi(tmp_path / "a", [source])
    assert [path.name for path in tmp_path.iterdir()] == ["a.c"]
