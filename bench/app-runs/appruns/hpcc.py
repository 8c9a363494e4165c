# SPDX-License-Identifier: BSD-3-Clause
"""HPC Challenge: HPL, PTRANS, RandomAccess, FFT, latency and bandwidth, in one program."""

import math
import re
from typing import ClassVar

from benchlib.program import Check, Result, incomplete
from benchlib.summary import Metric

from .application import Application

OUTPUT = "hpccoutf.txt"
# HPL's input file as HPCC reads it; the lines at its end are PTRANS's own sizes (none).
INPUT = """\
HPLinpack benchmark input file
bench/app-runs
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{size}       Ns
1            # of NBs
{block}      NBs
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
LINE = re.compile(r"^(\w+)=(\S+)$", re.MULTILINE)
TESTS = re.compile(r"^\s*(\d+) tests completed and (passed|failed) residual checks", re.MULTILINE)
SKIPPED = re.compile(r"^\s*(\d+) tests skipped because of illegal input values", re.MULTILINE)
FFT_ERROR_MAX = 1e-10  # the program prints about 1e-15
# RandomAccess may lose 1 % of its updates by its rules; HPCC itself says PASSED up to there.
RANDOM_ERRORS_MAX = 0.01


def grid(ranks):
    """Rows and columns of the most square process grid."""
    rows = math.isqrt(ranks)
    while ranks % rows:
        rows -= 1
    return rows, ranks // rows


class Hpcc(Application):
    """HPCC on one problem size."""

    name = "hpcc"
    title = "HPC Challenge"
    program = "hpcc"
    package = "hpcc"
    metrics = (
        Metric("hpl_gflops", "HPL", "Gflop/s", True),
        Metric("ptrans_gbs", "PTRANS", "GB/s", True),
        Metric("random_gups", "MPI RandomAccess", "GUP/s", True),
        Metric("fft_gflops", "MPI FFT", "Gflop/s", True),
        Metric("latency_us", "ping-pong latency, average", "µs", False),
        Metric("ring_latency_us", "random ring latency", "µs", False),
        Metric("bandwidth_gbs", "ping-pong bandwidth, average", "GB/s", True),
        Metric("ring_bandwidth_gbs", "random ring bandwidth", "GB/s", True),
    )
    sizes: ClassVar = {"quick": 1000, "full": 4000}  # N of HPL's matrix; the others follow from it
    keeps = (OUTPUT,)
    checked = (
        "`Success=1`, the residuals of HPL and PTRANS, RandomAccess's wrong updates, the error of "
        "the FFT"
    )

    def why_not(self, size, ranks):
        return "its network tests need two ranks" if ranks < 2 else None

    def prepare(self, directory, case):
        rows, columns = grid(case.ranks)
        text = INPUT.format(size=self.sizes[case.size], block=64, rows=rows, columns=columns)
        (directory / "hpccinf.txt").write_text(text, encoding="ascii")

    def commands(self, found, case):
        return [[found]]

    def read(self, output, files, case):
        text = files.get(OUTPUT, "")
        found = dict(LINE.findall(text))
        if "End of HPC Challenge tests." not in text:
            raise incomplete("'End of HPC Challenge tests.'", text or output)

        def number(name):
            if name not in found:
                raise incomplete(f"line {name}=", text)
            return float(found[name])

        result = Result(
            {
                "hpl_gflops": 1000.0 * number("HPL_Tflops"),
                "ptrans_gbs": number("PTRANS_GBs"),
                "random_gups": number("MPIRandomAccess_GUPs"),
                "fft_gflops": number("MPIFFT_Gflops"),
                "latency_us": number("AvgPingPongLatency_usec"),
                "ring_latency_us": number("RandomlyOrderedRingLatency_usec"),
                "bandwidth_gbs": number("AvgPingPongBandwidth_GBytes"),
                "ring_bandwidth_gbs": number("RandomlyOrderedRingBandwidth_GBytes"),
            }
        )
        passed = [int(count) for count, word in TESTS.findall(text) if word == "passed"]
        failed = [int(count) for count, word in TESTS.findall(text) if word == "failed"]
        skipped = [int(count) for count in SKIPPED.findall(text)]
        residuals = f"passed {passed}, failed {failed}, skipped {skipped}"
        wrong = max(number(f"MPIRandomAccess{kind}_ErrorsFraction") for kind in ("", "_LCG"))
        error = number("MPIFFT_maxErr")
        result.checks = [
            Check("HPCC's Success line", found.get("Success") == "1"),
            Check(
                "residuals of PTRANS and HPL",
                len(passed) == 2 and min(passed) > 0 and not any(failed) and not any(skipped),
                residuals,
            ),
            Check("updates of RandomAccess", wrong <= RANDOM_ERRORS_MAX, f"{wrong:.2%} wrong"),
            Check("error of FFT", 0 <= error < FFT_ERROR_MAX, f"{error:g}"),
            Check("processes", number("CommWorldProcs") == case.ranks, found["CommWorldProcs"]),
        ]
        return result
