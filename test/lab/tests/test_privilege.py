# SPDX-License-Identifier: BSD-3-Clause
"""The ways to CAP_NET_RAW that doc/security.md tells of, gone by a user without any privilege."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, help_messages, show

from rawelab import launch

NOBODY = 65534
USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
RAISE = ("--inh-caps", "+net_raw", "--ambient-caps", "+net_raw")
SECURITY = Path(__file__).resolve().parents[3] / "doc/security.md"


@pytest.fixture
def place(build, verify):
    """A directory that every user can read: component, program, and the starter of the document."""
    directory = Path(tempfile.mkdtemp(prefix="rawe-place-", dir="/tmp"))
    try:
        libs = directory / launch.COMPONENT
        libs.mkdir(parents=True)
        for name in ("mca_btl_rawe.so", "help-mpi-btl-rawe.txt"):
            shutil.copy(build / launch.COMPONENT / name, libs)
        shutil.copy(verify, directory)
        starter = directory / "rawe-setpriv"
        install = ["install", "-o", "root", "-g", str(NOBODY), "-m", "0750", shutil.which("setpriv")]
        subprocess.run([*install, starter], check=True)
        capable = subprocess.run(["setcap", "cap_net_raw=ep", starter], check=False)
        if capable.returncode != 0:
            pytest.skip("this machine does not let a file have capabilities")
        for path in (directory, *directory.rglob("*")):
            if path != starter:
                path.chmod(0o755)
        (directory / "tmp").mkdir()
        (directory / "tmp").chmod(0o1777)
        yield directory
    finally:
        shutil.rmtree(directory)


def run(lab, place, *starter):
    """Two ranks of one host, which reach each other over lo, as a user without privilege."""
    program = [place / "rawe-verify", "--quick", "--scale", "0.1", "--only", "pt2pt"]
    arguments = ["-np", 2, *RAWE, *starter, *program]
    return lab.mpirun(
        arguments,
        timeout=HANG_SECONDS,
        build=place,
        prefix=USER,
        variables={
            name: str(place / "tmp") for name in ("HOME", "TMPDIR", "OMPI_MCA_orte_tmpdir_base")
        },
    )


def test_the_starter_gives_a_user_what_rawe_needs(make_lab, place):
    result = run(make_lab(hosts=1), place, place / "rawe-setpriv", *RAISE)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_without_it_the_user_is_told(make_lab, place):
    lab = make_lab(hosts=1)
    for _ in range(4):  # Open MPI 4.1.4 loses a message now and then, see test_bad_days.py
        result = run(lab, place)
        if help_messages(result):
            break
    assert result.returncode != 0 and not result.timed_out, show(result)
    messages = help_messages(result)
    assert messages and "CAP_NET_RAW" in messages[0], show(result)


def test_the_starter_gives_nothing_else(make_lab, place):
    lab = make_lab(hosts=1)
    command = [*USER, place / "rawe-setpriv", *RAISE, "grep", "^Cap", "/proc/self/status"]
    found = dict(line.split() for line in lab.run(0, command, check=True).stdout.splitlines())
    net_raw = f"{1 << 13:016x}"
    assert found["CapEff:"] == found["CapPrm:"] == found["CapAmb:"] == net_raw


def test_only_its_group_may_start_it(make_lab, place):
    lab = make_lab(hosts=1)
    outsider = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "--inh-caps=-all"]
    # With a shell between: root's rights end when the first program begins, not before.
    done = lab.run(0, [*outsider, "sh", "-c", '"$0" true', place / "rawe-setpriv"])
    assert done.returncode != 0 and "ermission denied" in done.stderr


def test_the_document_has_these_commands():
    text = SECURITY.read_text(encoding="utf-8")
    assert "install -o root -g rawe -m 0750 /usr/bin/setpriv" in text
    assert "setcap cap_net_raw=ep" in text and " ".join(RAISE) in text


def test_an_open_socket_needs_the_capability_no_more(make_lab):
    lab = make_lab(hosts=2)
    code = (
        "import os, socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
        f"os.setresuid({NOBODY}, {NOBODY}, {NOBODY}); s.bind(('eth0', 0)); "
        "print(s.send(bytes(60)))"
    )
    done = lab.run(0, ["/usr/bin/python3", "-c", code])
    assert done.stdout.strip() == "60", done.stderr
