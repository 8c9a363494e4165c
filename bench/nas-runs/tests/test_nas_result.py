# SPDX-License-Identifier: BSD-3-Clause
"""Tests of nasruns.result: reading what NPB's and the project's own programs print."""

import pytest

from nasruns import result
from nasruns.error import NasError

NPB = """

 LU Benchmark Completed.
 Class           =                        A
 Size            =             64x  64x  64
 Iterations      =                      250
 Time in seconds =                    13.80
 Total processes =                        4
 Compiled procs  =                        4
 Mop/s total     =                  8644.57
 Mop/s/process   =                  2161.14
 Operation type  =           floating point
 Verification    =               SUCCESSFUL
 Version         =                    3.3.1
 Compile date    =              01 Jan 2024

 Compile options:
    MPIF77       = mpif77
    FFLAGS       = -O3
"""
OWN = (
    NPB
    + """ MPI share (%)   =                    54.03
 Messages sent   =                    19200
 Bytes sent      =                603955200
"""
)


def test_parse__npb_output():
    run = result.parse(NPB)
    assert (run.benchmark, run.problem, run.processes, run.iterations) == ("LU", "A", 4, 250)
    assert run.seconds == 13.80
    assert run.mops == 8644.57
    assert run.verified
    assert run.mpi_share is None


def test_parse__share_and_messages():
    run = result.parse(OWN)
    assert run.mpi_share == 54.03
    assert run.messages == 19200
    assert run.bytes_sent == 603955200


@pytest.mark.parametrize("verdict", ["UNSUCCESSFUL", "NOT PERFORMED"])
def test_parse__only_successful_counts_as_verified(verdict):
    run = result.parse(NPB.replace("  SUCCESSFUL", verdict))
    assert run.verification == verdict
    assert not run.verified


def test_parse__npb_pvm_style_process_line_is_not_confused():
    assert result.parse(NPB.replace("Compiled procs", "Active processes")).processes == 4


def test_parse__a_run_that_broke_off_shows_what_it_printed_last():
    with pytest.raises(NasError, match="no route"):
        result.parse("mpirun: no route to host\n")


def test_parse__half_a_result_is_no_result():
    with pytest.raises(NasError, match="Mop/s total"):
        result.parse(NPB.replace("Mop/s total", "Mop/s all"))
