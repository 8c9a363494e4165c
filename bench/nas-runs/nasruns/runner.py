# SPDX-License-Identifier: BSD-3-Clause
"""Makes the runs of a comparison: transports alternately, round by round, case by case."""

from benchlib import rounds

from . import programs, result
from .error import NasError
from .records import Run

def command(case, peer, program, interface=None, shares_hosts=False):
    """mpirun's arguments for one run."""
    words = ["-np", str(case.ranks), *rounds.transport_arguments(peer, interface, shares_hosts)]
    if program.preload is not None:
        words += ["-x", f"LD_PRELOAD={program.preload}"]
    return [*words, *program.words]


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
        run.failure = f"status {outcome.status}: {rounds.last_line(outcome)}"
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


def run_case(place, case, peers, number_of_rounds, options, records, say):
    """All rounds of one case that the records do not hold yet."""
    program = programs.choose(case, options.program_directory)
    shares_hosts = case.hosts == 0 or case.ranks > case.hosts
    for peer, round_number in rounds.missing(
        case, peers, number_of_rounds, records.runs()
    ):
        arguments = command(case, peer, program, place.interface, shares_hosts)
        run, text = measure(place, case, peer, round_number, arguments, options.timeout)
        records.add(run)
        say(line_of(run, number_of_rounds))
        if run.failure:
            log = records.directory / f"{case.key}.{peer}.round{round_number}.log"
            log.write_text(f"$ {place.command(arguments)}\n{text}", encoding="utf-8")
            say(f"    its output: {log}")


def line_of(run, number_of_rounds):
    """One line of progress."""
    start = f"{run.case.label}: round {run.round} of {number_of_rounds}, {run.peer:<5}"
    if run.failure:
        return f"{start} FAILED: {run.failure}"
    share = "" if run.mpi_share is None else f", {run.mpi_share:.0f} % in MPI"
    return f"{start} {run.seconds:8.2f} s {run.mops:10.1f} Mop/s{share}, verified"
