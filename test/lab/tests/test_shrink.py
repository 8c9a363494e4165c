# SPDX-License-Identifier: BSD-3-Clause
"""Fault-tolerant jobs: MPI_ERR_PROC_FAILED, revoke, shrink (ULFM)."""

import os
import signal

import pytest
from conftest import RAWE, help_messages, show
from jobs import Job

from rawelab import launch

pytestmark = pytest.mark.skipif(
    launch.open_mpi()[0] < 5, reason="Open MPI 4.1 ends a job that has lost a process"
)
RANKS = 4
# han, a default of 5.0.7, crashes over any BTL when a process fails before the first collective on
# a communicator. ULFM is tested with tuned, basic and ftagree.
FAULT_TOLERANT = ("--with-ft", "ulfm", "--mca", "coll", "^han")


def patience(seconds):
    """Return the parameter for how long a peer may be silent."""
    return ["--mca", "btl_rawe_peer_timeout", seconds]


class ShrinkingJob(Job):
    """A job that tolerates faults, whose ranks have talked to each other."""

    def __init__(self, lab, build, *arguments):
        words = [*FAULT_TOLERANT, "-np", RANKS, *RAWE, *arguments]
        super().__init__(lab, build, words)
        self.wait_for("works", RANKS)
        self.pids = self.told_pids()

    def wait_for_survivors(self, survivors):
        """Wait until all of them have continued."""
        for rank in survivors:
            self.wait_for(f"rank {rank} went on with {len(survivors)} of {RANKS}")

    def assert_survive(self, survivors):
        """The survivors notice the loss, and continue among themselves."""
        self.wait_for_survivors(survivors)
        result = self.finish()
        assert not result.timed_out, show(result)
        assert not result.leftover, show(result)
        assert "something else" not in result.output, show(result)
        assert help_messages(result) == [], show(result)


@pytest.mark.parametrize("mode", ["busy", "idle"])
def test_the_others_go_on_without_a_killed_rank(make_lab, build, shrinks, mode):
    """Open MPI tells them, and MPI_Finalize returns long before rawe's timeout."""
    job = ShrinkingJob(make_lab(hosts=2), build, *patience(3600), shrinks, mode)
    os.kill(job.pids[3], signal.SIGKILL)
    job.assert_survive([0, 1, 2])


@pytest.mark.parametrize("mode", ["busy", "idle"])
def test_the_others_go_on_without_a_host_whose_cable_is_pulled(make_lab, build, shrinks, mode):
    lab = make_lab(hosts=RANKS)
    job = ShrinkingJob(lab, build, *patience(2), shrinks, mode)
    lab.link_down(3)
    job.assert_survive([0, 1, 2])


def test_who_was_cut_off_for_a_while_goes_on_alone(make_lab, build, shrinks, tmp_path):
    """The others have given it up, one of them only because it was told, and reject its frames."""
    lab = make_lab(hosts=RANKS)
    job = ShrinkingJob(lab, build, *patience(2), shrinks, "apart", tmp_path / "file")
    lab.link_down(3)
    job.wait_for_survivors([0, 1, 2])
    lab.link_up(3)
    job.wait_for_survivors([3])
    result = job.finish()
    assert not result.timed_out, show(result)
    assert not result.leftover, show(result)
    assert "something else" not in result.output, show(result)
