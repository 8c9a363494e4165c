# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the kernels themselves, on this machine alone."""

import shutil

import pytest
from local_mpi import needs_mpi, run_local

from appruns import kernels
from appruns.driver import PROGRAMS
from benchlib.program import Case


@pytest.fixture(scope="module", name="build")
def _build(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def result_of(app, done, ranks):
    """The Result of a run of a kernel."""
    return PROGRAMS[app].read(done.stdout, {}, Case(app, "quick", ranks, 1))


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [1, 2, 1000])
def test_bitonic__sorts_whatever_the_number_of_ranks_and_keys(build, ranks, keys):
    done = run_local(PROGRAMS["bitonic"].find(build, None), [keys, 3], ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result_of("bitonic", done, ranks).failed_checks == ""


@needs_mpi
@pytest.mark.parametrize(("ranks", "rows"), [(1, 7), (4, 2), (4, 62), (9, 63), (16, 64)])
def test_cannon__multiplies_whatever_the_grid(build, ranks, rows):
    done = run_local(PROGRAMS["cannon"].find(build, None), [rows, 2], ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result_of("cannon", done, ranks).failed_checks == ""


# One thing broken in each source: the check has to see it.
BROKEN = [
    ("bitonic", "bool ascending = (kernel_rank & stage) == 0;", "bool ascending = true;", 4),
    ("bitonic", "? mine[i++] : theirs[j++]", "? mine[i++] : mine[i++]", 2),
    ("bitonic", "? mine[i--] : theirs[j--]", "? mine[i--] : theirs[j]", 2),
    ("cannon", "shift(a, 1, place[0]);", "shift(a, 1, 0);", 9),
    ("cannon", "shift(b, 0, 1);", "shift(b, 0, 2);", 9),
    ("cannon", "factor * b[k * block + j]", "factor * b[j * block + k]", 1),
]


@needs_mpi
@pytest.mark.parametrize(("app", "right", "wrong", "ranks"), BROKEN)
def test_kernels__a_broken_algorithm_is_unsuccessful(
    tmp_path, monkeypatch, app, right, wrong, ranks
):
    sources = tmp_path / "kernels"
    shutil.copytree(kernels.SOURCES, sources)
    source = sources / PROGRAMS[app].source
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    monkeypatch.setattr(kernels, "SOURCES", sources)
    done = run_local(PROGRAMS[app].find(tmp_path / "bin", None), [36, 1], ranks)
    assert "UNSUCCESSFUL" in done.stdout
    assert done.returncode == 1
