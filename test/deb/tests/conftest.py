# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the tests of the Debian packages: the packages, and a system to install them."""

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
    parser.addoption("--containers", action="store_true", help="the tests of containers, no others")


def pytest_configure(config):
    """Register the mark; let SIGTERM end the run as Ctrl-C does, so that labs are removed."""
    config.addinivalue_line("markers", "containers: runs with --containers, nothing else does")
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """Deselect tests that were not requested, instead of counting them as skipped."""
    asked = config.getoption("--containers")

    def is_wanted(item):
        return (item.get_closest_marker("containers") is not None) == asked

    wanted = list(filter(is_wanted, items))
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


class System:
    """A clean system on which the packages are installed."""

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
