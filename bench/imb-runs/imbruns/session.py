# SPDX-License-Identifier: BSD-3-Clause
"""Runs every transport in turn, several rounds, and keeps each figure and each failure."""

import re
from dataclasses import dataclass, field

from . import output, suites

GIVE_UP_AFTER = 2  # failures of one transport in one part; the later rounds leave it out
LAST_LINES = 10
NOISE = re.compile(
    r"sent help message|orte_base_help_aggregate|^\[[^]]*\] \*\*\* "
    r"|setpgid\(|^Primary job  terminated|a non-zero exit code. Per user-direction"
)
FLOOR = "floor"


@dataclass(frozen=True)
class Run:
    """One mpirun: a round, a transport, a part of the suite, and its command line."""

    round: int
    peer: str
    part: str
    arguments: tuple


@dataclass
class Failure:
    """A run that did not end well."""

    run: Run
    reason: str
    last_lines: list
    command: str
    raw: str  # file that holds the whole output


@dataclass
class Record:
    """What a session measured. samples: list of (round, peer, output.Sample)."""

    samples: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    unavailable: dict = field(default_factory=dict)  # peer -> reason
    notes: list = field(default_factory=list)
    rounds_done: int = 0
    interrupted: bool = False

    def values(self, peer, benchmark, processes, size, metric):
        """One figure's values over the rounds."""
        return [
            sample.value
            for _, who, sample in self.samples
            if who == peer
            and (sample.benchmark, sample.size, sample.metric) == (benchmark, size, metric)
            and (sample.processes == processes or who == FLOOR)
        ]

    def keys(self):
        """(benchmark, processes, size, metric) of all transports' figures, in order."""
        found = dict.fromkeys(
            (sample.benchmark, sample.processes, sample.size, sample.metric)
            for _, peer, sample in self.samples
            if peer != FLOOR
        )
        order = {name: index for index, name in enumerate(suites.BENCHMARKS)}
        return sorted(found, key=lambda key: (order.get(key[0], len(order)), key))


def imb_arguments(options, part, imb, own):
    """mpirun's arguments behind the transport's, one list for each program of a part."""
    common = ["-iter", str(options.iterations), "-time", str(options.time)]
    common += ["-npmin", str(options.np), "-msglog", f"{part.low}:{part.high}"]
    if options.check and imb == own:
        common.append("-check")
    groups = [(imb, [name for name in part.benchmarks if name not in suites.OWN_ONLY])]
    if imb == own:
        groups = [(own, list(part.benchmarks))]
    else:
        groups.append((own, [name for name in part.benchmarks if name in suites.OWN_ONLY]))
    return [[str(program), *common, *names] for program, names in groups if names]


def plan(options, programs, interface):
    """All Runs in their order: transports alternate within each part, the other way in every
    second round, so that neither always runs first."""
    runs = []
    for number in range(1, options.rounds + 1):
        if options.floor:
            for name in ("pingpong", "stream"):
                words = ["-np", "2", str(programs[name]), "--seconds", f"{options.floor_time:g}"]
                words += ["--window", "credit"] if name == "stream" else []
                words += ["--interface", interface] if interface else []
                runs.append(Run(number, FLOOR, name, tuple(words)))
        peers = options.peers if number % 2 else options.peers[::-1]
        for part in options.parts:
            own = programs["own"]
            for rest in imb_arguments(options, part, programs["imb"], own):
                for peer in peers:
                    words = ["-np", str(options.np), *suites.peer_arguments(peer, interface)]
                    runs.append(Run(number, peer, part.name, (*words, *rest)))
    return runs


def _reason(outcome, timeout):
    if outcome.timed_out:
        return f"no end within {timeout:g} s (--timeout)"
    return f"mpirun ended with status {outcome.status}"


def last_lines(outcome):
    """The end of what mpirun said, without rulers and without what says nothing of the cause."""
    text = outcome.errors if outcome.errors.strip() else outcome.output
    lines = [line for line in text.splitlines() if line.strip(" -") and not NOISE.search(line)]
    return lines[-LAST_LINES:]


def _take(record, run, outcome, place, timeout, raw):
    """Keep what a run gave; a Failure when it was not all in order."""
    reason = None if outcome.status == 0 else _reason(outcome, timeout)
    samples = []
    try:
        parse = output.parse_floor if run.peer == FLOOR else output.parse_imb
        samples = parse(outcome.output)
        if not samples and reason is None:
            reason = "the output holds no figures"
    except output.WrongContents as error:
        reason = str(error)
    record.samples += [(run.round, run.peer, sample) for sample in samples]
    if reason is None:
        return None
    return Failure(run, reason, last_lines(outcome), place.command(run.arguments), str(raw))


def execute(options, runs, place, progress, raw_directory, record):
    """Run all of it into `record`, which is complete up to that point also when interrupted."""
    failed = {}
    for index, run in enumerate(runs):
        if failed.get((run.peer, run.part), 0) >= GIVE_UP_AFTER:
            progress.skip(index)
            continue
        progress.begin(index)
        outcome = place.run(list(run.arguments), options.timeout, progress.tick)
        name = f"{index:03d}-round{run.round}-{run.peer}-{run.part}.txt"
        text = f"# {place.command(run.arguments)}\n{outcome.output}"
        if outcome.errors:
            text += f"# standard error:\n{outcome.errors}"
        raw = raw_directory / name
        raw.write_text(text, encoding="utf-8")
        failure = _take(record, run, outcome, place, options.timeout, raw)
        progress.end(index, outcome.seconds, failure)
        if failure is not None:
            record.failures.append(failure)
            failed[run.peer, run.part] = failed.get((run.peer, run.part), 0) + 1
        if index + 1 == len(runs) or runs[index + 1].round != run.round:
            record.rounds_done = run.round
