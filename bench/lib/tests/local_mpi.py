# SPDX-License-Identifier: BSD-3-Clause
"""Runs MPI programs on this machine alone, for the tests of such programs."""

import os
import shutil
import subprocess

import pytest

LIMIT = 120  # seconds; a program that does not hang takes a hundredth of it
needs_mpi = pytest.mark.skipif(
    shutil.which("mpicc") is None or shutil.which("mpirun") is None,
    reason="Open MPI is not installed",
)


def start_local(program, arguments, ranks):
    """Start a program over shared memory; its Popen, with standard output as a pipe."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_btl": "vader,self",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }
    words = ["mpirun", "--oversubscribe", "-np", str(ranks), str(program), *map(str, arguments)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def run_local(program, arguments, ranks):
    """Run a program over shared memory; the CompletedProcess."""
    with start_local(program, arguments, ranks) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
