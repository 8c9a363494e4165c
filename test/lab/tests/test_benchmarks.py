# SPDX-License-Identifier: BSD-3-Clause
"""Third-party programs succeed over rawe, and comparisons of them write their reports.

`test/run bench` runs the quick form of each benchmark.
"""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, HERE, RAWE, assert_success, show, thorough

sys.path[:0] = [str(HERE.parents[2] / "bench" / folder) for folder in ("lib", "app-runs")]

from appruns import applications  # noqa: E402  (the path has to be set first)


@pytest.mark.parametrize("loss", [thorough(0), 1])
def test_netpipe_passes_its_integrity_checks(make_lab, build, tmp_path, loss):
    lab = make_lab(hosts=2, loss=loss)
    lab.count_frames(ETHERTYPE)
    command = ["NPopenmpi", "-i", "-u", 300000, "-o", tmp_path / "np.out"]
    result = lab.mpirun(["-np", 2, *RAWE, *command], timeout=2 * HANG_SECONDS, build=build)
    assert_success(result)
    said = result.output + result.errors
    assert said.count("Integrity check passed") > 20, show(result)
    assert "Integrity check failed" not in said, show(result)
    assert lab.frames(0) > 0 and lab.frames(1) > 0


@pytest.mark.parametrize(
    "hosts, rows, columns, loss, size",
    [
        thorough(2, 1, 2, 0, 400),
        (4, 2, 2, 0, 400),
        (2, 1, 2, 1, 400),
        pytest.param(4, 2, 4, 0, 2000, marks=pytest.mark.long),
    ],
)
def test_hpcc_passes_its_own_checks(make_lab, build, tmp_path, hosts, rows, columns, loss, size):
    lab = make_lab(hosts=hosts, loss=loss)
    lab.count_frames(ETHERTYPE)
    text = applications.HPCC_INPUT.format(size=size, block=32, rows=rows, columns=columns)
    (tmp_path / "hpccinf.txt").write_text(text, encoding="ascii")
    arguments = ["-np", rows * columns, *RAWE, "hpcc"]
    result = lab.mpirun(arguments, timeout=2 * HANG_SECONDS, build=build, cwd=tmp_path)
    assert_success(result)
    report = (tmp_path / "hpccoutf.txt").read_text(encoding="utf-8", errors="replace")
    assert "Success=1" in report, report[-3000:]
    assert "End of HPC Challenge tests." in report
    # PTRANS and HPL compute residuals, RandomAccess counts wrong locations.
    assert "FAILED" not in report, report
    for done in ("5 tests completed and passed", "1 tests completed and passed"):
        assert f" {done} residual checks" in report, report
    assert report.count(" 0 tests completed and failed residual checks") == 2, report
    assert report.count(" 0 tests skipped because of illegal input values") == 2, report
    assert "MPIRandomAccess_Errors=0" in report and "MPIRandomAccess_LCG_Errors=0" in report
    assert lab.frames(0) > 0


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
