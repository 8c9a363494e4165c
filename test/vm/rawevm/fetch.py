# SPDX-License-Identifier: BSD-3-Clause
"""Downloads QEMU and kernels as Debian packages and unpacks them into a cache; installs nothing.

apt verifies packages and resolves dependencies, with its own index for each release. QEMU is always
that of Debian 13, because the 7.2 of Debian 12 cuts large TCP packets into IP fragments. It runs
with its own libraries from its unpacked tree, so it needs neither root nor a chroot.
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
    """Return the directory of all downloads; RAWE_VM_CACHE overrides it."""
    given = os.environ.get("RAWE_VM_CACHE")
    if given:
        return Path(given).resolve()
    return download.cache("vm")


class _Apt:
    """apt with the index of one Debian release, without any installed package."""

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
        """Run apt-get or apt-cache; return its output."""
        return download.run([program, *self.options, *words], cwd)

    def download_with_dependencies(self, package):
        """Download a package and its dependencies; return the files."""
        self.run("apt-get", "install", "--yes", "--download-only", package)
        return sorted((self.directory / "archives").glob("*.deb"))

    def download(self, package):
        """Download one package; return the file."""
        archives = self.directory / "archives"
        self.run("apt-get", "download", package, cwd=archives)
        return next(archives.glob(f"{package}_*.deb"))

    def depends(self, package):
        """Return the first dependency of a meta-package."""
        listing = self.run("apt-cache", "depends", package)
        return re.search(r"Depends: (\S+)", listing).group(1)


def _unpack(archives, tree):
    """Unpack packages next to a tree; the caller renames the result when it is complete."""
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
        """Return the start of its command line, with its own loader and libraries."""
        loader = self.tree / LIBRARIES / "ld-linux-x86-64.so.2"
        libraries = self.tree / LIBRARIES
        argv = [loader, "--library-path", libraries, self.tree / "usr/bin/qemu-system-x86_64"]
        for firmware in ("qemu", "seabios"):
            argv += ["-L", self.tree / "usr/share" / firmware]
        return list(map(str, argv))

    def environment(self):
        """Return the environment variables that tell it where its accelerator is."""
        return {"QEMU_MODULE_DIR": str(self.tree / LIBRARIES / "qemu")}


@dataclass(frozen=True)
class Kernel:
    """A kernel, unpacked; `version` is that of uname."""

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
    """Return QEMU of Debian 13, downloaded if necessary."""
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
    """Return the kernel of this name (see KERNELS), downloaded if necessary."""
    if name not in KERNELS:
        raise LabError(f"kernel {name!r} is unknown; choose one of {', '.join(KERNELS)}")
    tree = cache() / f"linux-{name}"
    if not tree.exists():
        with download.locked(cache()):
            if not tree.exists():
                apt = _Apt(KERNELS[name])
                archive = apt.download(apt.depends("linux-image-amd64"))
                partial = _unpack([archive], tree)
                if not (partial / "lib").exists():  # Debian 13 has modules only below usr
                    (partial / "lib").symlink_to("usr/lib")
                download.run(["depmod", "--basedir", partial, _kernel_in(partial).version])
                partial.rename(tree)
    return _kernel_in(tree)
