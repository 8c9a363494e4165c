# SPDX-License-Identifier: BSD-3-Clause
"""Third-party programs with their own checks succeed over rawe."""

import sys

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
