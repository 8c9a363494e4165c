# SPDX-License-Identifier: BSD-3-Clause
"""What a reader of a report has to know about machine, hosts and rounds."""

import os
import platform
import subprocess

from .places import place_of


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
        models = []  # no /proc
    return models[0] if models else platform.machine()


def _system():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def machine():
    """Name and value of what matters about this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("Processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("Memory", f"{memory:.0f} GiB"),
        ("System", _system()),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("MPI", _first_line(["mpirun", "--version"])),
    ]


def about(options, started, cases):
    """Name and value of each fact that holds for the whole comparison."""
    hosts = dict.fromkeys(case.hosts for case in cases)
    found = [("Date", started), *merge({n: place_of(options, n).describe() for n in hosts})]
    ranks = sorted({case.ranks for case in cases})
    found += [*machine(), ("Ranks", ", ".join(map(str, ranks))), ("Rounds", options.rounds)]
    if options.against is not None:
        found.append(("old", f"rawe of {options.against}"))
    cores = len(os.sched_getaffinity(0))
    if options.hostfile is None and ranks[-1] > cores:
        text = f"up to {ranks[-1]} ranks share {cores} cores: times include waiting for a core"
        found.append(("Note", text))
    return found


def merge(described):
    """One list of facts from those of each place, by its number of hosts; differing values name
    the hosts."""
    values = {}
    for hosts, facts in described.items():
        for name, value in facts:
            values.setdefault(name, {}).setdefault(value, []).append(hosts)
    merged = []
    for name, by_value in values.items():
        texts = list(by_value)
        if len(texts) > 1 and name != "Hosts":
            texts = [f"{text} ({_hosts(hosts)})" for text, hosts in by_value.items()]
        merged.append((name, "; ".join(texts)))
    return merged


def _hosts(numbers):
    names = [str(number) for number in sorted(numbers)]
    return " and ".join(names) + (" host" if names == ["1"] else " hosts")
