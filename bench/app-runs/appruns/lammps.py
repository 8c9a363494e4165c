# SPDX-License-Identifier: BSD-3-Clause
"""LAMMPS: a Lennard-Jones crystal that melts, the same number of atoms on all ranks together."""

import re
from typing import ClassVar

from benchlib.program import Check, Result, incomplete
from benchlib.summary import Metric

from .application import Application

# The atomic fluid of LAMMPS's own benchmarks; the box is `cells` unit cells of 4 atoms wide.
INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 1 check yes
fix 1 all nve
thermo_modify lost error norm yes
thermo {every}
run {steps}
"""
LOOP = re.compile(
    r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", re.MULTILINE
)
COMM = re.compile(r"^Comm\s*\|\s*\S+\s*\|\s*(\S+)\s*\|\s*\S+\s*\|\s*\S+\s*\|\s*(\S+)", re.MULTILINE)
# Step Temp E_pair E_mol TotEng Press
THERMO = re.compile(r"^\s*(\d+)((?:\s+-?\d\S*){5})\s*$", re.MULTILINE)
DANGEROUS = re.compile(r"^Dangerous builds = (\d+)", re.MULTILINE)
# Energy of the perfect lattice at this density and cutoff, and of its first temperature.
LATTICE_ENERGY = -6.7733681
FIRST_TEMPERATURE = 1.44
DRIFT_MAX = 0.005  # of the total energy, relative; the integrator's own is a third of that


class Lammps(Application):
    """LAMMPS's Lennard-Jones melt."""

    name = "lammps"
    title = "LAMMPS"
    program = "lmp"
    package = "lammps"
    metrics = (
        Metric("step_ms", "time per step", "ms", False),
        Metric("loop_s", "time of all steps", "s", False),
        Metric("comm_s", "time in communication, average of the ranks", "s", False),
        Metric("comm_percent", "share of communication", "%", False),
    )
    sizes: ClassVar = {"quick": (10, 400), "full": (16, 1000)}  # unit cells along an edge, steps
    checked = (
        "all steps with all atoms, the lattice's energy at the start, total energy kept, no "
        "dangerous neighbour lists; energy, temperature and pressure at the end the same in all "
        "runs"
    )

    def prepare(self, directory, case):
        cells, steps = self.sizes[case.size]
        text = INPUT.format(cells=cells, steps=steps, every=steps // 4)
        (directory / "in.melt").write_text(text, encoding="ascii")

    def commands(self, found, case):
        return [[found, "-in", "in.melt", "-log", "none"]]

    def read(self, output, files, case):
        cells, steps = self.sizes[case.size]
        loop, comm = LOOP.search(output), COMM.search(output)
        rows = [
            (int(step), [float(word) for word in words.split()])
            for step, words in THERMO.findall(output)
        ]
        rows = [(step, values) for step, values in rows if step % (steps // 4) == 0]
        if loop is None or comm is None or not rows:
            raise incomplete("'Loop time', communication time or energies", output)
        seconds = float(loop.group(1))
        ranks, done, atoms = (int(loop.group(number)) for number in (2, 3, 4))
        first, last = rows[0][1], rows[-1][1]
        drift = abs(last[3] - first[3]) / abs(first[3])
        dangerous = DANGEROUS.search(output)
        result = Result(
            {
                "step_ms": 1000.0 * seconds / done,
                "loop_s": seconds,
                "comm_s": float(comm.group(1)),
                "comm_percent": float(comm.group(2)),
            }
        )
        result.checks = [
            Check("processes", ranks == case.ranks, f"{ranks}"),
            Check(
                "steps and atoms",
                (done, atoms) == (steps, 4 * cells**3) and rows[-1][0] == steps,
                f"{done} steps, {atoms} atoms, last line of step {rows[-1][0]}",
            ),
            Check(
                "energy and temperature of the lattice",
                abs(first[1] - LATTICE_ENERGY) < 1e-6 and abs(first[0] - FIRST_TEMPERATURE) < 1e-6,
                f"{first[1]}, {first[0]}",
            ),
            Check("total energy kept", drift < DRIFT_MAX, f"changed by {drift:.2%}"),
            Check(
                "neighbour lists", dangerous is not None and dangerous.group(1) == "0",
                f"{dangerous.group(1) if dangerous else 'unknown'} dangerous builds",
            ),
        ]  # fmt: skip
        # Two orders of MPI_Allreduce, coll/rawe's and tuned's, differ in the eighth digit by then.
        values = {"temperature": last[0], "energy": last[3], "pressure": last[4]}
        result.steady = {name: float(f"{value:.6g}") for name, value in values.items()}
        return result
