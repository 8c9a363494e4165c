# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.tree: which files are checked, and of which kind they are."""

import subprocess

from rawelint import tree


def make(root, *paths):
    """Empty files."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_files__tarball_without_what_is_generated(tmp_path):
    make(tmp_path, "a.c", "opal/b.h", "test/run")
    make(tmp_path, "build/c.c", "build-x/d.c", "configure", "config/aux/ltmain.sh", "Makefile.in")
    make(tmp_path, "test/__pycache__/e.py", "bench/imb-runs/results/x/report.md", "config/f.m4")
    assert tree.files(tmp_path) == ["a.c", "config/f.m4", "opal/b.h", "test/run"]


def test_files__clone_with_new_files_but_without_ignored_ones(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    make(tmp_path, "a.c", "gone.c", "new.c", "ignored.o")
    (tmp_path / ".gitignore").write_text("*.o\n")
    subprocess.run(["git", "add", "a.c", "gone.c", ".gitignore"], cwd=tmp_path, check=True)
    (tmp_path / "gone.c").unlink()
    assert tree.files(tmp_path) == [".gitignore", "a.c", "new.c"]


def test_files__below_a_prefix(tmp_path):
    make(tmp_path, "a.c", "test/b.c", "tests/c.c")
    assert tree.files(tmp_path, ["test/"]) == ["test/b.c"]
