# SPDX-License-Identifier: BSD-3-Clause
"""rawe-verify itself: it passes over btl/tcp on this host, and notices every planted fault."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from rawelab import launch

pytestmark = pytest.mark.thorough

HANG_SECONDS = 120
# Open MPI 5.0 needs a route from each interface to itself, which lo always has.
TCP = ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
TABLE = Path(__file__).resolve().parents[1] / "verify" / "verify_main.c"
GROUPS = re.findall(r'^    \{"(\w+)", "[^"]*", \d', TABLE.read_text(), re.MULTILINE)
# Group windows checks values only.
WITHOUT = {("windows", "byte"), ("windows", "guard")}
FAULTS = [
    (group, kind)
    for group in GROUPS
    for kind in ("byte", "guard", "value")
    if (group, kind) not in WITHOUT
]


def run(verify, *arguments, ranks=2):
    """Run the program with --quick over tcp; return the result, with both outputs in stdout."""
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), *TCP]
    command += ["--mca", "osc", "pt2pt"] if launch.open_mpi()[0] < 5 else []
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    command += [str(verify), "--quick", *map(str, arguments)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANG_SECONDS
    )


@pytest.mark.parametrize("ranks, only", [(1, ()), (3, ()), (2, ("--only", "onesided,windows"))])
def test_all_groups_pass(verify, ranks, only):
    result = run(verify, "--scale", 0.05, *only, ranks=ranks)
    assert result.returncode == 0, result.stdout
    assert re.search(r"^rawe-verify: \d+ groups, \d+ checks, OK", result.stdout, re.MULTILINE)


@pytest.mark.parametrize("group, kind", FAULTS)
def test_a_planted_fault_is_noticed(verify, group, kind):
    arguments = ["--max-bytes", "20M"] if group == "large" else ["--scale", "0.05"]
    result = run(verify, "--only", group, "--plant", 1, "--plant-kind", kind, *arguments)
    assert result.returncode == 1, result.stdout
    assert f"rawe-verify: FAIL group {group} " in result.stdout, result.stdout
    assert "OK" not in result.stdout.split()


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["--only", "order", "--plant", 1000000], 2, ["nothing planted"]),
        (["--only", "large"], 1, ["nothing was verified"]),
        (["--only", "late", "--compute", 60, "--timeout", 1], 124, ["HANG rank", "group late"]),
    ],
)
def test_what_is_no_success(verify, arguments, status, words):
    result = run(verify, *arguments)
    assert result.returncode == status, result.stdout
    for word in words:
        assert word in result.stdout


def test_another_seed_is_another_run(verify):
    counts = set()
    for seed in (1, 2):
        result = run(verify, "--only", "random", "--seed", seed)
        assert result.returncode == 0, result.stdout
        counts.add(re.search(r"(\d+) bytes", result.stdout).group(1))
    assert len(counts) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "no-such-group"],
        ["--max-bytes", "300M"],
        ["--max-bytes", "many"],
        ["--scale", "0"],
        ["--scale", "nan"],
        ["--seed", "-1"],
        ["--plant-kind", "mistake"],
        ["surplus"],
    ],
)
def test_wrong_usage_is_told(verify, arguments):
    result = subprocess.run([verify, *arguments], capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.startswith("rawe-verify: ")
    assert len(result.stderr.splitlines()) == 1
