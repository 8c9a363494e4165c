# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of kernels and of NAS over tcp and rawe, from the command to the report.

`test/run bench` runs the quick form of each benchmark.
"""

import csv
import subprocess
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, thorough

LONG = [pytest.param(problem, marks=pytest.mark.long) for problem in ("W", "A")]
BENCH = Path(__file__).resolve().parents[3] / "bench"


def compare(folder, build, output, *arguments):
    """Run a comparison; return its CompletedProcess."""
    words = [BENCH / folder / "compare", "--quick", "--no-build", "--build", build]
    words += ["--timeout", HANG_SECONDS, "--output", output, *arguments]
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=5 * HANG_SECONDS, check=False
    )


def rows_of(path):
    """Return the rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def assert_reported(done, output):
    """The comparison succeeded and wrote its report."""
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "FAILED" not in done.stdout
    assert (output / "report.md").stat().st_size > 0


@pytest.mark.thorough
def test_kernels_compared(build, tmp_path):
    output = tmp_path / "out"
    done = compare("app-runs", build, output, "--apps", "bitonic,cannon", "--rounds", "1")
    assert_reported(done, output)
    rows = rows_of(output / "medians.csv")
    assert {row["benchmark"] for row in rows if row["tcp"] and row["rawe"]} == {"bitonic", "cannon"}


@pytest.mark.parametrize("problem", [thorough("S"), *LONG])
def test_nas_verifies(build, tmp_path, problem):
    output = tmp_path / "out"
    arguments = ["--class", problem, "--np", "1,2,4", "--rounds", "1"]
    assert_reported(compare("nas-runs", build, output, *arguments), output)
    rows = rows_of(output / "medians.csv")
    # Only a verified run has metrics. SP runs on 1 and 4 ranks, LU on all three.
    verified = {(row["benchmark"], row["ranks"]) for row in rows if row["tcp"] and row["rawe"]}
    assert verified == {(name, n) for name in ("LU", "SP") for n in "124"} - {("SP", "2")}
