# SPDX-License-Identifier: BSD-3-Clause
"""Builds the packages: on this machine, or on a clean system of some release of Debian.

The source package is the tree as upstream's tarball, and debian/ beside it. debian/ is kept in
packaging/ and not at the top of the tree, where Debian's own would have to replace it file by file.
"""

import email.utils
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rawelint import tree

from .chroot import Chroot, PackError

DEBIAN = "packaging/debian"
PACKAGES = ("rawe", "openmpi-rawe")
SUFFIXES = (".deb", ".dsc", ".tar.gz", ".tar.xz", ".buildinfo", ".changes")
BUILD = ["dpkg-buildpackage", "--unsigned-source", "--unsigned-changes", "--jobs-try=auto"]


def _upstream_version(root):
    configure = (root / "configure.ac").read_text(encoding="utf-8")
    return re.search(r"AC_INIT\(\[rawe\], \[([^]]+)\]\)", configure).group(1)


def _strip(log):
    """Return a filter for tarfile that makes tarballs reproducible: files belong to root, and have
    the date of the first entry of the changelog."""
    date = re.search(r"^ -- .*>  (.*)$", log, re.MULTILINE).group(1)
    seconds = int(email.utils.parsedate_to_datetime(date).timestamp())

    def strip(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = seconds
        return member

    return strip


def unpack(root, directory, release):
    """Make rawe_VERSION.orig.tar.gz in `directory`, and the source package's tree beside it.

    `release` ends the package's version: packages for two releases of Debian differ, as their
    Open MPIs do. Returns the tree.
    """
    version = _upstream_version(root)
    log = (root / DEBIAN / "changelog").read_text(encoding="utf-8")
    if not log.startswith(f"rawe ({version}-"):
        raise PackError(
            f"configure.ac has version {version}, and the first line of {DEBIAN}/changelog is "
            f"{log.splitlines()[0]!r}: add an entry there"
        )
    archive = directory / f"rawe_{version}.orig.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in tree.files(root):
            tar.add(root / path, f"rawe-{version}/{path}", filter=_strip(log))
    with tarfile.open(archive) as tar:
        tar.extractall(directory)
    source = directory / f"rawe-{version}"
    debian = source / "debian"
    shutil.copytree(source / DEBIAN, debian)
    shutil.copy(source / "LICENSE", debian / "copyright")
    head, _, rest = log.partition(")")
    (debian / "changelog").write_text(f"{head}~{release}){rest}", encoding="utf-8")
    return source


@dataclass
class Built:
    """The built packages."""

    output: Path

    @property
    def packages(self):
        """The binary packages, without debugging symbols."""
        return sorted(p for p in self.output.glob("*.deb") if "-dbgsym_" not in p.name)


def _release(text):
    """Return the suffix of the packages' version on a system, from its os-release: deb12."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    version = fields.get("VERSION_ID", "").strip('"')
    name = {"debian": "deb"}.get(fields["ID"].strip('"'), fields["ID"].strip('"'))
    return name + version


def _collect(directory, output):
    """Move the packages to `output`, in place of those of an earlier build."""
    output.mkdir(parents=True, exist_ok=True)
    for place, use in ((output, Path.unlink), (directory, lambda file: shutil.move(file, output))):
        for file in list(place.iterdir()):
            if file.name.startswith(PACKAGES) and file.name.endswith(SUFFIXES):
                use(file)
    return Built(output)


def build_here(root, output):
    """Build for this machine's Open MPI, with the installed packages."""
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
    """Build on a clean system of a suite. `also` are programs of tests, below the build
    directory: they come to `output` under their own names."""
    with Chroot(suite) as chroot, tempfile.TemporaryDirectory(prefix="rawe-deb-") as name:
        directory = Path(name)
        release = _release((chroot.base / "etc/os-release").read_text(encoding="utf-8"))
        source = unpack(root, directory, release)
        chroot.install_build_dependencies(source)
        log = chroot.must(["sh", "-c", 'cd "$0" && exec "$@"', source, *BUILD], [directory])
        built = _collect(directory, output)
        (output / "build.log").write_text(log, encoding="utf-8")
        if also:
            chroot.must(["make", "-C", source / "build", "tests"], [directory])
        for path in also:
            shutil.copy(source / "build" / path, output)
        return built
