# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawe-imb itself, on this machine alone."""

import subprocess
from pathlib import Path

import pytest
from local_mpi import LIMIT, needs_mpi, run_local, start_local

from imbruns import output

SOURCES = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", name="program")
def _program(tmp_path_factory):
    program = tmp_path_factory.mktemp("rawe-imb") / "rawe-imb"
    words = ["mpicc", "-std=gnu11", "-O1", "-o", program, *sorted(SOURCES.glob("*.c")), "-lm"]
    subprocess.run(list(map(str, words)), check=True)
    return program


@needs_mpi
@pytest.mark.parametrize("buffers", [2, 64, 100])
def test_streams__arrive_in_every_buffer(program, buffers):
    arguments = ["-check", "-iter", 5, "-msglog", "3:14", "-receive_buffers", buffers]
    done = run_local(program, [*arguments, "Uniband", "UnibandCold", "BibandCold"], 2)
    assert done.returncode == 0, done.stdout + done.stderr
    samples = output.parse_imb(done.stdout)
    assert {one.benchmark for one in samples} == {"Uniband", "UnibandCold", "BibandCold"}
    assert max(one.size for one in samples) == 1 << 14


@needs_mpi
def test_receive_buffers__one_is_refused(program):
    done = run_local(program, ["-receive_buffers", 1, "UnibandCold"], 2)
    assert done.returncode == 2
    assert "'1' is no value for -receive_buffers" in done.stderr


@needs_mpi
def test_sleep_until__the_pair_is_measured_and_all_wait_for_the_file(program, tmp_path):
    file = tmp_path / "end"
    arguments = ["-check", "-iter", 5, "-msglog", 2, "-sleep_until", file, "PingPong"]
    with start_local(program, arguments, 4) as process:
        seen = ""
        while "\n            4 " not in seen:  # the last size
            line = process.stdout.readline()
            assert line, seen
            seen += line
        assert process.poll() is None
        file.touch()
        assert process.wait(LIMIT) == 0
    assert [one.size for one in output.parse_imb(seen) if one.metric == "time_us"] == [0, 1, 2, 4]
