# SPDX-License-Identifier: BSD-3-Clause
"""Gets QEMU and kernels as Debian packages and unpacks them into a cache; installs nothing.

apt verifies and resolves, with an index of its own for each release. QEMU is that of Debian 13
on any machine: the 7.2 of Debian 12 cuts large TCP packets into IP fragments. It runs from its
tree with the libraries beside it, so it needs neither root nor a chroot.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rawelab import download
from rawelab.command import LabError
from rawelab.download import KEYRING, MIRROR

QEMU_RELEASE = "trixie"
KERNELS = {"6.1": "bookworm", "6.12": "trixie"}
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def cache():
    """The directory that holds everything fetched; RAWE_VM_CACHE names another one."""
    given = os.environ.get("RAWE_VM_CACHE")
    if given:
        return Path(given).resolve()
    return download.cache("vm")


class _Apt:
    """apt with the index of one Debian release, knowing of no installed package."""

    def __init__(self, release):
        if not KEYRING.exists():
            raise LabError(f"{KEYRING} is missing: the packages are fetched with Debian's apt")
        self.directory = cache() / f"apt-{release}"
        for name in ("lists/partial", "archives/partial"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        (self.directory / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] {MIRROR} {release} main\n", encoding="ascii"
        )
        settings = {
            "APT::Architecture": "amd64",
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Dir::State::Lists": self.directory / "lists",
            "Dir::State::status": self.directory / "status",
            "Dir::Etc::sourcelist": self.directory / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Cache": self.directory,
        }
        self.options = [word for key in settings for word in ("-o", f"{key}={settings[key]}")]
        self.run("apt-get", "update")

    def run(self, program, *words, cwd=None):
        """Run apt-get or apt-cache; its output."""
        return download.run([program, *self.options, *words], cwd)

    def download_with_dependencies(self, package):
        """The files of a package and all that it depends on."""
        self.run("apt-get", "install", "--yes", "--download-only", package)
        return sorted((self.directory / "archives").glob("*.deb"))

    def download(self, package):
        """The file of one package."""
        archives = self.directory / "archives"
        self.run("apt-get", "download", package, cwd=archives)
        return next(archives.glob(f"{package}_*.deb"))

    def depends(self, package):
        """The first package that a meta-package stands for."""
        listing = self.run("apt-cache", "depends", package)
        return re.search(r"Depends: (\S+)", listing).group(1)


def _unpack(archives, tree):
    """Unpack packages beside a tree; the caller gives the result its name when it is complete."""
    partial = tree.with_name(f"{tree.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for archive in archives:
        download.run(["dpkg-deb", "--extract", archive, partial])
        archive.unlink()
    return partial


@dataclass(frozen=True)
class Qemu:
    """QEMU, unpacked."""

    tree: Path

    def argv(self):
        """The start of a command line that runs it, with its own loader and libraries."""
        loader = self.tree / LIBRARIES / "ld-linux-x86-64.so.2"
        libraries = self.tree / LIBRARIES
        argv = [loader, "--library-path", libraries, self.tree / "usr/bin/qemu-system-x86_64"]
        for firmware in ("qemu", "seabios"):
            argv += ["-L", self.tree / "usr/share" / firmware]
        return list(map(str, argv))

    def environment(self):
        """What it needs in its environment to find its accelerator."""
        return {"QEMU_MODULE_DIR": str(self.tree / LIBRARIES / "qemu")}


@dataclass(frozen=True)
class Kernel:
    """A kernel, unpacked: `version` is what uname says."""

    tree: Path
    version: str

    @property
    def image(self):
        """The bootable file."""
        return self.tree / "boot" / f"vmlinuz-{self.version}"

    @property
    def modules(self):
        """The directory that belongs at /lib/modules/<version>."""
        return self.tree / "lib" / "modules" / self.version


def qemu():
    """QEMU of Debian 13, fetched when it is not there yet."""
    tree = cache() / "qemu"
    if not tree.exists():
        with download.locked(cache()):
            if not tree.exists():
                archives = _Apt(QEMU_RELEASE).download_with_dependencies("qemu-system-x86")
                _unpack(archives, tree).rename(tree)
    return Qemu(tree)


def _kernel_in(tree):
    return Kernel(tree, next((tree / "lib" / "modules").iterdir()).name)


def kernel(name):
    """The kernel of that name (see KERNELS), fetched when it is not there yet."""
    if name not in KERNELS:
        raise LabError(f"kernel {name!r} is unknown; choose one of {', '.join(KERNELS)}")
    tree = cache() / f"linux-{name}"
    if not tree.exists():
        with download.locked(cache()):
            if not tree.exists():
                apt = _Apt(KERNELS[name])
                archive = apt.download(apt.depends("linux-image-amd64"))
                partial = _unpack([archive], tree)
                if not (partial / "lib").exists():  # Debian 13 puts modules below usr only
                    (partial / "lib").symlink_to("usr/lib")
                download.run(["depmod", "--basedir", partial, _kernel_in(partial).version])
                partial.rename(tree)
    return _kernel_in(tree)
