# SPDX-License-Identifier: BSD-3-Clause
"""Installs packages, builds, and finds programs and transports."""

import os
import subprocess
from pathlib import Path

from . import BenchError
from .transports import COMPONENT, TRANSPORTS

SOURCE = Path(__file__).resolve().parents[3]
LAST_LINES = 15


def _logged(argv, directory, log, what):
    """Run one step of the build, and append its output to the log."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(map(str, argv))}\n")
        file.flush()
        done = subprocess.run(
            argv, cwd=directory, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        raise BenchError(
            f"{what} failed in {directory}; the last lines of {log}:\n  " + "\n  ".join(lines)
        )


def install_packages(say, groups=("build", "bench")):
    """Let test/install-deps install missing packages. Prints nothing if none is missing."""
    script = SOURCE / "test" / "install-deps"
    if not script.exists():
        say(f"no {script}: assuming that all packages are there")
        return
    done = subprocess.run(
        [script, *groups], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.stdout.strip():
        say(done.stdout.strip())
    if done.returncode != 0:
        raise BenchError("test/install-deps could not install what is missing (see above)")


def build(directory, say):
    """Configure `directory` if needed, and make rawe and the benchmarks there."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "compare-build.log"
    log.write_text("", encoding="utf-8")
    if not (directory / "Makefile").exists():
        if not (SOURCE / "configure").exists():
            say("preparing the build (autogen.pl)")
            _logged(["./autogen.pl"], SOURCE, log, "./autogen.pl")
        say("configuring the build")
        _logged([SOURCE / "configure"], directory, log, "configure")
    if not (directory / COMPONENT).exists():
        say("building rawe and the benchmarks")
    _logged(["make", "-j2", "bench"], directory, log, "make")


def program(directory, name):
    """Return the path of a program in bench/ of a build. Raises BenchError if it was not built."""
    path = directory / "bench" / name
    if not path.exists():
        raise BenchError(
            f"{path} is not there; run make bench in {directory}, or leave out --no-build"
        )
    return path


def ompi_info(component_path):
    """Return the listing of ompi_info, which also searches `component_path` if it is not None."""
    environment = dict(os.environ)
    if component_path is not None:
        path = f"{component_path}:SYSTEM_DEFAULT:USER_DEFAULT"
        environment["OMPI_MCA_mca_base_component_path"] = path
    try:
        done = subprocess.run(
            ["ompi_info", "--parsable"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise BenchError(
            "ompi_info is not on PATH; test/install-deps installs Debian's Open MPI"
        ) from error
    return done.stdout


def missing_transports(transports, build_directory):
    """Return {transport that cannot run here: reason}."""
    libs = None
    if build_directory is not None and (build_directory / COMPONENT).exists():
        libs = (build_directory / COMPONENT).parent
    listing = ompi_info(libs)
    reasons = {}
    for transport in transports:
        component = TRANSPORTS[transport][1]
        if f"mca:{component}:" in listing:
            continue
        reasons[transport] = f"this Open MPI has no component {component.replace(':', '/')}"
        if transport == "rawe" and build_directory:
            reasons[transport] += f" and {build_directory} holds none that loads"
    return reasons


def make_ready(options, groups, say):
    """Install packages and build. Removes transports that cannot run from options.transports, and
    returns the reasons. Raises BenchError if none is left."""
    if not options.no_build:
        install_packages(say, groups)
        build(options.build, say)
    missing = missing_transports(options.transports, options.build)
    for transport, reason in missing.items():
        say(f"NOT AVAILABLE: {transport}: {reason}")
    options.transports = [name for name in options.transports if name not in missing]
    if not options.transports:
        raise BenchError("none of the transports asked for is available")
    return {name: reason.replace(str(options.build), "build") for name, reason in missing.items()}
