# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what the drivers share: rounds, facts, folders, compiling."""

import os
import shutil
from dataclasses import dataclass

import pytest

from benchlib import compile as compiler
from benchlib import facts, rounds
from benchlib.folder import Folder, FolderError
from imbruns.prepare import PrepareError


@dataclass(frozen=True)
class Case:
    """A case with what facts and rounds look at."""

    name: str
    hosts: int
    ranks: int = 2


@dataclass
class Run:
    done: tuple


def test_order__every_second_round_is_turned_round():
    assert [rounds.order(("tcp", "rawe"), n) for n in (1, 2, 3)] == [
        ("tcp", "rawe"),
        ("rawe", "tcp"),
        ("tcp", "rawe"),
    ]


def test_missing__is_what_no_run_has_done():
    case, other = Case("a", 2), Case("b", 2)
    runs = [Run((case, "tcp", 1)), Run((case, "rawe", 2)), Run((other, "rawe", 1))]
    assert rounds.missing(case, ["tcp", "rawe"], 2, runs) == [("rawe", 1), ("tcp", 2)]


def test_transport_arguments__ranks_of_one_host_share_memory():
    assert "tcp,self" in rounds.transport_arguments("tcp", None, False)
    assert "tcp,vader,self" in rounds.transport_arguments("tcp", None, True)
    assert "vader,self" in rounds.transport_arguments("vader", None, True)


def test_merge__facts_that_differ_name_their_hosts():
    two, four = Case("a", 2), Case("a", 4)
    merged = facts.merge(
        [
            (two, [("Hosts", "2 virtual"), ("Wiring", "direct"), ("MTU", "1500 bytes")]),
            (four, [("Hosts", "4 virtual"), ("Wiring", "bridge"), ("MTU", "1500 bytes")]),
        ]
    )
    assert merged == [("Wiring", "direct (2 hosts); bridge (4 hosts)"), ("MTU", "1500 bytes")]


def test_about__more_ranks_than_cores_are_told():
    setup = {"started": "now", "rounds": 2, "hostfile": None}
    cores = len(os.sched_getaffinity(0))
    names = [name for name, _ in facts.about(setup, [Case("a", 2, cores)], "x")]
    assert "Mind" not in names
    names = [name for name, _ in facts.about(setup, [Case("a", 2, cores + 1)], "x")]
    assert "Mind" in names


def test_folder__gives_back_its_setup_and_is_not_overwritten(tmp_path):
    folder = Folder(tmp_path / "a")
    folder.begin({"peers": ["tcp"]})
    assert Folder(tmp_path / "a").setup() == {"peers": ["tcp"]}
    with pytest.raises(FolderError, match="another comparison"):
        folder.begin({})
    with pytest.raises(FolderError, match="no comparison"):
        Folder(tmp_path).setup()


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="mpicc is not installed")
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


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="mpicc is not installed")
def test_compile_mpi__an_error_shows_what_the_compiler_said(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return undeclared; }\n")
    with pytest.raises(PrepareError, match="undeclared"):
        compiler.compile_mpi(tmp_path / "a", [source])
    assert [path.name for path in tmp_path.iterdir()] == ["a.c"]
