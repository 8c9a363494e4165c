# SPDX-License-Identifier: BSD-3-Clause
"""Downloads parts of Debian for tests, and caches them."""

import fcntl
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

from .command import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
SECONDS = 1800  # time limit of each command


def cache(name):
    """Return the directory that caches the downloads for `name`."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).resolve() / "rawe" / name


@contextmanager
def locked(directory):
    """Create the directory if necessary, and lock it, so that one process at a time fills it."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(argv, cwd=None, group="vm"):
    """Run a command that needs the network; return its output. install-deps `group` installs it."""
    try:
        done = subprocess.run(
            list(map(str, argv)),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(
            f"command not found: {argv[0]}; test/install-deps {group} installs what is needed"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{argv[0]} did not end within {SECONDS} seconds") from error
    if done.returncode != 0:
        raise LabError(
            f"{' '.join(map(str, argv))} failed with status {done.returncode}; is the network "
            f"there?\n{(done.stderr or done.stdout).strip()[-4000:]}"
        )
    return done.stdout
