# SPDX-License-Identifier: BSD-3-Clause
"""The applications: input, command line, metrics and checks of each, and their driver."""

import math
import re
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar

from benchlib import BenchError
from benchlib.cli import list_of
from benchlib.driver import (
    HOSTS_MOST,
    CaseDriver,
    Check,
    Program,
    Result,
    compile_mpi,
    incomplete,
    npb_result,
)
from benchlib.summary import Metric


class Application(Program):
    """An application with a quick and a full problem; its libraries start no threads."""

    environment: ClassVar = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


# "  0:       1 bytes    500 times -->     78.82 Mbps in       0.10 usec"
NETPIPE = re.compile(
    r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+(\S+) Mbps in\s+(\S+) usec", re.MULTILINE
)
INTEGRITY = re.compile(
    r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+(Integrity .*?)\s*$", re.MULTILINE
)
LATENCY_BYTES = 64  # NetPIPE's latency is the average over shorter messages
NETPIPE_SMALL, NETPIPE_LARGE = 4096, 65536


class Netpipe(Application):
    """NetPIPE: ping-pong between two ranks at many sizes, after an integrity check."""

    name = "netpipe"
    title = "NetPIPE"
    program = "NPopenmpi"
    package = "netpipe-openmpi"
    metrics = (
        Metric("latency_us", f"latency below {LATENCY_BYTES} bytes", "µs", False),
        Metric("small_us", f"{NETPIPE_SMALL >> 10} KiB", "µs", False),
        Metric("large_us", f"{NETPIPE_LARGE >> 10} KiB", "µs", False),
        Metric("peak_mbits", "highest rate", "Mbit/s", True),
    )
    # Largest messages of the integrity check and of the measurement; repetitions per size.
    checked = "its integrity check of each size, and all sizes measured"
    sizes: ClassVar = {"quick": (20000, 70000, 300), "full": (1100000, 4400000, 500)}

    def why_not(self, size, ranks):
        return None if ranks == 2 else "NetPIPE runs on two ranks"

    def commands(self, found, case):
        checked, largest, repetitions = self.sizes[case.size]
        return [
            [found, "-i", "-p", "0", "-u", str(checked), "-n", "20", "-o", "integrity.out"],
            [found, "-p", "0", "-u", str(largest), "-n", str(repetitions), "-o", "np.out"],
        ]

    def read(self, output, files, case):
        lines = {int(size): (float(rate), float(us)) for size, rate, us in NETPIPE.findall(output)}
        short = [us for size, (_, us) in lines.items() if size < LATENCY_BYTES]
        checks = INTEGRITY.findall(output)
        largest = max([0, *lines])
        if not short or NETPIPE_LARGE not in lines or NETPIPE_SMALL not in lines or not checks:
            raise incomplete("values of all sizes, or integrity checks", output)
        wrong = [
            f"{size} bytes: {text}" for size, text in checks if text != "Integrity check passed"
        ]
        checked, wanted, _ = self.sizes[case.size]
        last_checked = max(int(size) for size, _ in checks)
        return Result(
            {
                "latency_us": sum(short) / len(short),
                "small_us": lines[NETPIPE_SMALL][1],
                "large_us": lines[NETPIPE_LARGE][1],
                "peak_mbits": max(rate for rate, _ in lines.values()),
            },
            [
                Check("integrity", not wrong, "; ".join(wrong)),
                # Each size is at most half as large again as the last, so the largest exceeds this.
                Check("sizes checked", last_checked > checked / 1.6, f"up to {last_checked} bytes"),
                Check("sizes measured", largest > wanted / 1.6, f"up to {largest} bytes"),
            ],
        )


HPCC_OUTPUT = "hpccoutf.txt"
# HPL's input file for HPCC; its last lines would give PTRANS sizes of its own, but list none.
HPCC_INPUT = """\
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
HPCC_LINE = re.compile(r"^(\w+)=(\S+)$", re.MULTILINE)
TESTS = re.compile(r"^\s*(\d+) tests completed and (passed|failed) residual checks", re.MULTILINE)
SKIPPED = re.compile(r"^\s*(\d+) tests skipped because of illegal input values", re.MULTILINE)
FFT_ERROR_MAX = 1e-10  # the program prints about 1e-15
# The rules of RandomAccess allow 1 % of its updates to be lost; up to that, HPCC prints PASSED.
RANDOM_ERRORS_MAX = 0.01


def grid(ranks):
    """Return the numbers of rows and columns of the squarest process grid."""
    rows = math.isqrt(ranks)
    while ranks % rows:
        rows -= 1
    return rows, ranks // rows


class Hpcc(Application):
    """HPC Challenge: HPL, PTRANS, RandomAccess, FFT, latency and bandwidth, in one program."""

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
    sizes: ClassVar = {"quick": 1000, "full": 4000}  # N of HPL's matrix; others follow from N
    keeps = (HPCC_OUTPUT,)
    checked = (
        "`Success=1`, the residuals of HPL and PTRANS, RandomAccess's wrong updates, the error of "
        "the FFT"
    )

    def why_not(self, size, ranks):
        return "its network tests need two ranks" if ranks < 2 else None

    def prepare(self, directory, case):
        rows, columns = grid(case.ranks)
        text = HPCC_INPUT.format(size=self.sizes[case.size], block=64, rows=rows, columns=columns)
        (directory / "hpccinf.txt").write_text(text, encoding="ascii")

    def commands(self, found, case):
        return [[found]]

    def read(self, output, files, case):
        text = files.get(HPCC_OUTPUT, "")
        found = dict(HPCC_LINE.findall(text))
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


# The atomic fluid of LAMMPS's own benchmarks, in a box `cells` unit cells of 4 atoms wide.
LAMMPS_INPUT = """\
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
# Energy of the perfect lattice at this density and cutoff, and the initial temperature.
LATTICE_ENERGY = -6.7733681
FIRST_TEMPERATURE = 1.44
DRIFT_MAX = 0.005  # relative drift of the total energy: three times the integrator's own


class Lammps(Application):
    """LAMMPS: a melting Lennard-Jones crystal, strong scaling."""

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
        text = LAMMPS_INPUT.format(cells=cells, steps=steps, every=steps // 4)
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
        # By then the orders of summation in coll/rawe and coll/tuned differ in the eighth digit.
        values = {"temperature": last[0], "energy": last[3], "pressure": last[4]}
        result.steady = {name: float(f"{value:.6g}") for name, value in values.items()}
        return result


# A norm-conserving pseudopotential of Troullier and Martins that comes with Debian's abinit-data.
PSEUDO_DIRECTORY = "/usr/share/abinit/psp/PseudosTM_pwteter"
PSEUDO = "14si.pspnc"
# The cubic cell of eight atoms at one k point. The bands are divided among the ranks: each step
# transposes the wave functions between a division by bands and one by plane waves (MPI_Alltoallv).
ABINIT_INPUT = """\
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
BANDS = 16  # filled by silicon's 32 valence electrons
ENERGY = re.compile(r"^\s*ETOT\s+(\d+)\s+(\S+)", re.MULTILINE)
CONVERGED = re.compile(r"At SCF step\s+(\d+), etot is converged")
TIME = re.compile(r"^ *Proc\. +0 individual time \(sec\): cpu= *\S+ +wall= *(\S+)", re.MULTILINE)
STEP = re.compile(r"^\{SCF_istep: \d+ , .*wall_time: ' *(\S+) \[s\]", re.MULTILINE)
SUMMARY = re.compile(r"^--- !FinalSummary\n(.*?)^\.\.\.", re.MULTILINE | re.DOTALL)
ENERGY_MAX = 0.0  # the atoms are bound


class Abinit(Application):
    """ABINIT: the ground state of a silicon crystal, its bands divided among the ranks."""

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
        text = ABINIT_INPUT.format(
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


# Without coupling to a bath and without removal of the centre of mass's motion, no sum over the
# ranks acts on the atoms: their paths are the same with any transport.
GROMACS_INPUT = """\
integrator = md
dt = 0.002
comm-mode = none
nstlog = 100
nstenergy = 100
coulombtype = PME
gen-vel = yes
gen-temp = 300
gen-seed = 1
ld-seed = 1
"""
GROMACS_TOPOLOGY = """\
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
# Two of the boxes of water that come with GROMACS, in each direction. gmx solvate adds the number
# of molecules to the topology. grompp would stop at its warning about the centre of mass.
GROMACS_TOOLS = (
    "gmx solvate -cs spc216.gro -box 3.72412 -p topol.top -o water.gro",
    "gmx grompp -f water.mdp -p topol.top -c water.gro -o water.tpr -maxwarn 1",
)
GROMACS_LOG = "md.log"
# Names and values, in columns of 15 characters.
GROMACS_STEP = re.compile(
    r"^ +Step +Time\n +(\d+) .*?Energies \(kJ/mol\)\n(.*?)\n\n", re.MULTILINE | re.DOTALL
)
GROMACS_RANKS = re.compile(r"^On (\d+) MPI rank", re.MULTILINE)
GROMACS_SPEED = re.compile(r"^Performance: +(\S+)", re.MULTILINE)
# Rows of the accounting: name, ranks, threads, calls, seconds, cycles, share.
GROMACS_COMM = re.compile(
    r"^ (?:.*Comm\.|DD comm\. load|PME redist\.).*?(?: +\d+){3} +(\S+) +\S+ +\S+$", re.MULTILINE
)
GROMACS_TOTAL = re.compile(r"^ Total +(\S+) +\S+ +100\.0$", re.MULTILINE)
GROMACS_DRIFT_MAX = 0.001  # relative drift of the total energy: five times the integrator's own
GROMACS_TEMPERATURE = (270, 340)  # K; on average 308, standard deviation 4


def gromacs_energies(log):
    """Return [(step, {name: value})] of a log."""
    found = []
    for step, text in GROMACS_STEP.findall(log):
        lines = text.splitlines()
        found.append((int(step), {}))
        for names, values in zip(lines[::2], lines[1::2]):
            for at, value in enumerate(values.split()):
                found[-1][1][names[15 * at : 15 * at + 15].strip()] = float(value)
    return found


class Gromacs(Application):
    """GROMACS: a box of water with long-range electrostatics (PME)."""

    name = "gromacs"
    title = "GROMACS"
    program = "gmx_mpi"
    package = "gromacs"
    keeps = (GROMACS_LOG,)
    metrics = (
        Metric("ns_day", "simulated time", "ns/day", True),
        Metric("comm_s", "time in communication, average of the ranks", "s", False),
        Metric("comm_percent", "share of communication", "%", False),
    )
    sizes: ClassVar = {"quick": 200, "full": 2000}  # steps
    checked = (
        "all steps, temperature of the water, total energy kept; energies and pressure at the end "
        "the same in all runs"
    )

    def find(self, folder, case):
        program, target = super().find(folder, case), folder / "water.tpr"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            directory = Path(name)
            (directory / "water.mdp").write_text(GROMACS_INPUT, encoding="ascii")
            (directory / "topol.top").write_text(GROMACS_TOPOLOGY, encoding="ascii")
            for tool in GROMACS_TOOLS:
                done = subprocess.run(
                    tool.split(), cwd=name, capture_output=True, text=True, check=False
                )
                if done.returncode != 0:
                    raise BenchError(f"{tool} failed:\n{done.stderr.strip()}")
            (directory / target.name).replace(target)
        return program, str(target.resolve())

    def commands(self, found, case):
        program, box = found
        # Nothing that depends on measured times: no load balancing, no tuning of PME.
        options = "-pin off -npme 0 -dlb no -notunepme -reprod -noconfout -g"
        steps = str(self.sizes[case.size])
        return [[program, "mdrun", "-s", box, "-nsteps", steps, *options.split(), GROMACS_LOG]]

    def read(self, output, files, case):
        log = files.get(GROMACS_LOG, "")
        rows, steps = gromacs_energies(log), self.sizes[case.size]
        ranks, speed, total = (
            one.search(log) for one in (GROMACS_RANKS, GROMACS_SPEED, GROMACS_TOTAL)
        )
        if not rows or ranks is None or speed is None or total is None:
            raise incomplete("energies, accounting and performance", log or output)
        first, (last_step, last) = rows[0][1], rows[-1]
        drift = abs(last["Total Energy"] / first["Total Energy"] - 1.0)
        low, high = GROMACS_TEMPERATURE
        comm = sum(float(seconds) for seconds in GROMACS_COMM.findall(log))
        return Result(
            {
                "ns_day": float(speed.group(1)),
                "comm_s": comm,
                "comm_percent": 100.0 * comm / float(total.group(1)),
            },
            [
                Check("end", "Finished mdrun" in log, "not finished"),
                Check("processes", ranks.group(1) == str(case.ranks), ranks.group(1)),
                Check("steps", last_step == steps, f"last line of step {last_step}"),
                Check(
                    "temperature", all(low < row["Temperature"] < high for _, row in rows),
                    f"{last['Temperature']} K at the end",
                ),
                Check("total energy kept", drift < GROMACS_DRIFT_MAX, f"changed by {drift:.2%}"),
            ],
            {
                "potential energy": last["Potential"],
                "total energy": last["Total Energy"],
                "pressure": last["Pressure (bar)"],
            },
        )  # fmt: skip


# The crystal of ABINIT_INPUT. pw.x divides planes of the grid among the ranks: each FFT transposes
# between a division by planes and one by columns (MPI_Alltoall).
ESPRESSO_INPUT = """\
&control
  calculation = 'scf'
  pseudo_dir = '/usr/share/espresso/pseudo'
  outdir = './'
  disk_io = 'none'
/
&system
  ibrav = 1, celldm(1) = 10.217, nat = 8, ntyp = 1, ecutwfc = {cutoff}
/
&electrons
  conv_thr = 1.0d-10
/
ATOMIC_SPECIES
  Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS crystal
  Si 0.00 0.00 0.00
  Si 0.00 0.50 0.50
  Si 0.50 0.00 0.50
  Si 0.50 0.50 0.00
  Si 0.25 0.25 0.25
  Si 0.25 0.75 0.75
  Si 0.75 0.25 0.75
  Si 0.75 0.75 0.25
K_POINTS tpiba
  1
  0.25 0.25 0.25 1.0
"""
# "electrons    :   1m 2.71s CPU   1m13.71s WALL (       1 calls)"
ESPRESSO_TIME = re.compile(
    r"^ +(electrons|fft_scatt_yz|PWSCF) +:.*CPU +(?:(\d+)m *)?(\S+)s WALL", re.MULTILINE
)
ESPRESSO_ENERGY = re.compile(r"^! +total energy += +(\S+) Ry", re.MULTILINE)
ESPRESSO_RANKS = re.compile(r"^ +Parallel version \(MPI\), running on +(\d+) proc", re.MULTILINE)


class Espresso(Application):
    """Quantum ESPRESSO: the ground state of a silicon crystal, its grid divided among the ranks."""

    name = "espresso"
    title = "Quantum ESPRESSO"
    program = "pw.x"
    package = "quantum-espresso and quantum-espresso-data"
    metrics = (
        Metric("wall_s", "time of the calculation", "s", False),
        Metric("scf_s", "time to self-consistency", "s", False),
        Metric("transpose_s", "time of the FFTs' transpositions, rank 0", "s", False),
    )
    sizes: ClassVar = {"quick": 20.0, "full": 40.0}  # energy cutoff of the plane waves, Ry
    steady_tolerance = 1e-7
    checked = "self-consistency reached; total energy the same in all runs"

    def prepare(self, directory, case):
        text = ESPRESSO_INPUT.format(cutoff=self.sizes[case.size])
        (directory / "si.in").write_text(text, encoding="ascii")

    def commands(self, found, case):
        return [[found, "-in", "si.in"]]

    def read(self, output, files, case):
        times = {
            name: 60.0 * int(minutes or 0) + float(seconds)
            for name, minutes, seconds in ESPRESSO_TIME.findall(output)
        }
        ranks, energy = ESPRESSO_RANKS.search(output), ESPRESSO_ENERGY.search(output)
        if not {"PWSCF", "electrons"} <= times.keys() or ranks is None or energy is None:
            raise incomplete("energy, times and number of processors", output)
        ranks, energy = ranks.group(1), float(energy.group(1))
        reached = "convergence has been achieved" in output
        return Result(
            {
                "wall_s": times["PWSCF"],
                "scf_s": times["electrons"],
                "transpose_s": times.get("fft_scatt_yz", 0.0),  # one rank has no such line
            },
            [
                Check("end", "JOB DONE." in output, "not completed"),
                Check("processes", ranks == str(case.ranks), ranks),
                Check("self-consistency", reached, "not reached"),
                Check("total energy", energy < ENERGY_MAX, f"{energy} Ry"),
            ],
            {"energy": energy},
        )


SOURCES = Path(__file__).resolve().parents[2] / "kernels"


class Kernel(Application):
    """A program of bench/kernels."""

    source = ""
    rate = ""  # name of the output line with the rate
    works = ""  # its units of work, in the plural

    @property
    def metrics(self):
        return (
            Metric("rate", "rate", self.rate, True),
            Metric("seconds", f"time of all {self.works}", "s", False),
            Metric("mpi_percent", "share of time in MPI", "%", False),
        )

    def find(self, folder, case):
        source, headers = SOURCES / self.source, [SOURCES / "kernel.h"]
        return str(compile_mpi(folder / self.program, [source], headers, (), ["-lm"]).resolve())

    def commands(self, found, case):
        return [[found, *(str(number) for number in self.sizes[case.size])]]

    def read(self, output, files, case):
        names = {"rate": self.rate, "seconds": "Time in seconds", "mpi_percent": "MPI share (%)"}
        return npb_result(output, case, names, (*names.values(), "Verification"))


class Bitonic(Kernel):
    """Bitonic merge sort."""

    name = "bitonic"
    title = "Bitonic merge sort"
    program = "rawe-bitonic"
    source = "bitonic.c"
    rate = "Mkey/s"
    checked = "order over all ranks, no key lost, doubled or changed"
    works = "sorts"
    sizes: ClassVar = {"quick": (16384, 50), "full": (65536, 100)}  # keys per rank, repetitions

    def why_not(self, size, ranks):
        if ranks < 1 or ranks & (ranks - 1):
            return "bitonic sort needs a power of two as number of ranks"
        return None


class Cannon(Kernel):
    """Cannon's matrix multiplication."""

    name = "cannon"
    title = "Cannon's multiplication"
    program = "rawe-cannon"
    source = "cannon.c"
    rate = "Mflop/s"
    checked = "the product against `A (B x)`, exactly"
    works = "products"
    sizes: ClassVar = {"quick": (240, 50), "full": (720, 40)}  # rows and columns, repetitions

    def why_not(self, size, ranks):
        edge = math.isqrt(max(ranks, 0))
        if ranks < 1 or edge * edge != ranks:
            return "Cannon's algorithm needs a square as number of ranks"
        rows, _ = self.sizes[size]
        return f"{rows} rows are no multiple of {edge}" if rows % edge else None


PROGRAMS = {
    one.name: one
    for one in (
        Netpipe(),
        Hpcc(),
        Lammps(),
        Abinit(),
        Gromacs(),
        Espresso(),
        Bitonic(),
        Cannon(),
    )
}
# LAMMPS on one rank uses no network: it is the base of the scaling, and tcp and rawe differ there
# only by noise.
RANKS = {
    "netpipe": {"full": (2,), "quick": (2,)},
    "hpcc": {"full": (2, 4), "quick": (2,)},
    "lammps": {"full": (1, 2, 4), "quick": (1, 2, 4)},
    "abinit": {"full": (2, 4), "quick": (2,)},
    "gromacs": {"full": (2, 4), "quick": (2,)},
    "espresso": {"full": (2, 4), "quick": (2,)},
    "bitonic": {"full": (2, 4), "quick": (4,)},
    "cannon": {"full": (4,), "quick": (4,)},
}
EPILOG = """Without --apps: all of them, on one rank a host, one to four hosts.
Without --hostfile: virtual hosts on this machine (as root). With it, the results' folder
(--output) must be visible under the same path on every host: applications run there.
NetPIPE runs on 2 ranks, HPCC on 2 and more, bitonic on powers of two, Cannon on squares; other
combinations are left out.

examples:
  compare --quick
  compare --apps lammps,abinit --np 4 --mtu 9000
  compare --apps hpcc --np 16 --hostfile hosts --interface eth1 --output /home/me/results

Exit status: 0 all runs passed their checks, 1 some did not or a transport is missing, 2 nothing
could be measured, 130 interrupted; the report holds what was measured until then."""


class AppDriver(CaseDriver):
    """The driver behind bench/app-runs/compare."""

    name = "app-runs"
    description = "Measure applications over raw Ethernet frames (rawe) against TCP."
    epilog = EPILOG
    quick = "small problems, 2 rounds; 3 minutes"
    packages = ("build", "bench", "apps")
    works_in_directory = True
    programs: ClassVar = PROGRAMS
    page_title = "Applications over raw Ethernet frames and over TCP"

    def add_options(self, parser):
        names = tuple(PROGRAMS)
        parser.add_argument(
            "--apps",
            type=list_of(names, "application"),
            default=list(names),
            metavar="A,B",
            help=f"of {', '.join(names)}",
        )

    def wanted(self, options):
        size, virtual = "quick" if options.quick else "full", options.hostfile is None
        for name in options.apps:
            for ranks in options.np or RANKS[name][size]:
                hosts = options.hosts or min(ranks, HOSTS_MOST)
                yield name, size, ranks, hosts if virtual else 0
