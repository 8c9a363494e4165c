# SPDX-License-Identifier: BSD-3-Clause
"""The order of runs, and mpirun's arguments for each transport."""

from imbruns import session, suites


def order(peers, round_number):
    """The transports of a round; every second round the other way round, against slow drift."""
    return tuple(peers) if round_number % 2 else tuple(reversed(peers))


def transport_arguments(peer, interface, shares_hosts):
    """mpirun's arguments for a transport."""
    words = suites.peer_arguments(peer, interface)
    if not shares_hosts or peer == suites.SHARED_MEMORY:
        return words
    # Ranks on one host talk through shared memory whatever carries their other messages.
    mixed = f"{peer},{suites.SHARED_MEMORY},self"
    return [mixed if word == f"{peer},self" else word for word in words]


def missing(case, peers, rounds, runs):
    """Transport and round of each run of a case that is not among `runs`, in order."""
    finished = {run.done for run in runs}
    return [
        (peer, number)
        for number in range(1, rounds + 1)
        for peer in order(peers, number)
        if (case, peer, number) not in finished
    ]


def last_line(outcome):
    """The last thing a failed mpirun said."""
    lines = session.last_lines(outcome)
    return lines[-1].strip() if lines else "it printed nothing"
