# SPDX-License-Identifier: BSD-3-Clause
"""Clean Debian systems: a base made once by debootstrap, and a layer above it for each use.

Every command runs in its own mount namespace, which ends with it. So nothing stays mounted,
whatever happens to who called.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rawelab import download
from rawelab.command import LabError

SUITES = ("bookworm", "trixie")  # packages are built for these
SYSTEMS = ("bullseye", *SUITES)
ENTER = Path(__file__).with_name("enter-chroot")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class PackError(LabError):
    """Something is missing or has failed; the text says what, and what to do."""


def cache():
    """Return the directory of bases and downloaded packages, which RAWE_DEB_CACHE may name."""
    given = os.environ.get("RAWE_DEB_CACHE")
    return Path(given).resolve() if given else download.cache("deb")


def base(suite, tree, group="deb"):
    """Make the root of a minimal system unless it exists. `group` of test/install-deps has the
    tools for that."""
    with download.locked(tree.parent):
        if tree.exists():
            return
        partial = tree.with_name(f"{tree.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        # debootstrap's mounts must not outlive it, however it ends.
        argv = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
        argv += [f"--keyring={download.KEYRING}", suite, partial, download.MIRROR]
        download.run(argv, group=group)
        partial.rename(tree)


class Chroot:
    """An unchanged system of a suite; as a context manager it is removed."""

    def __init__(self, suite):
        if suite not in SYSTEMS:
            raise PackError(f"suite {suite!r} is unknown; choose one of {', '.join(SYSTEMS)}")
        if os.geteuid() != 0:
            raise PackError("a clean system of Debian's needs root (mount, chroot)")
        self.suite = suite
        self.archives = cache() / f"archives-{suite}"
        self.base = cache() / suite
        base(suite, self.base)
        (self.archives / "partial").mkdir(parents=True, exist_ok=True)
        self.layer = Path(tempfile.mkdtemp(prefix=f"{suite}-layer-", dir=cache()))
        for name in ("upper", "work", "root"):
            (self.layer / name).mkdir()
        (self.layer / "upper").chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.layer)

    def put(self, file):
        """Copy a file of this machine to its /tmp, between two commands. Returns the path there."""
        place = self.layer / "upper" / "tmp"
        if not place.exists():
            place.mkdir()
            place.chmod(0o1777)
        shutil.copy(file, place)
        return f"/tmp/{Path(file).name}"

    def argv(self, words, binds=()):
        """Return the command line that runs `words` in it; `binds` are directories and files of
        this machine that it sees under the same names."""
        layers = [self.base, self.layer, self.archives]
        return list(map(str, [ENTER, *layers, len(binds), *binds, *words]))

    def run(self, words, binds=(), variables=None, **options):
        """subprocess.run() in it, as root, with its own environment; text is captured."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(
            self.argv(words, binds),
            env={**ENVIRONMENT, **(variables or {})},
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
            **options,
        )

    def must(self, words, binds=()):
        """Call run(), which must succeed. Returns the output of both streams."""
        done = self.run(words, binds, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            last = "\n".join(done.stdout.splitlines()[-30:])
            raise PackError(f"{' '.join(map(str, words))} failed on {self.suite}:\n{last}")
        return done.stdout

    def install(self, *packages):
        """Install packages, by name or as files in it, without recommended ones."""
        return self._apt("install", packages)

    def install_build_dependencies(self, source):
        """Install the build dependencies of a source package's tree."""
        return self._apt("build-dep", [f"{source}/"], [source])

    def _apt(self, verb, words, binds=()):
        with download.locked(self.archives):
            self.must(["apt-get", "update"])
            options = ["--yes", "--no-install-recommends"]
            return self.must(["apt-get", verb, *options, *words], binds)
