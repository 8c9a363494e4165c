# SPDX-License-Identifier: BSD-3-Clause
"""Several NICs a host: one is pulled, and back again, and the job goes on as if nothing were."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HERE, RAWE, assert_one_message, assert_success
from jobs import Job, assert_failure

STATS = ("--mca", "btl_rawe_stats", "1")
BACK_SECONDS = 60  # a second is usual, if nobody else wants the processors
IMPATIENT = ("--mca", "btl_rawe_peer_timeout", "3")


@pytest.fixture(scope="session")
def pulled(tmp_path_factory):
    """The program of pulled.c."""
    program = tmp_path_factory.mktemp("pulled") / "pulled"
    subprocess.run(["mpicc", "-O2", "-o", program, HERE / "pulled.c"], check=True)
    return program


class PulledJob(Job):
    """A job that exchanges messages until told to end."""

    def __init__(self, lab, build, program, *arguments, ranks=2):
        self.end_file = Path(lab.directory) / "end"
        super().__init__(
            lab, build, ["-np", ranks, *RAWE, *STATS, *arguments, program, self.end_file]
        )
        self.go_on()

    def go_on(self):
        """Wait until it has made progress."""
        rounds = sum("rounds" in line for line in self.output)
        self.wait_for("rounds", rounds + 2)

    def end_well(self):
        """Have it end; its report: counter to its sum over all ranks, and by (rank, NIC)."""
        self.end_file.touch()
        result = self.finish()
        assert_success(result)
        found = {}
        for line in result.errors.splitlines():
            head = re.search(r"rank (\d+) interface (eth\d+): (.*)", line)
            if head is None:
                continue
            for name, value in re.findall(r"(\w+)=(\d+)", head.group(3)):
                nics = found.setdefault(name, {})
                key = (int(head.group(1)), head.group(2))
                nics[key] = nics.get(key, 0) + int(value)
        return found


def total(report, name):
    """A counter, over all ranks and NICs."""
    return sum(report[name].values())


def host_down(lab, nic):
    """The carrier is lost at both ends of a virtual cable."""
    lab.link_down(0, nic)


def host_up(lab, nic):
    """And is there again."""
    lab.link_up(0, nic)


def cut_behind(lab, nic):
    """Somewhere behind a switch: the carrier stays, at both ends."""
    for host in (0, 1):
        lab.set_loss(100, host, nic)


def mend_behind(lab, nic):
    """And mended."""
    for host in (0, 1):
        lab.set_loss(0, host, nic)


def port_command(lab, nic, what):
    """Set a switch port's state."""
    command = ["ip", "netns", "exec", lab.namespaces[-1], "ip", "link", "set"]
    lab.run(0, [*command, lab.nic(1, nic).port, what], check=True)


def port_down(lab, nic):
    """The switch's port: only the host behind it loses the carrier."""
    port_command(lab, nic, "down")


def port_up(lab, nic):
    """And is there again."""
    port_command(lab, nic, "up")


PULLS = {
    "pair": (host_down, host_up),
    "switch": (host_down, host_up),
    "port": (port_down, port_up),
    "behind": (cut_behind, mend_behind),
}


@pytest.mark.parametrize("nic", [0, 1])
@pytest.mark.parametrize("how", PULLS)
def test_a_job_survives_the_loss_of_a_nic_and_uses_it_again(make_lab, build, pulled, how, nic):
    pull, mend = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
    job = PulledJob(lab, build, pulled)
    pull(lab, nic)
    job.go_on()
    mend(lab, nic)
    time.sleep(2)
    job.go_on()
    report = job.end_well()
    # It has gone, and come back.
    assert total(report, "migrations") >= 2, report["migrations"]
    assert total(report, "peers_lost") == 0


def test_a_nic_is_used_again_when_it_is_back(make_lab, build, pulled):
    lab = make_lab(hosts=2, nics=2)
    job = PulledJob(lab, build, pulled)
    lab.link_down(0, 1)
    job.go_on()
    lab.link_up(0, 1)
    time.sleep(2)
    job.go_on()
    # Now the other one: all goes by the one that was down.
    lab.link_down(0, 0)
    job.go_on()
    report = job.end_well()
    assert total(report, "migrations") >= 3, report["migrations"]


def sent_bytes(lab, nic):
    """What host 0 has sent by a NIC."""
    for line in lab.run(0, ["cat", "/proc/net/dev"]).stdout.splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == f"eth{nic}":
            return int(numbers.split()[8])
    raise AssertionError(f"eth{nic} is not there")


def shares(lab, job):
    """The shares of two NICs in what host 0 sends while the job makes progress."""
    before = [sent_bytes(lab, nic) for nic in (0, 1)]
    job.go_on()
    sent = [sent_bytes(lab, nic) - before[nic] for nic in (0, 1)]
    return [one / sum(sent) for one in sent]


@pytest.mark.parametrize("how", ["pair", "behind"])
def test_long_messages_go_by_all_nics_that_are_there(make_lab, build, pulled, how):
    pull, mend = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
    job = PulledJob(lab, build, pulled)
    assert min(shares(lab, job)) > 0.2
    pull(lab, 0)
    job.go_on()  # it has gone on since
    assert shares(lab, job)[0] < 0.05
    mend(lab, 0)
    deadline = time.monotonic() + BACK_SECONDS
    while min(shares(lab, job)) < 0.2:
        assert time.monotonic() < deadline, "the NIC is back, and is not used"
    job.end_well()


@pytest.mark.parametrize("how", ["pair", "behind"])
def test_the_loss_of_all_nics_is_told_once(make_lab, build, pulled, how):
    pull, _ = PULLS[how]
    lab = make_lab(hosts=2, nics=2, topology="pair" if how == "pair" else "switch")
    job = PulledJob(lab, build, pulled, *IMPATIENT)
    pull(lab, 0)
    pull(lab, 1)
    result = job.finish()
    assert_failure(result)
    assert_one_message(result, f"{lab.name}-h")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_random_pulls_lose_nothing(make_lab, build, pulled, seed):
    chance = random.Random(seed)
    lab = make_lab(hosts=2, nics=2, topology="switch")
    job = PulledJob(lab, build, pulled, ranks=4)
    for _ in range(12):
        nic = chance.randrange(2)
        pull, mend = PULLS[chance.choice(["switch", "port", "behind"])]
        pull(lab, nic)
        time.sleep(chance.uniform(0.0, 0.6))
        mend(lab, nic)
        # Both may be down for the program: a route is believed again after some answers.
        time.sleep(chance.uniform(0.0, 0.6))
        job.go_on()
    report = job.end_well()
    assert total(report, "peers_lost") == 0
