# SPDX-License-Identifier: BSD-3-Clause
"""Programs that others wrote, with checks of their own, finish over rawe."""

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, RAWE, assert_success, show

# HPCC's input: problem size, process grid; the rest is as small as its tests allow.
HPCC_INPUT = """\
HPLinpack benchmark input file
rawe lab
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{size}       Ns
1            # of NBs
32           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}       Ps
{columns}    Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### separator
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


@pytest.mark.parametrize("loss", [0, 1])
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
        (2, 1, 2, 0, 400),
        (4, 2, 2, 0, 400),
        (2, 1, 2, 1, 400),
        pytest.param(4, 2, 4, 0, 2000, marks=pytest.mark.long),
    ],
)
def test_hpcc_passes_its_own_checks(make_lab, build, tmp_path, hosts, rows, columns, loss, size):
    lab = make_lab(hosts=hosts, loss=loss)
    lab.count_frames(ETHERTYPE)
    text = HPCC_INPUT.format(size=size, rows=rows, columns=columns)
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
