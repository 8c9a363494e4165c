# SPDX-License-Identifier: BSD-3-Clause
"""Machines run commands, and do not outlive their owner."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rawevm
from conftest import HERE
from rawevm import machine

from rawelab.command import LabError

END_SECONDS = 30


@pytest.fixture(autouse=True)
def alone(pool):
    """End the machines of other tests, because several pairs at a time would be slow."""
    pool.drop()


def children(pid):
    """Return the process ids of the children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def directories():
    """Return the directories of clusters."""
    return set(Path("/tmp").glob("rawe-vm-*"))


def test_output_and_status_are_those_of_the_command(cluster_of):
    done = cluster_of().hosts[0].spawn(["sh", "-c", "echo out; echo err >&2; exit 3"]).wait(60)
    assert (done.returncode, done.output, done.errors) == (3, "out\n", "err\n")


UP = """
import sys, time
sys.path[:0] = sys.argv[1:]
import rawevm
rawevm.Cluster().up()
print("up", flush=True)
time.sleep(600)
"""


def test_machines_end_with_their_owner():
    before = directories()
    argv = [sys.executable, "-c", UP, HERE.parent, HERE.parents[1] / "lab"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        machines = children(process.pid)
        assert len(machines) == 2
        process.kill()
    deadline = time.monotonic() + END_SECONDS
    while any(os.path.exists(f"/proc/{pid}") for pid in machines):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for directory in directories() - before:
        shutil.rmtree(directory)


def test_a_machine_that_does_not_boot_shows_its_console(monkeypatch):
    monkeypatch.setattr(machine, "MODULES", ())
    cluster = rawevm.Cluster()
    with pytest.raises(LabError, match="vm: cannot mount the file system"):
        cluster.up()
    assert not cluster.hosts


def test_shapes_are_checked():
    for shape in ({"nic": "rtl8139"}, {"kernel": "2.4"}, {"mtu": 20000}, {"hosts": 1}):
        with pytest.raises(LabError):
            rawevm.Cluster(**shape)
