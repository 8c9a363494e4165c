# SPDX-License-Identifier: BSD-3-Clause
"""The RPM packages: built from the tarball by Debian's rpmbuild, for Debian 12's Open MPI, and
installed on another clean Debian 12. Dependencies are ignored: packages have other names there."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import BESIDE, SUITES, System

from rawepack import Chroot

pytestmark = pytest.mark.rpm

RPM = ("rpm", "--force-debian")  # without the option, Debian's rpm refuses
HELPER = "/usr/libexec/rawe/rawe-socket-helper"
LIST = "/etc/rawe/helper.conf"
RECORD = f"{LIST}.before"  # what was there before rawe-setup
COMPONENTS = "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3"
BUILD = ("build-essential", "libopenmpi-dev", "libcmocka-dev", "pkg-config", "rpm")
TOOLS = ("rawe-advise", "rawe-info", "rawe-ping", "rawe-setup", "rawe-top")
# Beside these: documents, and links to the programs by their build identifiers.
BESIDES = ("/usr/share/doc/", "/usr/share/licenses/", "/usr/lib/.build-id")
FILES = {
    "openmpi-rawe": {
        f"{COMPONENTS}/mca_btl_rawe.so",
        f"{COMPONENTS}/mca_coll_rawe.so",
        HELPER,
        *(LIST, RECORD),
        *("/etc/rawe", "/usr/libexec/rawe"),
        "/usr/share/man/man8/rawe-socket-helper.8",
    },
    "rawe-tools": {
        *(f"/usr/bin/{tool}" for tool in TOOLS),
        *(f"/usr/share/man/man1/{tool}.1" for tool in TOOLS),
        *("/usr/share/rawe", "/usr/share/rawe/rawetools"),
        *(f"/usr/share/rawe/rawetools/{name}.py" for name in ("hosts", "system")),
        *("/usr/lib64/wireshark", "/usr/lib64/wireshark/plugins"),
        "/usr/lib64/wireshark/plugins/rawe.lua",
    },
}


@pytest.fixture(scope="session")
def packages(request):
    """The packages' files, by name."""
    build = Path(request.config.getoption("--build")).resolve()
    output = build / "rpm"
    for old in (*build.glob("rawe-*.tar.gz"), *output.glob("*.rpm")):
        old.unlink()
    subprocess.run(["make", "-s", "dist"], cwd=build, check=True)
    (tarball,) = build.glob("rawe-*.tar.gz")
    output.mkdir(exist_ok=True)
    with Chroot("bookworm") as chroot:
        chroot.install(*BUILD)
        argv = ["rpmbuild", "-tb", "--nodeps", "--define", f"_rpmdir {output}"]
        argv += ["--define", "_build_name_fmt %%{NAME}.rpm", "--define", "ompi_prefix /usr"]
        log = chroot.must([*argv, chroot.put(tarball)], [output])
    (output / "build.log").write_text(log, encoding="utf-8")
    return {path.stem: path for path in output.glob("*.rpm")}


class RpmSystem(System):
    """A clean system with the packages, and the state before they were installed."""

    def __init__(self, chroot, packages):
        self.suite = SUITES["bookworm"]
        self.chroot = chroot
        chroot.install(*BESIDE, "rpm")
        self.before = self.state()
        self.files = [chroot.put(path) for path in packages.values()]
        self.said = self.rpm("--install", "--nodeps", *self.files)

    def rpm(self, *words):
        """Run rpm; return its output, which is empty unless something was asked or is wrong."""
        return self.chroot.must([*RPM, *words])

    def differences(self):
        """Return the paths and databases that differ from the state before installation."""
        after = self.state()
        names = {*self.before, *after}
        differ = {name for name in names if self.before.get(name) != after.get(name)}
        return {name for name in differ if not name.startswith("/root/.rpmdb")}


@pytest.fixture(scope="session")
def system(packages):
    """The system, with the packages installed."""
    with Chroot("bookworm") as chroot:
        yield RpmSystem(chroot, packages)


def test_installation_is_silent(system):
    assert system.said == ""


def test_each_file_is_in_its_package(system):
    for package, files in FILES.items():
        listed = {re.sub(r"\.gz$", "", path) for path in system.rpm("-ql", package).split()}
        rest = {path for path in listed - files if not path.startswith(BESIDES)}
        assert files - listed == set() and rest == set()
        assert any(path.endswith("/LICENSE") for path in listed)
    documents = system.rpm("-qd", "openmpi-rawe")
    assert "/doc/security.md\n" in documents and "/README.md\n" in documents


def test_the_component_requires_this_open_mpi_only(system):
    needed = system.rpm("-q", "--requires", "openmpi-rawe").splitlines()
    assert {"openmpi(x86-64) >= 4.1", "openmpi(x86-64) < 4.2"} <= set(needed)
    assert "openmpi" not in system.rpm("-q", "--requires", "rawe-tools")


def test_open_mpi_finds_the_component(system):
    done = system.run(["ompi_info", "--param", "btl", "rawe", "--level", "9"])
    assert "btl_rawe_if_include" in done.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_run(system, tool):
    done = system.run([tool, "--help"])
    assert done.returncode == 0 and tool in done.stdout


def test_the_helper_is_for_its_group_which_is_empty(system):
    """Also after an upgrade, which keeps the access list."""
    must = system.chroot.must

    def check():
        assert must(["stat", "-c", "%U:%G %a", HELPER]).strip() == "root:rawe 750"
        assert must(["getcap", HELPER]).split()[1:] == ["cap_net_raw=ep"]
        assert must(["getent", "group", "rawe"]).strip().endswith(":")
        assert system.rpm("--verify", "--nodeps", *FILES) == ""

    check()
    must(["sh", "-c", f"echo 'interface lo' > {LIST}"])
    assert system.rpm("--upgrade", "--nodeps", "--force", *system.files) == ""
    assert must(["cat", LIST]) == "interface lo\n"
    check()


# Runs a command beside an interface that rawe would use.
BESIDE_NIC = (
    *("unshare", "--net", "sh", "-euc"),
    "ip link add nic0 type veth peer nic1; ip link set nic0 up; ip link set nic1 up; "
    'export OMPI_MCA_btl_rawe_if_include=nic0; exec "$@"',
    "sh",
)


def set_up(system):
    """Set the helper up, and return the access list."""
    system.chroot.must([*BESIDE_NIC, "rawe-setup", "--rights", "helper", "--yes"])
    return system.chroot.must(["cat", LIST])


def test_removal_leaves_the_group_and_the_access_list(system):
    """The record of rawe-setup goes, unless it has a list that the administrator had written."""
    # The last directory belongs to a package of distributions that use RPM.
    expected = {"/etc/rawe", LIST, "getent group", "/usr/share/licenses"}
    assert len(system.differences()) > len(FILES["openmpi-rawe"])
    system.chroot.must(["rm", "-f", LIST])
    assert set_up(system) == "group rawe\ninterface lo nic0\n"
    assert RECORD in system.differences()
    assert system.rpm("--verify", "--nodeps", *FILES) == ""
    assert system.rpm("--upgrade", "--nodeps", "--force", *system.files) == ""
    assert RECORD in system.differences()
    assert system.rpm("--erase", *FILES) == ""
    assert system.differences() == expected

    system.rpm("--install", "--nodeps", *system.files)
    system.chroot.must(["sh", "-c", f"echo 'interface lo' > {LIST}"])
    assert set_up(system) == "interface lo\ngroup rawe\ninterface nic0\n"
    assert system.rpm("--erase", *FILES) == f"warning: {RECORD} saved as {RECORD}.rpmsave\n"
    assert system.differences() == {*expected, f"{RECORD}.rpmsave"}
