# SPDX-License-Identifier: BSD-3-Clause
"""Debian releases in chroots, for the Open MPI that each has: test/run --ompi."""

import shutil
from pathlib import Path

from rawelab import download

TEST = Path(__file__).resolve().parent
RELEASES = {"5.0": "trixie"}  # by the Open MPI in it


def _debootstrap(release, tree):
    partial = tree.with_name(f"{tree.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # What debootstrap mounts in there is not to outlive it, however it ends.
    argv = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
    argv += [f"--keyring={download.KEYRING}", release, partial, download.MIRROR]
    download.run(argv, group="ompi")
    partial.rename(tree)


def tree(ompi):
    """The chroot with that Open MPI's release, made when it is not there yet; needs root."""
    cache = download.cache("ompi")
    found = cache / ompi
    if not found.exists():
        with download.locked(cache):
            if not found.exists():
                _debootstrap(RELEASES[ompi], found)
    names = Path("/etc/resolv.conf")
    if names.exists():
        (found / "etc/resolv.conf").write_bytes(names.read_bytes())
    return found


def command(directory, argv):
    """The command line that runs `argv` in a chroot, in this checkout."""
    return [TEST / "enter-chroot", directory, *argv]
