# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the applications: which ones run on how many ranks, and how the outputs of real runs,
intact and spoilt, are read. Also tests of the kernels, on this machine alone."""

import re
import shutil

import pytest
from fakes import needs_mpi, run_local

from appruns import applications
from appruns.applications import PROGRAMS, RANKS, AppDriver
from benchlib import BenchError, cli
from benchlib.driver import Case


def parse(*argv):
    return cli.parse(AppDriver(), argv)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_cases__the_usual_ones_can_all_run(size):
    found = parse(*(["--quick"] if size == "quick" else []))
    assert not found.left_out and {case.program for case in found.cases} == set(PROGRAMS)
    assert {case.size for case in found.cases} == {size}
    assert len(found.cases) == sum(len(ranks[size]) for ranks in RANKS.values())


def test_cases__what_cannot_run_is_left_out():
    found = parse("--quick", "--apps", "NetPIPE,hpcc", "--np", "1,2,8")
    assert [(case.program, case.ranks, case.hosts) for case in found.cases] == [
        ("netpipe", 2, 2),
        ("hpcc", 2, 2),
        ("hpcc", 8, 4),
    ]
    assert len(found.left_out) == 3
    with pytest.raises(BenchError, match="nothing to run"):
        parse("--apps", "netpipe", "--np", "3")


def test_cases__a_hostfile_decides_about_hosts(tmp_path):
    (tmp_path / "hosts").write_text("a\n", encoding="utf-8")
    found = parse("--hostfile", str(tmp_path / "hosts"), "--apps", "lammps", "--np", "8")
    assert found.cases == [Case("lammps", "full", 8, 0)]


def test_parse__an_unknown_application_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse("--apps", "doom")
    assert "doom is no application" in capsys.readouterr().err


READ_RANKS = {"bitonic": 4, "cannon": 4}
VALUES = {
    # The mean of the eleven sizes below 64 bytes; every other size has its own line.
    "netpipe": {
        "latency_us": 4.946363636,
        "small_us": 45.71,
        "large_us": 84.41,
        "peak_mbits": 15971.41,
    },
    "hpcc": {
        "hpl_gflops": 93.0751,
        "ptrans_gbs": 6.61393,
        "random_gups": 0.103769,
        "fft_gflops": 10.2709,
        "latency_us": 0.102358,
        "ring_latency_us": 0.0866545,
        "bandwidth_gbs": 15.8629,
        "ring_bandwidth_gbs": 15.1813,
    },
    "lammps": {"step_ms": 1.836615, "loop_s": 0.734646, "comm_s": 0.249, "comm_percent": 33.89},
    "abinit": {"scf_ms": 1420 / 6, "wall_s": 2.4},
    "gromacs": {"ns_day": 9.07, "comm_s": 1.482, "comm_percent": 148.2 / 3.829},
    "espresso": {"wall_s": 1.03, "scf_s": 0.77, "transpose_s": 0.36},
    "bitonic": {"rate": 5.658, "seconds": 0.579158, "mpi_percent": 73.18},
    "cannon": {"rate": 4339.238, "seconds": 0.318581, "mpi_percent": 87.72},
}


def read(app, text):
    """Return the Result of an application's output."""
    case = Case(app, "quick", READ_RANKS.get(app, 2), 2)
    files = dict.fromkeys(PROGRAMS[app].keeps, text)
    return PROGRAMS[app].read("" if files else text, files, case)


@pytest.mark.parametrize("app", PROGRAMS)
def test_read__a_good_run_passes_and_has_the_values_that_the_program_prints(sample_output, app):
    result = read(app, sample_output(f"{app}.txt"))
    assert result.failed_checks == ""
    assert result.metrics == pytest.approx(VALUES[app])
    assert set(result.metrics) == {metric.key for metric in PROGRAMS[app].metrics}


def test_read__what_has_to_be_the_same_in_all_runs(sample_output):
    assert read("lammps", sample_output("lammps.txt")).steady == {
        "temperature": 0.738624,
        "energy": -4.6227,
        "pressure": 0.410787,
    }
    assert read("abinit", sample_output("abinit.txt")).steady == {"energy": -35.470076502614}
    assert read("gromacs", sample_output("gromacs.txt")).steady == {
        "potential energy": -77507.8,
        "total energy": -64417.8,
        "pressure": 110.045,
    }
    assert read("espresso", sample_output("espresso.txt")).steady == {"energy": -63.34171726}


def test_espresso__reads_minutes(sample_output):
    text = sample_output("espresso.txt")
    text = text.replace("     0.44s CPU      1.03s WALL", "  1m 2.25s CPU   2m13.50s WALL")
    text = text.replace("     0.08s CPU      0.36s WALL", "  1m 1.00s CPU   1m 3.25s WALL")
    assert read("espresso", text).metrics == {"wall_s": 133.5, "scf_s": 0.77, "transpose_s": 63.25}


def test_espresso__one_rank_transposes_nothing(sample_output):
    text = re.sub(r" Parallel routines\n(.*\n){2}", "", sample_output("espresso.txt"))
    assert read("espresso", text).metrics == {"wall_s": 1.03, "scf_s": 0.77, "transpose_s": 0.0}


@pytest.mark.parametrize(
    ("app", "pattern", "replacement", "complaint"),
    [
        ("netpipe", r"(4097 .*) Integrity check passed", r"\1 Integrity check failed", "4097"),
        ("netpipe", r"(?s)\n 2[0-9]: [^\n]*Integrity.*?(?=\nNow)", "", "sizes checked"),
        ("hpcc", "Success=1", "Success=0", "Success"),
        ("hpcc", "1 tests completed and passed", "0 tests completed and passed", "residuals"),
        ("hpcc", "0 tests completed and failed", "2 tests completed and failed", "residuals"),
        ("hpcc", "0 tests skipped", "1 tests skipped", "residuals"),
        ("hpcc", "Access_ErrorsFraction=0", "Access_ErrorsFraction=0.02", "RandomAccess"),
        ("hpcc", "LCG_ErrorsFraction=0", "LCG_ErrorsFraction=0.02", "RandomAccess"),
        ("hpcc", r"MPIFFT_maxErr=\S+", "MPIFFT_maxErr=0.1", "FFT"),
        ("hpcc", r"MPIFFT_maxErr=\S+", "MPIFFT_maxErr=nan", "FFT"),
        ("hpcc", "CommWorldProcs=2", "CommWorldProcs=1", "processes"),
        ("lammps", "on 2 procs", "on 1 procs", "processes"),
        ("lammps", "for 400 steps", "for 300 steps", "steps"),
        ("lammps", "with 4000 atoms", "with 3999 atoms", "atoms"),
        ("lammps", "-6.7733681", "-6.7733", "lattice"),
        ("lammps", r"(\n +400 .* 0 +)-4\.6\d+", r"\1-4.5", "total energy"),
        ("lammps", "Dangerous builds = 0", "Dangerous builds = 3", "neighbour"),
        ("lammps", "Dangerous builds = 0", "", "neighbour"),
        ("abinit", "etot is converged", "etot is not converged", "self-consistency"),
        ("abinit", "Calculation completed.", "", "end"),
        ("abinit", "mpi_procs: 2", "mpi_procs: 1", "processes"),
        ("abinit", r"(ETOT +\d+ +)-", r"\1", "total energy"),
        ("gromacs", "Finished mdrun", "", "end"),
        ("gromacs", "On 2 MPI ranks", "On 1 MPI rank", "processes"),
        ("gromacs", r"\n( +)200( +0\.4)", r"\n\g<1>150\2", "steps"),
        ("gromacs", r"(Total Energy.*\n +)-6\.44178", r"\1-6.45178", "total energy"),
        ("gromacs", r"(Total Energy.*\n +)-6\.44178e\+04", r"\1        nan", "total energy"),
        ("gromacs", r"3\.06985e\+02", "3.46985e+02", "temperature"),
        ("gromacs", r"3\.06985e\+02", "        nan", "temperature"),
        ("espresso", "convergence has been", "convergence NOT", "self-consistency"),
        ("espresso", r"JOB DONE\.", "", "end"),
        ("espresso", "on     2 processors", "on     1 processors", "processes"),
        ("espresso", r"(! +total energy += +)-", r"\1", "total energy"),
        ("bitonic", "= +SUCCESSFUL", "= UNSUCCESSFUL", "UNSUCCESSFUL"),
        ("cannon", "= +SUCCESSFUL", "= UNSUCCESSFUL", "UNSUCCESSFUL"),
        ("cannon", r"(Total processes += +)4", r"\g<1>1", "processes"),
    ],
)
def test_read__a_check_that_fails_is_named(sample_output, app, pattern, replacement, complaint):
    text = sample_output(f"{app}.txt")
    spoilt, count = re.subn(pattern, replacement, text)
    assert count > 0 and spoilt != text
    assert complaint in read(app, spoilt).failed_checks


@pytest.mark.parametrize("app", PROGRAMS)
def test_read__half_an_output_is_an_error(sample_output, app):
    text = sample_output(f"{app}.txt")
    with pytest.raises(BenchError, match="the output has no"):
        read(app, text[: len(text) // 3])
    with pytest.raises(BenchError, match="printed nothing"):
        read(app, "")


def test_grid__is_as_square_as_it_can_be():
    assert [applications.grid(ranks) for ranks in (2, 4, 6, 7, 12, 16)] == [
        (1, 2),
        (2, 2),
        (2, 3),
        (1, 7),
        (3, 4),
        (4, 4),
    ]


def test_prepare__writes_an_input_for_the_case(tmp_path):
    for app in PROGRAMS.values():
        app.prepare(tmp_path, Case(app.name, "full", 4, 4))
    text = (tmp_path / "hpccinf.txt").read_text()
    assert re.search(r"^4000 +Ns$", text, re.MULTILINE)
    assert re.search(r"^2 +Ps\n2 +Qs$", text, re.MULTILINE)
    assert "block 0 16 0 16 0 16" in (tmp_path / "in.melt").read_text()
    assert "npband 4" in (tmp_path / "si.abi").read_text()
    assert "ecutwfc = 40.0\n" in (tmp_path / "si.in").read_text()


def put_gmx(directory, monkeypatch, body):
    """Put a gmx and a gmx_mpi on PATH that only run `body`, in place of GROMACS."""
    for name in ("gmx", "gmx_mpi"):
        (directory / name).write_text(f"#!/bin/sh\n{body}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


def test_gromacs__makes_the_input_before_the_runs(tmp_path, monkeypatch):
    put_gmx(tmp_path, monkeypatch, 'echo "$1" >> topol.top; cat water.mdp topol.top > water.tpr')
    case = Case("gromacs", "quick", 2, 2)
    found = PROGRAMS["gromacs"].find(tmp_path / "programs", case)
    made = tmp_path / "programs" / "water.tpr"
    assert [path.name for path in made.parent.iterdir()] == [made.name]
    assert made.read_text().endswith("[ molecules ]\nsolvate\ngrompp\n")
    assert PROGRAMS["gromacs"].commands(found, case)[0][:6] == [
        str(tmp_path / "gmx_mpi"),
        *("mdrun", "-s", str(made), "-nsteps", "200"),
    ]


def test_gromacs__tells_why_the_input_cannot_be_made(tmp_path, monkeypatch):
    put_gmx(tmp_path, monkeypatch, "echo no such box >&2; exit 1")
    with pytest.raises(BenchError, match="(?s)gmx solvate .* failed:.*no such box"):
        PROGRAMS["gromacs"].find(tmp_path / "programs", Case("gromacs", "quick", 2, 2))


@pytest.mark.parametrize(
    ("app", "good", "bad"),
    [
        ("netpipe", (2,), (1, 3, 4)),
        ("hpcc", (2, 3, 4), (1,)),
        ("lammps", (1, 2, 3), (0,)),
        ("abinit", (1, 2, 4, 8, 16), (0, 3, 32)),
        ("gromacs", (1, 2, 4), (0,)),
        ("espresso", (1, 2, 3), (0,)),
        ("bitonic", (1, 2, 4, 8), (0, 3, 6)),
        ("cannon", (1, 4, 9, 16), (0, 2, 8, 49)),
    ],
)
def test_why_not__numbers_of_ranks(app, good, bad):
    assert [PROGRAMS[app].why_not("full", ranks) for ranks in good] == [None] * len(good)
    assert all(PROGRAMS[app].why_not("full", ranks) for ranks in bad)


@pytest.fixture(scope="module", name="build")
def _build(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def result_of(app, done, ranks):
    """Return the Result of a kernel's run."""
    return PROGRAMS[app].read(done.stdout, {}, Case(app, "quick", ranks, 1))


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [1, 2, 1000])
def test_bitonic__sorts_whatever_the_number_of_ranks_and_keys(build, ranks, keys):
    done = run_local(PROGRAMS["bitonic"].find(build, None), [keys, 3], ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result_of("bitonic", done, ranks).failed_checks == ""


@needs_mpi
@pytest.mark.parametrize(("ranks", "rows"), [(1, 7), (4, 2), (4, 62), (9, 63), (16, 64)])
def test_cannon__multiplies_whatever_the_grid(build, ranks, rows):
    done = run_local(PROGRAMS["cannon"].find(build, None), [rows, 2], ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result_of("cannon", done, ranks).failed_checks == ""


# Each source has one planted fault, which the check must detect.
BROKEN = [
    ("bitonic", "bool ascending = (kernel_rank & stage) == 0;", "bool ascending = true;", 4),
    ("bitonic", "? mine[i++] : theirs[j++]", "? mine[i++] : mine[i++]", 2),
    ("bitonic", "? mine[i--] : theirs[j--]", "? mine[i--] : theirs[j]", 2),
    ("cannon", "shift(a, 1, place[0]);", "shift(a, 1, 0);", 9),
    ("cannon", "shift(b, 0, 1);", "shift(b, 0, 2);", 9),
    ("cannon", "factor * b[k * block + j]", "factor * b[j * block + k]", 1),
]


@needs_mpi
@pytest.mark.parametrize(("app", "right", "wrong", "ranks"), BROKEN)
def test_kernels__a_broken_algorithm_is_unsuccessful(
    tmp_path, monkeypatch, app, right, wrong, ranks
):
    sources = tmp_path / "kernels"
    shutil.copytree(applications.SOURCES, sources)
    source = sources / PROGRAMS[app].source
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    monkeypatch.setattr(applications, "SOURCES", sources)
    done = run_local(PROGRAMS[app].find(tmp_path / "bin", None), [36, 1], ranks)
    assert "UNSUCCESSFUL" in done.stdout
    assert done.returncode == 1
