# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawe-imb, on this machine alone, and of output.py, which reads real IMB-MPI1's layout,
rawe-imb's, and the baseline programs'."""

import subprocess
from pathlib import Path

import pytest
from fakes import LIMIT, needs_mpi, run_local, start_local

from imbruns import output
from imbruns.output import Sample


def values(samples, benchmark):
    """{(size, metric): value} of one benchmark."""
    return {(one.size, one.metric): one.value for one in samples if one.benchmark == benchmark}


@pytest.mark.parametrize(
    "file, benchmark, expected",
    [
        (
            "imb-mpi1.txt",
            "PingPong",
            {
                (0, "time_us"): 4.11,
                (0, "mbytes_per_s"): 0.0,
                (1, "time_us"): 4.25,
                (1, "mbytes_per_s"): 0.24,
                (4194304, "time_us"): 1811.20,
                (4194304, "mbytes_per_s"): 2315.76,
            },
        ),
        # The average time and the rate.
        ("imb-mpi1.txt", "Sendrecv", {(1024, "time_us"): 6.20, (1024, "mbytes_per_s"): 325.08}),
        # A size that was out of memory is left out.
        ("imb-mpi1.txt", "Allreduce", {(0, "time_us"): 0.04, (4, "time_us"): 11.0}),
        ("imb-mpi1.txt", "Uniband", {(64, "mbytes_per_s"): 12.8, (64, "messages_per_s"): 200000.0}),
        ("imb-mpi1.txt", "Barrier", {(0, "time_us"): 8.2}),
        ("rawe-imb.txt", "Isend", {(64, "time_us"): 3.915}),  # the median, not the mean
    ],
)
def test_parse_imb__values_of_each_layout(sample_output, file, benchmark, expected):
    assert values(output.parse_imb(sample_output(file)), benchmark) == expected


def test_parse_imb__processes_repetitions_and_the_column_of_defects(sample_output):
    samples = output.parse_imb(sample_output("imb-mpi1.txt"))
    assert Sample("PingPong", 2, 4194304, "time_us", 1811.20, 10) in samples
    assert {one.processes for one in samples if one.benchmark == "Allreduce"} == {4}
    samples = output.parse_imb(sample_output("rawe-imb.txt"))
    assert values(samples, "PingPong")[16, "time_us"] == 4.744
    assert Sample("Uniband", 2, 1024, "messages_per_s", 12299887.0, 10) in samples


def test_parse_imb__defects_are_an_error(sample_output):
    text = sample_output("rawe-imb.txt").replace("3.37            0", "3.37           12")
    with pytest.raises(output.WrongContents, match="PingPong.*16 bytes: 12 bytes arrived wrong"):
        output.parse_imb(text)


def test_parse_imb__cut_off_in_the_middle_keeps_whole_lines(sample_output):
    text = sample_output("imb-mpi1.txt")
    cut = text[: text.index("         4.25") + 10]
    assert values(output.parse_imb(cut), "PingPong") == {
        (0, "time_us"): 4.11,
        (0, "mbytes_per_s"): 0.0,
    }


def test_parse_imb__nothing_in_an_error_message():
    assert output.parse_imb("mpirun: command not found\n 1 2 3 4\n") == []


def test_parse_baseline__the_fastest_way_wins(sample_output):
    samples = output.parse_baseline(sample_output("baseline.txt"))
    assert values(samples, "PingPong") == {
        (1, "time_us"): 1.202,
        (4096, "time_us"): 2.24,
        (65536, "time_us"): 10.726,
    }
    assert values(samples, "Uniband")[4096, "mbytes_per_s"] == 779.93
    assert values(samples, "Uniband")[64, "messages_per_s"] == 591825.0
    assert values(samples, "UnibandCold") == values(samples, "Uniband")
    ways = {(one.benchmark, one.size): one.way for one in samples}
    assert [ways["PingPong", size] for size in (1, 4096, 65536)] == [
        "frames",
        "tcp-ring",
        "tcp-gso",
    ]


def test_parse_baseline__wrong_contents_are_an_error(sample_output):
    text = sample_output("baseline.txt")
    with pytest.raises(output.WrongContents, match="3 bytes arrived wrong"):
        output.parse_baseline(text.replace("lost=0 wrong=0", "lost=0 wrong=3"))


def test_parse_baseline__send_call_only_where_one_frame_holds_the_message(sample_output):
    samples = output.parse_baseline(sample_output("baseline.txt"))
    assert values(samples, "Isend") == {(64, "time_us"): 1.689}


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
