# SPDX-License-Identifier: BSD-3-Clause
"""rawe-verify itself: it passes over a BTL known to be good, and notices every planted fault.

Runs over btl/tcp on this host alone, without the lab. RAWE_VERIFY names the program; without it
the program is compiled here with mpicc.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
HANG_SECONDS = 120
GROUPS = re.findall(r'^    \{"(\w+)", "', (HERE / "verify_main.c").read_text(), re.MULTILINE)
# Groups that check contents only.
WITHOUT_VALUES = {"vectors", "nonblocking", "neighbours", "reductions"}
FAULTS = [
    (group, kind)
    for group in GROUPS
    for kind in ("byte", "guard", "value")
    if kind != "value" or group not in WITHOUT_VALUES
]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The path of rawe-verify."""
    if "RAWE_VERIFY" in os.environ:
        return os.environ["RAWE_VERIFY"]
    path = tmp_path_factory.mktemp("verify") / "rawe-verify"
    sources = sorted([*HERE.glob("verify_*.c"), *HERE.glob("group_*.c")])
    subprocess.run(["mpicc", "-std=c11", "-O2", *sources, "-o", path], check=True)
    return path


def run(program, *arguments, ranks=2):
    """Run the program quickly over tcp; return its result with both outputs in stdout."""
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), "--mca", "btl", "tcp,self"]
    command += ["--mca", "osc", "pt2pt"]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    command += [str(program), "--quick", *map(str, arguments)]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANG_SECONDS
    )


def test_there_are_groups():
    assert "pt2pt" in GROUPS and "random" in GROUPS and len(GROUPS) >= 20


@pytest.mark.parametrize("ranks", [1, 3])
def test_all_groups_pass(program, ranks):
    result = run(program, "--scale", 0.05, ranks=ranks)
    assert result.returncode == 0, result.stdout
    assert re.search(r"^rawe-verify: \d+ groups, \d+ checks, OK", result.stdout, re.MULTILINE)


def test_windows_pass(program):
    result = run(program, "--scale", 0.05, "--only", "onesided")
    assert result.returncode == 0, result.stdout
    assert "1 groups" in result.stdout


@pytest.mark.parametrize("group, kind", FAULTS)
def test_a_planted_fault_is_noticed(program, group, kind):
    arguments = ["--max-bytes", "20M"] if group == "large" else ["--scale", "0.05"]
    result = run(program, "--only", group, "--plant", 1, "--plant-kind", kind, *arguments)
    assert result.returncode == 1, result.stdout
    assert f"rawe-verify: FAIL group {group} " in result.stdout, result.stdout
    assert "OK" not in result.stdout.split()


def test_a_fault_that_could_not_be_planted_is_no_success(program):
    result = run(program, "--only", "reductions", "--plant", 1000000)
    assert result.returncode == 2, result.stdout
    assert "nothing planted" in result.stdout


def test_another_seed_is_another_run(program):
    counts = set()
    for seed in (1, 2):
        result = run(program, "--only", "random", "--seed", seed)
        assert result.returncode == 0, result.stdout
        counts.add(re.search(r"(\d+) bytes", result.stdout).group(1))
    assert len(counts) == 2


def test_a_hang_is_told_and_ended(program):
    result = run(program, "--only", "late", "--compute", 60, "--timeout", 1)
    assert result.returncode == 124, result.stdout
    assert "HANG rank" in result.stdout and "group late" in result.stdout


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
def test_wrong_usage_is_told(program, arguments):
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.startswith("rawe-verify: ")
    assert len(result.stderr.splitlines()) == 1


def test_skipping_everything_is_no_success(program):
    result = run(program, "--only", "large")
    assert result.returncode == 1, result.stdout
    assert "nothing was verified" in result.stdout
