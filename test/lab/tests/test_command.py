# SPDX-License-Identifier: BSD-3-Clause
"""The lab's command line runs mpirun as requested, and leaves nothing behind; so does test/soak."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import HERE, RAWE, EndlessJob, assert_success, show, wait_until

from rawelab import record, wiring
from rawelab.soaks import StartWatcher

LAB = HERE.parent / "lab"
END_SECONDS = 300  # time for a command to end; it usually takes a few


def start(*arguments, **options):
    """Start the command and return its Popen."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(
        [LAB, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments, status=0):
    """Run the command to its end and return its output; its status must be as given."""
    process = start(*arguments)
    output, errors = process.communicate(timeout=END_SECONDS)
    assert process.returncode == status, f"{output}\n{errors}"
    return output + errors


def lab_name(tmp_path):
    """Return a lab name that no other test uses, in this run or another."""
    return "t" + re.sub("[^a-z0-9]", "", tmp_path.name.lower())[-12:] + str(os.getpid())


def assert_gone(name):
    """No namespace, process, record, directory or shared memory of a lab is left."""
    assert name not in record.names()
    assert not record.directory(name).exists()
    left = [one for one in wiring.existing_namespaces() if one.startswith(f"rawe-{name}-")]
    assert not left
    assert not [file for file in Path("/dev/shm").iterdir() if f"{name}-h" in file.name]
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = process.read_bytes()
        except OSError:
            continue  # it has ended
        assert f"RAWE_LAB_DIR=/run/rawe-lab/{name}\0".encode() not in environment, process


def start_endless_job(name, tmp_path):
    """Start `lab mpirun` with an exchange job, and wait until its ranks run."""
    script = f"touch {tmp_path}/rank-$OMPI_COMM_WORLD_RANK; sleep 1000"
    process = start("mpirun", "--name", name, "--", "-np", 2, "sh", "-c", script)
    wait_until(lambda: len(list(tmp_path.glob("rank-*"))) == 2, "rank")
    return process


def test_mpirun_places_ranks_on_hosts_in_turn(tmp_path):
    name = lab_name(tmp_path)
    script = 'echo "rank $OMPI_COMM_WORLD_RANK on $(uname -n)."'
    output = run("mpirun", "--hosts", 3, "--name", name, "--", "-np", 6, "sh", "-c", script)
    for rank in range(6):
        assert f"rank {rank} on {name}-h{rank % 3}." in output
    assert_gone(name)


def test_mpirun_passes_the_exit_status_on(tmp_path):
    name = lab_name(tmp_path)
    run("mpirun", "--name", name, "--", "-np", 2, "sh", "-c", "exit 3", status=3)
    assert_gone(name)


def affinities(*options):
    """Return the affinity of each rank of a job with one rank per core, up to four."""
    ranks = min(4, len(os.sched_getaffinity(0)))
    job = ["-np", ranks, "sh", "-c", "taskset -pc $$"]
    output = run("mpirun", "--hosts", ranks, *options, "--", *job)
    found = re.findall(r"affinity list: (\S+)", output)
    assert len(found) == ranks, output
    return found


def test_ranks_on_different_hosts_are_pinned_to_different_cores():
    found = affinities()
    assert len(set(found)) == len(found)
    assert all(cores.isdigit() for cores in found)


def test_ranks_yield_when_there_are_more_of_them_than_cores():
    ranks = len(os.sched_getaffinity(0)) + 1
    script = 'echo "yield=$OMPI_MCA_mpi_yield_when_idle."'
    assert run("mpirun", "--", "-np", ranks, "sh", "-c", script).count("yield=1.") == ranks
    ranks -= 1
    assert run("mpirun", "--", "-np", ranks, "sh", "-c", script).count("yield=.") == ranks


def test_a_lab_that_is_up_can_be_used_hurt_and_removed(tmp_path):
    name = lab_name(tmp_path)
    run("up", "--name", name, "--hosts", 3, "--mtu", 9000)
    try:
        assert name in run("up", "--name", name, status=1), "a name is taken once"
        assert name in run("status")
        assert f"{name}-h2" in run("exec", name, "h2", "--", "uname", "-n")
        run("exec", name, "h1", "--", "sh", "-c", "exit 5", status=5)
        job = run("mpirun", "--on", name, "--", "-np", 3, "uname", "-n")
        # On a busy machine, a warning of mpirun about setpgid() is among them.
        names = [word for word in job.split() if word.startswith(f"{name}-h")]
        assert sorted(names) == [f"{name}-h{host}" for host in range(3)]
        run("fault", name, "mtu", "h1", 1500)
        assert "mtu 1500" in run("exec", name, "h1", "--", "ip", "link", "show", "eth0")
        run("fault", name, "link", "h1", "down")
        assert "state DOWN" in run("exec", name, "h1", "--", "ip", "link", "show", "eth0")
        run("fault", name, "loss", "5%", "--host", "h0")
        assert "numgen" in run("exec", name, "h0", "--", "nft", "list", "ruleset")
        assert "h0 to h2" in run("exec", name, "h9", "--", "true", status=1)
        assert "usage" in run("fault", name, "link", status=1)
    finally:
        run("down", name)
    assert_gone(name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(tmp_path, number):
    name = lab_name(tmp_path)
    process = start_endless_job(name, tmp_path)
    process.send_signal(number)
    process.communicate(timeout=END_SECONDS)
    assert process.returncode == 128 + number
    assert_gone(name)


# Runs the real ip, and signals its caller after one of the calls.
SIGNALLING_IP = """#!/bin/sh
PATH=${{PATH#*:}} ip "$@"
status=$?
[ "$*" != "netns add rawe-{name}-h{host}" ] || kill -TERM $PPID
exit $status
"""


def test_a_signal_while_the_lab_comes_up_leaves_nothing_behind(tmp_path):
    for host in (0, 3, 7):
        name = f"{lab_name(tmp_path)}x{host}"
        tool = tmp_path / "ip"
        tool.write_text(SIGNALLING_IP.format(name=name, host=host), encoding="ascii")
        tool.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        process = start("up", "--name", name, "--hosts", 8, env={**os.environ, "PATH": path})
        process.communicate(timeout=END_SECONDS)
        assert process.returncode == 128 + signal.SIGTERM
        assert_gone(name)


def test_ctrl_c_at_a_terminal_leaves_nothing_behind(tmp_path):
    name = lab_name(tmp_path)
    mark = tmp_path / "works"
    # script(1) gives the lab a terminal, and passes its own input on as if it were typed.
    command = f"{LAB} mpirun --name {name} -- -np 2 sh -c 'touch {mark}; sleep 1000'"
    process = subprocess.Popen(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    wait_until(mark.exists, "rank")
    process.stdin.write(b"\x03")
    process.stdin.flush()
    process.communicate(timeout=END_SECONDS)
    assert process.returncode != 0
    assert_gone(name)


@pytest.mark.thorough
def test_timeout_ends_a_job_that_ignores_signals_with_124_and_says_so(tmp_path):
    name = lab_name(tmp_path)
    script = "trap '' TERM INT HUP; setsid sleep 1000 & sleep 1000"
    command = ["mpirun", "--name", name, "--timeout", 2, "--", "-np", 2, "sh", "-c", script]
    assert "did not end within 2 seconds" in run(*command, status=124)
    assert_gone(name)


@pytest.mark.thorough
def test_timeout_kills_an_mpirun_that_hangs_in_a_lab_that_stays(tmp_path):
    name = lab_name(tmp_path)
    run("up", "--name", name)
    try:
        script = "kill -STOP $PPID; sleep 1000"
        command = ["mpirun", "--on", name, "--timeout", 2, "--", "-np", 1, "sh", "-c", script]
        assert "did not end within 2 seconds" in run(*command, status=124)
    finally:
        run("down", name)
    assert_gone(name)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_lab_whose_owner_was_killed_is_found_and_removed(tmp_path, by_name):
    name = lab_name(tmp_path)
    kept = f"{name}kept"
    run("up", "--name", kept)
    try:
        process = start_endless_job(name, tmp_path)
        assert re.search(rf"running, owner process {process.pid}.*\nlab {name}:", run("status"))
        assert "which is running" in run("down", name, status=1)
        process.kill()
        process.communicate(timeout=END_SECONDS)
        assert re.search(rf"\[stale.*\nlab {name}:", run("status"))
        assert f"lab {name} removed" in run("down", name if by_name else "--stale")
        assert_gone(name)
        assert kept in record.names()
    finally:
        run("down", kept)


def test_wrong_use_is_told_what_to_do(tmp_path):
    assert "behind --" in run("mpirun", "--hosts", 2, status=1)
    assert "there is no lab named" in run("down", "nosuchlab", status=1)
    assert "has its shape already" in run("mpirun", "--on", "x", "--mtu", 9000, "--", "a", status=1)
    missing = run("mpirun", "--build", tmp_path, "--", "-np", 1, "true", status=1)
    assert str(tmp_path) in missing and "make" in missing


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("seconds", [6, pytest.param(120, marks=pytest.mark.long)])
def test_a_soak_is_exact_and_leaves_memory_and_descriptors_alone(
    make_lab, build, verify, seconds, threads
):
    lab = make_lab(hosts=4, wire="loss=0.5%")
    arguments = ["-np", 4, *RAWE, verify, "--soak", seconds, "--interval", 2, "--threads", threads]
    result = lab.mpirun(arguments, timeout=seconds + 120, build=build)
    assert_success(result)
    assert "rawe-verify: OK" in result.output, show(result)
    assert lab.wire_total("lost") > 0


def run_soak(build, minutes, *words):
    """Run test/soak with two NICs per host, whose cables are pulled."""
    argv = [HERE.parents[1] / "soak", "--build", build, "--minutes", minutes, "--nics", "2", *words]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
    )


def test_a_soak_too_short_for_pulls_says_so(build):
    result = run_soak(build, "0.04", "--pulls", "1")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "--minutes" in result.stderr, result.stderr


@pytest.mark.thorough
def test_a_soak_survives_random_pulls(build):
    result = run_soak(build, "0.25", "--pulls", "6", "--seed", "3")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert "rawe-verify: OK" in said, said
    assert "pulled 6 times" in said, said


@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb here")
def test_a_late_start_shows_where_all_ranks_stand(make_lab, exchange, tmp_path):
    lab = make_lab(hosts=2)
    job = EndlessJob(lab, exchange, ranks=2)
    said = []
    with StartWatcher(lab, exchange, tmp_path / "started", 0, lambda text, **_: said.append(text)):
        wait_until(lambda: len(said) == 3, "backtrace of each rank")
    job.process.terminate()
    job.end()
    for pid in job.pids.values():
        assert any(f"process {pid}" in text and "main ()" in text for text in said), said


def test_a_start_in_time_shows_nothing(tmp_path):
    (tmp_path / "started").touch()
    with StartWatcher(None, "none", tmp_path / "started", 0, None) as watcher:
        watcher._thread.join()
    assert not watcher.late


@pytest.mark.thorough
def test_a_soak_says_when_it_has_started(make_lab, build, verify, tmp_path):
    arguments = ["-np", 2, *RAWE, verify, "--soak", 1, "--started", tmp_path / "started"]
    assert_success(make_lab(hosts=2).mpirun(arguments, timeout=120, build=build))
    assert (tmp_path / "started").exists()
