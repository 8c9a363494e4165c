# SPDX-License-Identifier: BSD-3-Clause
"""The command `vm`, and that no machine outlives it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import rawevm
from conftest import HERE
from rawevm import initramfs

from rawelab.command import LabError

VM = HERE.parent / "vm"
END_SECONDS = 30


@pytest.fixture(autouse=True)
def alone(pool):
    """End the machines of other tests: more than one pair at a time would be slow."""
    pool.drop()


def children(pid):
    """Process ids of the children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def directories():
    """Directories of clusters."""
    return set(Path("/tmp").glob("rawe-vm-*"))


def test_output_and_status_are_those_of_the_command():
    argv = [VM, "exec", "--", "sh", "-c", "echo out; echo err >&2; uname -r; exit 3"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "err\n")
    assert done.stdout.startswith("out\n6.1.")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_machines(number):
    argv = [VM, "exec", "--", "sh", "-c", "echo up; exec sleep 600"]
    before = directories()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        machines = children(process.pid)
        assert len(machines) == 2
        process.send_signal(number)
        process.wait(END_SECONDS)
    deadline = time.monotonic() + END_SECONDS
    while any(os.path.exists(f"/proc/{pid}") for pid in machines):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    left = directories() - before
    assert not left or number == signal.SIGKILL
    for directory in left:
        shutil.rmtree(directory)


def test_a_command_that_lasts_too_long_is_stopped():
    done = subprocess.run([VM, "exec", "--timeout", "1", "--", "sleep", "600"], check=False)
    assert done.returncode == 124


def test_a_machine_that_does_not_boot_shows_its_console(monkeypatch):
    monkeypatch.setattr(initramfs, "MODULES", ())
    cluster = rawevm.Cluster()
    with pytest.raises(LabError, match="vm: cannot mount the file system"):
        cluster.up()
    assert not cluster.hosts


def test_shapes_are_checked():
    for shape in ({"nic": "rtl8139"}, {"kernel": "2.4"}, {"mtu": 20000}, {"hosts": 1}):
        with pytest.raises(LabError):
            rawevm.Cluster(**shape)
