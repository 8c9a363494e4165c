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
BASELINE = "baseline"


@dataclass(frozen=True)
class Group:
    """So many ranks on so many hosts; a place of its own."""

    processes: int
    hosts: int = 0  # 0: a host file decides


@dataclass(frozen=True)
class Run:
    """One mpirun: a round, a transport, a part of the suite, and its command line."""

    round: int
    peer: str
    part: str
    arguments: tuple
    processes: int = 2


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
    planned: int = 0  # runs
    finished: int = 0
    interrupted: bool = False
    index: dict = field(default_factory=dict, repr=False)  # figure -> values, of samples so far
    indexed: int = 0

    def values(self, peer, benchmark, processes, size, metric):
        """One figure's values over the rounds. The baseline knows no number of processes."""
        for _, who, sample in self.samples[self.indexed :]:
            count = None if who == BASELINE else sample.processes
            key = (who, sample.benchmark, count, sample.size, sample.metric)
            self.index.setdefault(key, []).append(sample.value)
        self.indexed = len(self.samples)
        count = None if peer == BASELINE else processes
        return self.index.get((peer, benchmark, count, size, metric), [])

    def keys(self):
        """(benchmark, processes, size, metric) of all transports' figures, in order."""
        found = dict.fromkeys(
            (sample.benchmark, sample.processes, sample.size, sample.metric)
            for _, peer, sample in self.samples
            if peer != BASELINE
        )
        order = {name: index for index, name in enumerate(suites.BENCHMARKS)}
        return sorted(found, key=lambda key: (order.get(key[0], len(order)), key))


# IMB-MPI1 repeats a size until 40 MB have moved, whatever -time says, but drops the sizes that are
# left when all it has measured took longer than -time for each: so it is given time enough.
IMB_SECONDS = 1.0


def imb_arguments(options, part, processes, imb, own):
    """mpirun's arguments behind the transport's, one list for each program of a part."""
    common = ["-npmin", str(processes), "-msglog", f"{part.low}:{part.high}"]
    common += ["-iter", str(options.iterations)]
    groups = [(own, list(part.benchmarks))]
    if imb != own:
        groups = [
            (imb, [name for name in part.benchmarks if name not in suites.OWN_ONLY]),
            (own, [name for name in part.benchmarks if name in suites.OWN_ONLY]),
        ]
    check = ["-check"] if options.check else []
    calls = []
    for program, names in groups:
        if names:
            seconds = options.time if program == own else max(options.time, IMB_SECONDS)
            words = [*common, "-time", str(seconds), *(check if program == own else [])]
            calls.append([*options.starter, str(program), *words, *names])
    return calls


def _baseline_runs(options, number, programs, interface):
    for name in ("pingpong", "stream"):
        words = ["-np", "2", *options.starter, str(programs[name])]
        words += ["--seconds", f"{options.baseline_time:g}"]
        words += ["--window", "credit"] if name == "stream" else []
        words += ["--interface", interface] if interface else []
        yield Run(number, BASELINE, name, tuple(words))


def plan(options, programs, interface):
    """All Runs in their order, group by group: transports alternate within each part, the other
    way in every second round, so that neither always runs first. What takes two ranks whatever
    there are, the baseline too, is measured in the first group only."""
    runs = []
    for group in options.groups:
        is_first = group is options.groups[0]
        parts = suites.parts_for(options.parts, is_first)
        for number in range(1, options.rounds + 1):
            if options.baseline and is_first:
                runs += _baseline_runs(options, number, programs, interface)
            peers = options.peers if number % 2 else options.peers[::-1]
            for part in parts:
                for rest in imb_arguments(
                    options, part, group.processes, programs["imb"], programs["own"]
                ):
                    for peer in peers:
                        words = ["-np", str(group.processes)]
                        words += suites.peer_arguments(peer, interface)
                        arguments = (*words, *rest)
                        runs.append(Run(number, peer, part.name, arguments, group.processes))
    return runs


def group_of(run, groups):
    """The group that a run belongs to: the baseline to the first."""
    if run.peer == BASELINE:
        return groups[0]
    return next(group for group in groups if group.processes == run.processes)


def _reason(outcome, timeout):
    if outcome.timed_out:
        return f"no end within {timeout:g} s (--timeout)"
    return f"mpirun ended with status {outcome.status}"


def last_lines(outcome):
    """The end of what mpirun said, without rulers and without what says nothing of the cause."""
    text = outcome.errors if outcome.errors.strip() else outcome.output
    lines = [line for line in text.splitlines() if line.strip(" -") and not NOISE.search(line)]
    return lines[-LAST_LINES:]


class Session:
    """The runs of a plan, made or found in the journal, and what they gave."""

    def __init__(self, options, runs, journal, record):
        self.options = options
        self.runs = runs
        self.journal = journal
        self.record = record
        self.failed = {}  # (processes, peer, part) -> failures
        record.planned = len(runs)

    def replay(self, progress, command):
        """Take the runs that the journal holds; returns the indices of those that are left."""
        entries = self.journal.entries()
        for index, entry in sorted(entries.items()):
            outcome, raw = self.journal.outcome(entry)
            failure = self._take(self.runs[index], outcome, command(self.runs[index]), raw)
            progress.known(index, outcome.seconds)
            self._count(self.runs[index], failure)
        return [index for index in range(len(self.runs)) if index not in entries]

    def execute(self, indices, place, progress):
        """Make these runs. The record is complete up to that point also when interrupted."""
        for index in indices:
            run = self.runs[index]
            if self.failed.get((run.processes, run.peer, run.part), 0) >= GIVE_UP_AFTER:
                progress.skip(index)
                continue
            progress.begin(index)
            outcome = place.run(list(run.arguments), self.options.timeout, progress.tick)
            command = place.command(run.arguments)
            raw = self.journal.add(index, run, outcome, command)
            failure = self._take(run, outcome, command, raw)
            progress.end(index, outcome.seconds, failure)
            self._count(run, failure)

    def _count(self, run, failure):
        self.record.finished += 1
        if failure is not None:
            self.record.failures.append(failure)
            key = (run.processes, run.peer, run.part)
            self.failed[key] = self.failed.get(key, 0) + 1

    def _take(self, run, outcome, command, raw):
        """Keep what a run gave; a Failure when it was not all in order."""
        reason = None if outcome.status == 0 else _reason(outcome, self.options.timeout)
        samples = []
        try:
            parse = output.parse_baseline if run.peer == BASELINE else output.parse_imb
            samples = parse(outcome.output)
            if not samples and reason is None:
                reason = "the output holds no figures"
        except output.WrongContents as error:
            reason = str(error)
        self.record.samples += [(run.round, run.peer, sample) for sample in samples]
        if reason is None:
            return None
        return Failure(run, reason, last_lines(outcome), command, str(raw))
