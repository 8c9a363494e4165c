# SPDX-License-Identifier: BSD-3-Clause
"""What matters about the machine that a benchmark ran on."""

import os
import platform
import subprocess


def _first_line(argv):
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
    except OSError:
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0]


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            models = [line.split(":", 1)[1].strip() for line in file if line[:10] == "model name"]
    except OSError:
        models = []  # no /proc: the report does without
    return models[0] if models else platform.machine()


def _system():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def facts():
    """Name and value of what matters about this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("Processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("Memory", f"{memory:.0f} GiB"),
        ("System", _system()),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("MPI", _first_line(["mpirun", "--version"])),
    ]
