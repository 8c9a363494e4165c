# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what imports what: the library knows no driver, and no driver knows another."""

import ast
from pathlib import Path

import drivers
import pytest

BENCH = Path(__file__).resolve().parents[2]
DRIVERS = {
    "imbruns": "imb-runs/imbruns",
    "nasruns": "nas-runs/nasruns",
    "appruns": "app-runs/appruns",
    "overlap_driver": "overlap",
    "thread_driver": "thread-rate",
    "window_driver": "window-rate",
}


def imported(folder):
    """Packages that the files of a folder import, without relative imports."""
    found = set()
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(node.module.partition(".")[0])
    return found


def test_library__imports_no_driver():
    assert not imported(BENCH / "lib" / "benchlib") & set(DRIVERS)


@pytest.mark.parametrize("name", drivers.DRIVERS)
def test_driver_of__is_named_after_its_folder(name):
    assert drivers.driver_of(name).name == name


@pytest.mark.parametrize("name", DRIVERS)
def test_driver__imports_the_library_and_no_other_driver(name):
    found = imported(BENCH / DRIVERS[name])
    assert "benchlib" in found
    assert not found & (set(DRIVERS) - {name})


def test_library__has_no_circle():
    names = {file.stem for file in (BENCH / "lib" / "benchlib").glob("*.py")}
    arrows = {}
    for name in names:
        tree = ast.parse((BENCH / "lib" / "benchlib" / f"{name}.py").read_text(encoding="utf-8"))
        arrows[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                found = {node.module} if node.module else {one.name for one in node.names}
                arrows[name] |= found & names
    while arrows:
        lowest = {name for name, below in arrows.items() if not below & set(arrows)}
        assert lowest, f"a circle among {sorted(arrows)}"
        arrows = {name: below for name, below in arrows.items() if name not in lowest}
