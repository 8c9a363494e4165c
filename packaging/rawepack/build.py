# SPDX-License-Identifier: BSD-3-Clause
"""Builds the packages: on this machine, or on a clean system of some release of Debian."""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .chroot import Chroot
from .errors import PackError
from .source import unpack

PACKAGES = ("rawe", "openmpi-rawe")
SUFFIXES = (".deb", ".dsc", ".tar.gz", ".tar.xz", ".buildinfo", ".changes")
BUILD = ["dpkg-buildpackage", "--unsigned-source", "--unsigned-changes", "--jobs-try=auto"]


@dataclass
class Built:
    """Where the packages are."""

    output: Path

    @property
    def packages(self):
        """The binary packages, without those of debugging symbols."""
        return sorted(p for p in self.output.glob("*.deb") if "-dbgsym_" not in p.name)


def _release(text):
    """The end of the packages' version on a system, from its os-release: deb12."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    version = fields.get("VERSION_ID", "").strip('"')
    name = {"debian": "deb"}.get(fields["ID"].strip('"'), fields["ID"].strip('"'))
    return name + version


def _collect(directory, output):
    """Replace what `output` holds of an earlier build."""
    output.mkdir(parents=True, exist_ok=True)
    for place, use in ((output, Path.unlink), (directory, lambda file: shutil.move(file, output))):
        for file in list(place.iterdir()):
            if file.name.startswith(PACKAGES) and file.name.endswith(SUFFIXES):
                use(file)
    return Built(output)


def build_here(root, output):
    """Build with what is installed on this machine, for its own Open MPI."""
    if shutil.which("dpkg-buildpackage") is None:
        raise PackError("dpkg-buildpackage is missing: test/install-deps build deb installs it")
    with tempfile.TemporaryDirectory(prefix="rawe-deb-") as name:
        directory = Path(name)
        release = _release(Path("/etc/os-release").read_text(encoding="utf-8"))
        source = unpack(root, directory, release)
        if subprocess.run(BUILD, cwd=source, check=False).returncode != 0:
            raise PackError(
                "dpkg-buildpackage failed, see above. Where packages are missing for building: "
                "test/install-deps build deb installs them. With --suite nothing is installed here."
            )
        return _collect(directory, output)


def build_in(root, suite, output, also=()):
    """Build on a clean system of a suite. `also` are files below the build directory to keep,
    too: they come to `output` under their own names."""
    with Chroot(suite) as chroot, tempfile.TemporaryDirectory(prefix="rawe-deb-") as name:
        directory = Path(name)
        release = _release((chroot.base / "etc/os-release").read_text(encoding="utf-8"))
        source = unpack(root, directory, release)
        chroot.install_build_dependencies(source)
        log = chroot.must(["sh", "-c", 'cd "$0" && exec "$@"', source, *BUILD], [directory])
        built = _collect(directory, output)
        (output / "build.log").write_text(log, encoding="utf-8")
        for path in also:
            shutil.copy(source / "build" / path, output)
        return built
