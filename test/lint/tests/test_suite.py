# SPDX-License-Identifier: BSD-3-Clause
"""Tests of test/run with an existing build directory."""

from pathlib import Path

import pytest
import suite


@pytest.fixture
def called(monkeypatch):
    """The commands that were called; none is run, all succeed."""
    commands = []

    def call(argv, **_options):
        commands.append([Path(argv[0]).name, *map(str, argv[1:])])
        return 0

    monkeypatch.setattr(suite, "call", call)
    return commands


def configured(directory, without):
    """A build directory, configured with cmocka or without."""
    (directory / "Makefile").touch()
    mark = "#" if without else ""
    (directory / "config.status").write_text(f'S["RAWE_BUILD_UNIT_TESTS_TRUE"]="{mark}"\n')


def test_a_new_directory_is_configured(called, tmp_path):
    assert suite.configure(tmp_path / "new", "--disable-x")
    assert called == [["configure", "--quiet", "--disable-x"]]


def test_a_configured_one_is_taken_as_it_is(called, tmp_path):
    configured(tmp_path, without=False)
    assert suite.configure(tmp_path)
    assert not called


def test_one_that_was_configured_before_cmocka_came_looks_again(called, tmp_path):
    configured(tmp_path, without=True)
    assert suite.configure(tmp_path)
    assert called == [["config.status", "--quiet", "--recheck"], ["config.status", "--quiet"]]
