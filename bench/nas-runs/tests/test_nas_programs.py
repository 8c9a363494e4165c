# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the programs themselves, on this machine alone, and of how the driver finds them."""

import os
import shutil
import subprocess

import pytest

from nasruns import plan, programs, result
from nasruns.error import NasError

needs_mpi = pytest.mark.skipif(
    shutil.which("mpicc") is None or shutil.which("mpirun") is None,
    reason="Open MPI is not installed",
)


@pytest.fixture(scope="module", name="build")
def _build(tmp_path_factory):
    return tmp_path_factory.mktemp("nas")


def run_local(program, arguments, ranks):
    """Run a program over shared memory; the CompletedProcess."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_btl": "vader,self",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }
    words = ["mpirun", "--oversubscribe", "-np", str(ranks), str(program), *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "ranks"),
    [("LU", 1), ("LU", 2), ("LU", 4), ("LU", 8), ("SP", 1), ("SP", 4), ("SP", 9)],
)
def test_own__class_s_has_the_published_norms(build, benchmark, ranks):
    done = run_local(programs.build_own(benchmark, build), ["S"], ranks)
    run = result.parse(done.stdout)
    assert run.verified, done.stdout
    assert done.returncode == 0
    assert (run.benchmark, run.processes) == (benchmark, ranks)


# What NPB 3.3's own programs send between the start and the end of their clock.
@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "ranks", "messages", "sent"),
    [("LU", 2, 1100, 1552000), ("LU", 4, 4400, 3104000), ("SP", 4, 4800, 14592000)],
)
def test_own__messages_are_as_many_and_as_large_as_npbs(build, benchmark, ranks, messages, sent):
    run = result.parse(run_local(programs.build_own(benchmark, build), ["S"], ranks).stdout)
    assert (run.messages, run.bytes_sent) == (messages, sent)


@needs_mpi
def test_own__lower_case_class_and_other_iterations_are_not_verified(build):
    done = run_local(programs.build_own("LU", build), ["s", "3"], 1)
    run = result.parse(done.stdout)
    assert (run.problem, run.iterations, run.verification) == ("S", 3, "NOT PERFORMED")
    assert done.returncode == 0


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "constant", "wrong"),
    [("LU", "LU_OMEGA 1.2", "LU_OMEGA 1.21"), ("SP", "NAS_C3 0.1", "NAS_C3 0.1000001")],
)
def test_own__a_wrong_constant_is_unsuccessful(tmp_path, monkeypatch, benchmark, constant, wrong):
    sources = tmp_path / "src"
    shutil.copytree(programs.SOURCES, sources)
    changed = 0
    for header in sources.glob("*.h"):
        text = header.read_text()
        changed += text.count(constant)
        header.write_text(text.replace(constant, wrong))
    assert changed == 1
    monkeypatch.setattr(programs, "SOURCES", sources)
    done = run_local(programs.build_own(benchmark, tmp_path / "bin"), ["S"], 1)
    assert result.parse(done.stdout).verification == "UNSUCCESSFUL"
    assert "FAILURE" in done.stdout
    assert done.returncode == 1


@needs_mpi
@pytest.mark.parametrize(
    ("benchmark", "arguments", "ranks", "message"),
    [
        ("LU", ["Q"], 1, "not Q"),
        ("LU", [], 1, "usage"),
        ("LU", ["S", "x"], 1, "must be a number"),
        ("LU", ["S", "0"], 1, "must be a number"),
        ("LU", ["S"], 3, "power of two"),
        ("SP", ["S"], 2, "square"),
    ],
)
def test_own__bad_input_is_told_once(build, benchmark, arguments, ranks, message):
    done = run_local(programs.build_own(benchmark, build), arguments, ranks)
    assert done.returncode == 2
    assert done.stderr.count(message) == 1


@needs_mpi
def test_build_own__is_not_repeated_without_need(build):
    before = programs.build_own("SP", build).stat().st_mtime_ns
    assert programs.build_own("SP", build).stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["lu.A.x", "lu.A.4"])
def test_find_npb__takes_both_ways_of_naming(tmp_path, name):
    binary = tmp_path / name
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert programs.find_npb(tmp_path, "LU", "A", 4) == binary


def test_find_npb__a_binary_for_another_number_of_ranks_does_not_count(tmp_path):
    binary = tmp_path / "sp.A.9"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    with pytest.raises(NasError, match="sp.A.x nor sp.A.4"):
        programs.find_npb(tmp_path, "SP", "A", 4)


@needs_mpi
def test_choose__npb_bin_wins_over_the_own_program(tmp_path):
    binary = tmp_path / "lu.S.x"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    case = plan.Case("LU", "S", 2, 2)
    chosen = programs.choose(case, tmp_path / "bin", {"NPB_BIN": str(tmp_path)})
    assert (chosen.words, chosen.origin) == ((str(binary),), "NPB")
    assert chosen.preload.exists()
    chosen = programs.choose(case, tmp_path / "bin", {})
    assert (chosen.words[1:], chosen.origin, chosen.preload) == (("S",), "own", None)
