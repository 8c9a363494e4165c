# SPDX-License-Identifier: BSD-3-Clause
"""Makes the runs of a comparison: transports alternately, round by round, case by case."""

from imbruns import session, suites

from . import programs, result
from .error import NasError
from .records import Run

# Ranks on one host talk through shared memory whatever carries their other messages.
SHARED_MEMORY = "vader"


def order(peers, round_number):
    """The transports of a round; every second round the other way round, against slow drift."""
    return tuple(peers) if round_number % 2 else tuple(reversed(peers))


def transport_arguments(peer, interface, shares_hosts):
    """mpirun's arguments for a transport."""
    words = suites.peer_arguments(peer, interface)
    if not shares_hosts or peer == SHARED_MEMORY:
        return words
    mixed = f"{peer},{SHARED_MEMORY},self"
    return [mixed if word == f"{peer},self" else word for word in words]


def command(case, peer, program, interface=None, shares_hosts=False):
    """mpirun's arguments for one run."""
    words = ["-np", str(case.ranks), *transport_arguments(peer, interface, shares_hosts)]
    if program.preload is not None:
        words += ["-x", f"LD_PRELOAD={program.preload}"]
    return [*words, *program.words]


def _last_line(outcome):
    lines = session.last_lines(outcome)
    return lines[-1].strip() if lines else "it printed nothing"


def measure(place, case, peer, round_number, arguments, timeout, tick=lambda: None):
    """Run once; the Run, with its failure told when it failed, and the whole output."""
    run = Run(case.benchmark, case.problem, case.ranks, case.hosts, peer, round_number)
    outcome = place.run(arguments, timeout, tick)
    text = outcome.output + outcome.errors
    if outcome.timed_out:
        run.failure = f"not finished after {timeout:g} s"
        return run, text
    try:
        found = result.parse(outcome.output)
    except NasError:
        run.failure = f"status {outcome.status}: {_last_line(outcome)}"
        return run, text
    run.verification = found.verification
    if found.benchmark != case.benchmark or found.problem != case.problem:
        run.failure = f"the program ran {found.benchmark} class {found.problem}"
    elif found.processes != case.ranks:
        run.failure = f"the program ran on {found.processes} ranks"
    elif not found.verified:
        run.failure = f"verification: {found.verification}"
    elif outcome.status != 0:
        run.failure = f"status {outcome.status} after a verified result"
    else:
        run.seconds, run.mops, run.mpi_share = found.seconds, found.mops, found.mpi_share
        run.messages, run.bytes_sent = found.messages, found.bytes_sent
    return run, text


def missing(case, peers, rounds, records):
    """Transport and round of each run of a case that the records do not hold, in order."""
    finished = {run.done for run in records.runs()}
    return [
        (peer, round_number)
        for round_number in range(1, rounds + 1)
        for peer in order(peers, round_number)
        if (case, peer, round_number) not in finished
    ]


def run_case(place, case, peers, rounds, options, records, say):
    """All rounds of one case that the records do not hold yet."""
    program = programs.choose(case, options.program_directory)
    shares_hosts = case.hosts == 0 or case.ranks > case.hosts
    for peer, round_number in missing(case, peers, rounds, records):
        arguments = command(case, peer, program, place.interface, shares_hosts)
        run, text = measure(place, case, peer, round_number, arguments, options.timeout)
        records.add(run)
        say(line_of(run, rounds))
        if run.failure:
            log = records.directory / f"{case.key}.{peer}.round{round_number}.log"
            log.write_text(f"$ {place.command(arguments)}\n{text}", encoding="utf-8")
            say(f"    its output: {log}")


def line_of(run, rounds):
    """One line of progress."""
    start = f"{run.case.label}: round {run.round} of {rounds}, {run.peer:<5}"
    if run.failure:
        return f"{start} FAILED: {run.failure}"
    share = "" if run.mpi_share is None else f", {run.mpi_share:.0f} % in MPI"
    return f"{start} {run.seconds:8.2f} s {run.mops:10.1f} Mop/s{share}, verified"
