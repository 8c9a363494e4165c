# SPDX-License-Identifier: BSD-3-Clause
"""Runs the system's network tools; defines the error type of the lab."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

HOST_TABLE = Path("/etc/hosts")  # each virtual host mounts its own over this one

# The programs that every lab needs, and their Debian packages.
TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "ethtool": "ethtool",
    "unshare": "util-linux",
    "taskset": "util-linux",
}


class LabError(Exception):
    """An error for the user: its text says what happened, where, and what to do about it."""


def check_machine():
    """Raise LabError if this machine cannot run a lab: not run as root, or a tool is missing."""
    if os.geteuid() != 0:
        raise LabError("the lab creates network namespaces, which only root may do: run it as root")
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if not HOST_TABLE.exists():
        missing.add("netbase")
    if missing:
        packages = " ".join(sorted(missing))
        raise LabError(
            f"these Debian packages, or what they set up, are missing: {packages}; "
            "test/install-deps installs everything the tests need"
        )


def run(argv, stdin=None, check=True):
    """Run one tool and return its CompletedProcess; raise LabError if it fails.

    The tool runs in its own session, so Ctrl-C does not stop it in the middle of a change.
    """
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise LabError(
            f"command not found: {argv[0]}; test/install-deps installs what the tests need"
        ) from error
    if check and done.returncode != 0:
        shown = f"\ninput was:\n{stdin}" if stdin else ""
        raise LabError(
            f"failed with status {done.returncode}: {shlex.join(argv)}\n"
            f"{done.stderr.strip() or done.stdout.strip()}{shown}"
        )
    return done


def in_netns(netns, argv, stdin=None, check=True):
    """Run one tool inside the named network namespace; see run()."""
    return run(["ip", "netns", "exec", netns, *argv], stdin=stdin, check=check)


def ip_batch(netns, lines):
    """Run many `ip` commands in one process inside a namespace; raise at the first failure."""
    run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")
