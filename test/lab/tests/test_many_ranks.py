# SPDX-License-Identifier: BSD-3-Clause
"""Several ranks on a host: their sockets form fanout groups, which survive interfaces and ranks."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show, thorough
from jobs import EndlessJob, Job

HERE = Path(__file__).resolve().parent
RANKS_A_HOST = 4
RANKS = 2 * RANKS_A_HOST
EACH_HOST = ("--map-by", f"ppr:{RANKS_A_HOST}:node")
SOCKETS_A_RANK = 8  # link, bulk in two lengths and responder, on eth0 and on lo


def grouped(lab, host):
    """Return how many packet sockets of a host are in fanout groups."""
    shown = lab.run(host, ["ss", "-0", "-e"], stdout=subprocess.PIPE, text=True)
    return shown.stdout.count("fanout(")


def await_grouped(lab, count, hosts=2):
    """Wait until `count` sockets of each of the first `hosts` are in groups."""
    deadline = time.monotonic() + HANG_SECONDS
    while any(grouped(lab, host) != count for host in range(hosts)):
        assert time.monotonic() < deadline, [grouped(lab, host) for host in range(hosts)]
        time.sleep(0.1)


def start(lab, build, endless, file, *options):
    """Start a job that works until this file exists."""
    words = ["-np", RANKS, *EACH_HOST, *RAWE, *options, endless, "until", file]
    job = Job(lab, build, words)
    job.wait_for("works", RANKS)
    return job


def test_the_parameter_switches_groups_off(make_lab, build, endless, tmp_path):
    lab = make_lab()
    job = start(lab, build, endless, tmp_path / "end", "--mca", "btl_rawe_fanout", "0")
    time.sleep(1)
    assert [grouped(lab, host) for host in range(2)] == [0, 0]
    (tmp_path / "end").touch()
    assert_success(job.finish())


def test_a_group_outlasts_its_interface_going_down(make_lab, build, endless, tmp_path):
    lab = make_lab()
    job = start(lab, build, endless, tmp_path / "end")
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    for _ in range(3):
        lab.link_down(1)
        time.sleep(0.2)
        lab.link_up(1)
        time.sleep(0.5)
    assert job.process.poll() is None, job.said()
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    (tmp_path / "end").touch()
    assert_success(job.finish())


@pytest.mark.parametrize("rank", [0, 1])
def test_the_job_ends_when_a_rank_is_killed(make_lab, build, endless, rank):
    lab = make_lab()
    job = EndlessJob(lab, build, endless, ranks=RANKS, arguments=EACH_HOST)
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    os.kill(job.pids[rank], signal.SIGKILL)
    job.end()


@pytest.mark.parametrize("dying", [thorough((1,)), thorough((0,)), (1, 4), (0, 5)])
def test_the_others_go_on_when_ranks_die(make_lab, build, survivors, tmp_path, dying):
    lab = make_lab()
    words = ["-np", RANKS, *EACH_HOST, "--enable-recovery", *RAWE]
    job = Job(lab, build, [*words, survivors, tmp_path / "go", *dying])
    job.wait_for("works", RANKS)
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    (tmp_path / "go").touch()
    job.wait_for("went on", RANKS - len(dying))
    assert "is wrong" not in job.said(), job.said()
    job.finish(timeout=1)  # this mpirun waits for the dead ranks forever


def sockets(lab, host, interface):
    """Return the number of packet sockets on an interface of a host."""
    shown = lab.run(host, ["ss", "-0"], stdout=subprocess.PIPE, text=True)
    return shown.stdout.count(f":{interface} ")


@pytest.mark.parametrize(
    "btls, ranks, count", [("rawe,self", 1, 1), ("rawe,self", 2, 8), ("rawe,vader,self", 2, 2)]
)
def test_lo_is_opened_only_when_it_is_needed(
    make_lab, build, endless, tmp_path, btls, ranks, count
):
    lab = make_lab()
    words = ["-np", 2 * ranks, "--map-by", f"ppr:{ranks}:node", "--mca", "btl", btls]
    job = Job(lab, build, [*words, endless, "until", tmp_path / "end"])
    job.wait_for("works", 2 * ranks)
    assert [sockets(lab, host, "lo") for host in range(2)] == [count, count]
    assert [sockets(lab, host, "eth0") for host in range(2)] == [4 * ranks, 4 * ranks]
    (tmp_path / "end").touch()
    assert_success(job.finish())


@pytest.mark.parametrize("btls", ["rawe,self", "rawe,vader,self"])
def test_spawned_jobs_have_groups_of_their_own(make_lab, build, verify, btls):
    lab = make_lab(hosts=1)
    words = [
        "-np",
        RANKS_A_HOST,
        "--mca",
        "btl",
        btls,
        verify,
        "--quick",
        "--only",
        "spawn",
        "--timeout",
        HANG_SECONDS // 2,
    ]
    result = lab.mpirun(words, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)


def test_every_byte_arrives_at_many_ranks(make_lab, build, verify):
    lab = make_lab()
    words = ["-np", RANKS, *EACH_HOST, *RAWE, verify, "--quick", "--scale", "0.05"]
    only = ["--only", "pt2pt,flood", "--timeout", HANG_SECONDS // 2]
    result = lab.mpirun([*words, *only], timeout=2 * HANG_SECONDS, build=build)
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
