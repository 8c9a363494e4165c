# SPDX-License-Identifier: BSD-3-Clause
"""What both rawe-advise and rawe-setup read on a host: its kernel and its rawe-socket-helper."""

import os
import re
import subprocess
import sys
from pathlib import Path

CAP_NET_RAW = 13
ACCESS_LIST = "/etc/rawe/helper.conf"  # of rawe-socket-helper, unless configured otherwise
BATCHES_KERNEL = (4, 6)  # packet sockets with a ring report GSO packets
GROUPS_KERNEL = (4, 12)  # no member can replace a fanout group's program


def widen_path(*directories):
    """Search these directories last for programs, and those for root, which users may not have."""
    path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([path, *directories, "/usr/sbin", "/sbin"])


def program_folder():
    """Return the folder of the running program."""
    return str(Path(sys.argv[0]).resolve().parent)


def output_of(*argv):
    """Return the output of a read-only command; empty if it fails."""
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def parse_kernel(release):
    """Return (major, minor) of a kernel's release; None if it has none."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match.group(1)), int(match.group(2))) if match else None


def describe_kernel(kernel):
    """Return what a kernel, (major, minor), supports, as text."""
    version = ".".join(map(str, kernel))
    if kernel < BATCHES_KERNEL:
        return f"Linux {version} is too old for batches"
    if kernel < GROUPS_KERNEL:
        return f"Linux {version} is too old for groups of sockets"
    return f"Linux {version}: batches, and groups of sockets"


def find_helper():
    """Return the path of the rawe-socket-helper that the component would start, or None."""
    shown = output_of("ompi_info", "--parsable", "--param", "btl", "rawe", "--level", "9") or ""
    found = re.search(r"^mca:btl:rawe:param:btl_rawe_helper:value:(/.*)$", shown, re.MULTILINE)
    return found and found.group(1).strip()


def find_access_list(helper):
    """Return the path of a helper's access list, which it prints; None if it cannot be started."""
    path = output_of(helper, "--access-list").strip()
    return path if path.startswith("/") else None
