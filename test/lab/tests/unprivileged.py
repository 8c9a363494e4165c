# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of users without privileges: their identity, and where their files are."""

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE

from rawelab import launch

NOBODY = 65534
ROOT = Path(__file__).resolve().parents[3]
COMPONENT_SOURCES = ROOT / "opal/mca/btl/rawe"


def as_user(user, *groups):
    """Return the command by which root becomes a user with these groups, the first its primary."""
    others = f"--groups={','.join(map(str, groups[1:]))}" if groups[1:] else "--clear-groups"
    return ("setpriv", f"--reuid={user}", f"--regid={groups[0]}", others, "--inh-caps=-all")


USER = as_user(NOBODY, NOBODY)


@contextmanager
def public_place(build, verify):
    """A directory that every user can read, with components, program and a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="rawe-place-", dir="/tmp"))
    try:
        for libs in (launch.COMPONENT, launch.COLLECTIVES):
            (directory / libs).mkdir(parents=True)
            for component in (build / libs).glob("mca_*.so"):
                shutil.copy(component, directory / libs)
        shutil.copy(verify, directory)
        for path in (directory, *directory.rglob("*")):
            path.chmod(0o755)
        (directory / "tmp").mkdir()
        (directory / "tmp").chmod(0o1777)
        yield directory
    finally:
        shutil.rmtree(directory)


def give_capability(program):
    """Let the group of nobody run a program with CAP_NET_RAW, as described in doc/security.md."""
    shutil.chown(program, "root", NOBODY)
    program.chmod(0o750)
    done = subprocess.run(["setcap", "cap_net_raw=ep", program], check=False)
    if done.returncode != 0:
        pytest.skip("this machine does not let a file have capabilities")


def build_helper(directory, *more):
    """Build rawe-socket-helper with its access list, `helper.conf`, in this directory."""
    program = directory / "rawe-socket-helper"
    names = ("packet/rawe_filter", "sys/rawe_descriptor")
    sources = [COMPONENT_SOURCES / f"linux/{name}.c" for name in names]
    command = ["cc", "-std=gnu11", "-O2", f"-I{COMPONENT_SOURCES}"]
    command += [f'-DRAWE_HELPER_LIST="{directory}/helper.conf"', "-o", program]
    subprocess.run([*command, ROOT / "tools/rawe-socket-helper.c", *sources, *more], check=True)
    return program


def variables(place, **others):
    """Return the environment of a user's job, which writes only below the public directory."""
    names = ("HOME", "TMPDIR", "OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
    return {**{name: str(place / "tmp") for name in names}, **others}


def run(lab, place, *starter, user=USER, **others):
    """Run two ranks of one host, which communicate over lo."""
    program = [place / "rawe-verify", "--quick", "--scale", "0.1", "--only", "pt2pt"]
    return lab.mpirun(
        ["-np", 2, *RAWE, *starter, *program],
        timeout=HANG_SECONDS,
        build=place,
        prefix=user,
        variables=variables(place, **others),
    )
