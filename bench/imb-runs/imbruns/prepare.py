# SPDX-License-Identifier: BSD-3-Clause
"""Makes sure that everything is there: Debian packages, the build, the benchmark, transports."""

import os
import shutil
import subprocess
from pathlib import Path

from .suites import PEERS

SOURCE = Path(__file__).resolve().parents[3]
COMPONENT = Path("opal/mca/btl/rawe/.libs/mca_btl_rawe.so")
PROGRAMS = {
    "imb": Path("bench/imb-runs/rawe-imb"),
    "pingpong": Path("bench/baseline/baseline-pingpong"),
    "stream": Path("bench/baseline/baseline-stream"),
}
LAST_LINES = 15


class PrepareError(Exception):
    """Something is missing and could not be made; the text says what to do."""


def _logged(argv, directory, log, what):
    """Run one step of the build, its output appended to the log."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(map(str, argv))}\n")
        file.flush()
        done = subprocess.run(
            argv, cwd=directory, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        raise PrepareError(
            f"{what} failed in {directory}; the last lines of {log}:\n  " + "\n  ".join(lines)
        )


def install_packages(say, groups=("build", "bench")):
    """Let test/install-deps install what is missing; it is silent when nothing is."""
    script = SOURCE / "test" / "install-deps"
    if not script.exists():
        say(f"no {script}: taking for granted that all packages are there")
        return
    done = subprocess.run(
        [script, *groups], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.stdout.strip():
        say(done.stdout.strip())
    if done.returncode != 0:
        raise PrepareError("test/install-deps could not install what is missing (see above)")


def build(directory, say):
    """Configure and make in `directory`, what is up to date staying as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "compare-build.log"
    log.write_text("", encoding="utf-8")
    if not (directory / "Makefile").exists():
        if not (SOURCE / "configure").exists():
            say("preparing the build (autogen.pl)")
            _logged(["./autogen.pl"], SOURCE, log, "./autogen.pl")
        say("configuring the build")
        _logged([SOURCE / "configure"], directory, log, "configure")
    if not all((directory / path).exists() for path in PROGRAMS.values()):
        say("building rawe and the benchmarks")
    _logged(["make", "-j2"], directory, log, "make")


def program(directory, name):
    """Path of a program of the build; PrepareError when it was not built."""
    path = directory / PROGRAMS[name]
    if not path.exists():
        raise PrepareError(f"{path} is not there; run make in {directory}, or leave out --no-build")
    return path


def real_imb():
    """Path of IMB-MPI1, from $IMB_MPI1 or PATH, or None; PrepareError when $IMB_MPI1 is wrong."""
    named = os.environ.get("IMB_MPI1")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise PrepareError(
                f"IMB_MPI1={named} is no program; let it name the IMB-MPI1 binary, or unset it"
            )
        return Path(named).resolve()
    found = shutil.which("IMB-MPI1")
    return Path(found) if found else None


def _ompi_info(component_path):
    environment = dict(os.environ)
    if component_path is not None:
        path = f"{component_path}:SYSTEM_DEFAULT:USER_DEFAULT"
        environment["OMPI_MCA_mca_base_component_path"] = path
    try:
        done = subprocess.run(
            ["ompi_info", "--parsable"], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, check=False,
        )
    except FileNotFoundError as error:
        raise PrepareError(
            "ompi_info is not on PATH; test/install-deps installs Debian's Open MPI"
        ) from error
    return done.stdout


def rawe_installed():
    """True when Open MPI finds rawe without being told where it is."""
    return "mca:btl:rawe:" in _ompi_info(None)


def missing_peers(peers, build_directory):
    """Peers that cannot run here, each with the reason."""
    libs = None
    if build_directory is not None and (build_directory / COMPONENT).exists():
        libs = (build_directory / COMPONENT).parent
    listing = _ompi_info(libs)
    reasons = {}
    for peer in peers:
        if f"mca:{PEERS[peer][1]}:" in listing:
            continue
        reasons[peer] = f"this Open MPI has no component {PEERS[peer][1].replace(':', '/')}"
        if peer == "rawe":
            where = f" and {build_directory} holds none that loads" if build_directory else ""
            reasons[peer] += where
    return reasons
