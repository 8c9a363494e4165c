# SPDX-License-Identifier: BSD-3-Clause
"""Several ranks on a host: their sockets form fanout groups, which survive interfaces and ranks."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE, EndlessJob, Job, UntilJob, run_verify, thorough, wait_until

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
    wait_until(
        lambda: all(grouped(lab, host) == count for host in range(hosts)),
        f"{count} sockets in groups",
    )


def test_the_parameter_switches_groups_off(make_lab, exchange):
    lab = make_lab()
    job = UntilJob(lab, exchange, *EACH_HOST, "--mca", "btl_rawe_fanout", "0", ranks=RANKS)
    time.sleep(1)
    assert [grouped(lab, host) for host in range(2)] == [0, 0]
    job.end()


def test_a_group_outlasts_its_interface_going_down(make_lab, exchange):
    lab = make_lab()
    job = UntilJob(lab, exchange, *EACH_HOST, ranks=RANKS)
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    for _ in range(3):
        lab.link_down(1)
        time.sleep(0.2)
        lab.link_up(1)
        time.sleep(0.5)
    assert job.process.poll() is None, job.said()
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    job.end()


@pytest.mark.parametrize("rank", [0, 1])
def test_the_job_ends_when_a_rank_is_killed(make_lab, exchange, rank):
    lab = make_lab()
    job = EndlessJob(lab, exchange, ranks=RANKS, arguments=EACH_HOST)
    await_grouped(lab, SOCKETS_A_RANK * RANKS_A_HOST)
    os.kill(job.pids[rank], signal.SIGKILL)
    job.end()


class SurvivingJob(Job):
    """A job whose ranks have formed groups, and some of whose ranks will die."""

    def __init__(self, lab, words, program, dying, ranks, place=None, **options):
        self.go_file = (place or lab.directory) / "go"
        self.survivors = ranks - len(dying)
        words = ["-np", ranks, "--enable-recovery", *RAWE, *words, program, "survivors"]
        super().__init__(lab, [*words, self.go_file, *dying], **options)
        self.wait_for("works", ranks)
        hosts = len(lab.hosts)
        await_grouped(lab, SOCKETS_A_RANK * ranks // hosts, hosts)

    def end(self):
        """Wait until the survivors have continued, without errors."""
        self.wait_for("went on", self.survivors)
        assert "is wrong" not in self.said(), self.said()
        self.finish(timeout=1)  # this mpirun waits for dead ranks forever


@pytest.mark.parametrize("dying", [thorough((1,)), thorough((0,)), (1, 4), (0, 5)])
def test_the_others_go_on_when_ranks_die(make_lab, exchange, dying):
    job = SurvivingJob(make_lab(), EACH_HOST, exchange, dying, RANKS)
    job.go_file.touch()
    job.end()


def sockets(lab, host, interface):
    """Return the number of packet sockets on an interface of a host."""
    shown = lab.run(host, ["ss", "-0"], stdout=subprocess.PIPE, text=True)
    return shown.stdout.count(f":{interface} ")


@pytest.mark.parametrize(
    "btls, ranks, count", [("rawe,self", 1, 1), ("rawe,self", 2, 8), ("rawe,vader,self", 2, 2)]
)
def test_lo_is_opened_only_when_it_is_needed(make_lab, exchange, btls, ranks, count):
    lab = make_lab()
    words = ["--map-by", f"ppr:{ranks}:node", "--mca", "btl", btls]
    job = UntilJob(lab, exchange, *words, ranks=2 * ranks, btls=())
    assert [sockets(lab, host, "lo") for host in range(2)] == [count, count]
    assert [sockets(lab, host, "eth0") for host in range(2)] == [4 * ranks, 4 * ranks]
    job.end()


@pytest.mark.parametrize("btls", ["rawe,self", "rawe,vader,self"])
def test_spawned_jobs_have_groups_of_their_own(make_lab, verify, btls):
    effort = ["--quick", "--only", "spawn", "--timeout", HANG_SECONDS // 2]
    run_verify(make_lab(hosts=1), RANKS_A_HOST, verify, *effort, btls=("--mca", "btl", btls))


def test_every_byte_arrives_at_many_ranks(make_lab, verify):
    effort = ["--quick", "--scale", "0.05", "--only", "pt2pt,flood"]
    effort += ["--timeout", HANG_SECONDS // 2]
    run_verify(make_lab(), RANKS, *EACH_HOST, verify, *effort, timeout=2 * HANG_SECONDS)
