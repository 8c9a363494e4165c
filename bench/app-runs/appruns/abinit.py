# SPDX-License-Identifier: BSD-3-Clause
"""ABINIT: the ground state of a silicon crystal, its bands divided among the ranks."""

import re
from typing import ClassVar

from benchlib.program import Check, Result, incomplete
from benchlib.summary import Metric

from .application import Application

# A norm-conserving pseudopotential of Troullier and Martins that comes with Debian's abinit-data.
PSEUDO_DIRECTORY = "/usr/share/abinit/psp/PseudosTM_pwteter"
PSEUDO = "14si.pspnc"
# The cubic cell of eight atoms at one k point. The bands are divided among the ranks: each step
# transposes the wave functions between that and a division of the plane waves (MPI_Alltoallv).
INPUT = """\
acell 3*10.217
ntypat 1
znucl 14
natom 8
typat 8*1
xred 0.00 0.00 0.00  0.00 0.50 0.50  0.50 0.00 0.50  0.50 0.50 0.00
     0.25 0.25 0.25  0.25 0.75 0.75  0.75 0.25 0.75  0.75 0.75 0.25
ecut {cutoff}
nband {bands}
chkprim 0
occopt 1
kptopt 0
nkpt 1
kpt 0.25 0.25 0.25
nstep 30
toldfe 1.0d-9
diemac 12.0
paral_kgb 1
npband {ranks}
npfft 1
np_spkpt 1
prtwf 0
prtden 0
prteig 0
prtebands 0
pp_dirpath "{directory}"
pseudos "{pseudo}"
"""
BANDS = 16  # those that silicon's 32 valence electrons fill
ENERGY = re.compile(r"^\s*ETOT\s+(\d+)\s+(\S+)", re.MULTILINE)
CONVERGED = re.compile(r"At SCF step\s+(\d+), etot is converged")
TIME = re.compile(r"^ *Proc\. +0 individual time \(sec\): cpu= *\S+ +wall= *(\S+)", re.MULTILINE)
STEP = re.compile(r"^\{SCF_istep: \d+ , .*wall_time: ' *(\S+) \[s\]", re.MULTILINE)
SUMMARY = re.compile(r"^--- !FinalSummary\n(.*?)^\.\.\.", re.MULTILINE | re.DOTALL)
ENERGY_MAX = 0.0  # Ha: the atoms are bound


class Abinit(Application):
    """ABINIT's ground state of silicon."""

    name = "abinit"
    title = "ABINIT"
    program = "abinit"
    package = "abinit and abinit-data"
    metrics = (
        Metric("scf_ms", "time of a step to self-consistency", "ms", False),
        Metric("wall_s", "time of the calculation", "s", False),
    )
    sizes: ClassVar = {"quick": 10.0, "full": 20.0}  # energy cutoff of the plane waves, Ha
    steady_tolerance = 1e-7
    checked = "self-consistency reached; total energy the same in all runs"

    def why_not(self, size, ranks):
        return None if ranks > 0 and BANDS % ranks == 0 else f"{BANDS} bands are to be divided"

    def prepare(self, directory, case):
        text = INPUT.format(
            cutoff=self.sizes[case.size],
            bands=BANDS,
            ranks=case.ranks,
            directory=PSEUDO_DIRECTORY,
            pseudo=PSEUDO,
        )
        (directory / "si.abi").write_text(text, encoding="ascii")

    def commands(self, found, case):
        return [[found, "si.abi"]]

    def read(self, output, files, case):
        energies = ENERGY.findall(output)
        summary = SUMMARY.search(output)
        seconds, steps = TIME.search(output), [float(text) for text in STEP.findall(output)]
        if not energies or not steps or summary is None or seconds is None:
            raise incomplete("energies, times and final summary", output)
        facts = dict(re.findall(r"^(\w+):\s*(\S+)\s*$", summary.group(1), re.MULTILINE))
        ranks, energy = facts.get("mpi_procs"), float(energies[-1][1].replace("D", "E"))
        return Result(
            {"scf_ms": 1000.0 * sum(steps) / len(steps), "wall_s": float(seconds.group(1))},
            [
                Check("end", "Calculation completed." in output, "not completed"),
                Check("processes", ranks == str(case.ranks), f"{ranks}"),
                Check(
                    "self-consistency", CONVERGED.search(output) is not None,
                    f"not reached in {len(steps)} steps",
                ),
                Check("total energy", energy < ENERGY_MAX, f"{energy} Ha"),
            ],
            {"energy": energy},
        )  # fmt: skip
