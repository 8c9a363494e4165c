# SPDX-License-Identifier: BSD-3-Clause
"""What a reader of a report has to know about machine and hosts."""

import os

from . import machine


def about(setup, cases, programs):
    """Name and value of each fact that holds for the whole comparison."""
    found = [("Date", setup["started"]), *machine.facts(), ("Programs", programs)]
    found.append(("Rounds", f"{setup['rounds']}, transports alternately"))
    if setup["hostfile"] is None:
        found.append(("Hosts", "virtual ones: network namespaces of this machine"))
        cores = len(os.sched_getaffinity(0))
        most = max(case.ranks for case in cases)
        if most > cores:
            found.append(
                ("Mind", f"up to {most} ranks share {cores} cores: waiting for a core counts too")
            )
    return found


def merge(described):
    """One list of facts out of those about each case's place; differing ones name the hosts."""
    values = {}
    for case, facts_of_case in described:
        for name, value in facts_of_case:
            if name == "Hosts" and case.hosts:
                continue  # the cases tell how many
            hosts = values.setdefault(name, {}).setdefault(value, [])
            if case.hosts not in hosts:
                hosts.append(case.hosts)
    merged = []
    for name, by_value in values.items():
        texts = list(by_value)
        if len(texts) > 1:
            texts = [f"{text} ({_hosts(hosts)})" for text, hosts in by_value.items()]
        merged.append((name, "; ".join(texts)))
    return merged


def _hosts(numbers):
    names = [str(number) for number in sorted(numbers)]
    return " and ".join(names) + (" host" if names == ["1"] else " hosts")
