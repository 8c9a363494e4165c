# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the tests of the packages: the packages, and a system to install them."""

import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TEST = Path(__file__).resolve().parents[2]
ROOT = TEST.parent
sys.path[:0] = [str(ROOT / "packaging"), str(TEST / "lab"), str(TEST / "lint")]

from rawepack import Chroot, build_in  # noqa: E402  (the path has to be set first)

# Tests that run only on request, by --NAME, and then alone.
MARKS = {"containers": "the tests of containers", "rpm": "the tests of the RPM packages"}
VERIFY = "test/lab/verify/rawe-verify"
# Dependencies and recommendations of the packages, and programs that the lab's scripts need.
BESIDE = "openmpi-bin python3 ethtool iproute2 adduser libcap2-bin netbase".split()


@dataclass
class Suite:
    """A release of Debian, and its Open MPI."""

    name: str
    version: str  # suffix of the packages' versions
    open_mpi: int  # major version
    library: str
    library_versions: tuple  # at least, and below


SUITES = {
    "bookworm": Suite("bookworm", "~deb12", 4, "libopenmpi3", ("4.1.4", "4.2~")),
    "trixie": Suite("trixie", "~deb13", 5, "libopenmpi40", ("5.0.7", "5.1~")),
}
# Files that change with any installation.
VOLATILE = re.compile(r"/(run|tmp|var/(log|cache|lib/apt))/|/var/lib/dpkg/[^/]*$|/etc/.*-$")


def pytest_addoption(parser):
    """The options that test/run passes on."""
    parser.addoption("--build", default=str(ROOT / "build"), help="build directory")
    for mark, what in MARKS.items():
        parser.addoption(f"--{mark}", action="store_true", help=f"{what}, no others")


def pytest_configure(config):
    """Register the marks; let SIGTERM end the run as Ctrl-C does, so that labs are removed."""
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: runs with --{mark}, nothing else does")
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """Deselect tests that were not requested, instead of counting them as skipped."""
    asked = {mark for mark in MARKS if config.getoption(f"--{mark}")}

    def is_wanted(item):
        return {mark for mark in MARKS if item.get_closest_marker(mark)} == asked

    wanted = list(filter(is_wanted, items))
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


class System:
    """A clean system on which the Debian packages are installed."""

    def __init__(self, suite, chroot, built):
        self.suite = suite
        self.chroot = chroot
        chroot.install(*BESIDE)
        self.before = self.state()
        self.verify = chroot.put(built.output / "rawe-verify")
        chroot.install(*map(chroot.put, built.packages))

    def state(self):
        """Return everything that a package could leave behind: {path or database: content}."""
        listing = self.chroot.must(
            ["find", "/", "-xdev", "-printf", "%p\\t%y %m %U:%G %l\\n"]
        ).splitlines()
        files = dict(line.split("\t", 1) for line in listing)
        found = {path: what for path, what in files.items() if not VOLATILE.search(path)}
        for command in ("getent passwd", "getent group", "dpkg-query --show", "dpkg-divert --list"):
            found[command] = self.chroot.must(command.split())
        return found

    def run(self, words, **options):
        """Run a command; return the finished process."""
        return self.chroot.run(words, **options)


@pytest.fixture(scope="session", params=SUITES)
def suite(request):
    """The release of Debian."""
    return SUITES[request.param]


@pytest.fixture(scope="session")
def built(request, suite):
    """The packages, built on a clean system, and rawe-verify as it was built with them."""
    output = Path(request.config.getoption("--build")).resolve() / "deb" / suite.name
    return build_in(ROOT, suite.name, output, also=[VERIFY])


@pytest.fixture(scope="session")
def system(suite, built):
    """The system, with the packages installed."""
    with Chroot(suite.name) as chroot:
        yield System(suite, chroot, built)
