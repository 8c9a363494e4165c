# SPDX-License-Identifier: BSD-3-Clause
"""Makes the missing runs of a plan, keeps their results, and shows the progress.

The directory of a comparison holds what it needs to continue after an interruption:

setup.json     command line, directory, start, digest of the plan
runs.jsonl     a line for each finished run: its place in the plan, and how it ended
raw/           for people: the output of each run, below the commands that repeat it
"""

import hashlib
import json
import re
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import BenchError, Rejected
from .driver import Run
from .places import Outcome

SETUP = "setup.json"
RUNS = "runs.jsonl"
RAW = "raw"


def _text_of(outcome):
    """Return the commands and the output of a run, for people."""
    parts = [*(f"$ {command}" for command in outcome.commands), outcome.output]
    parts += ["--- standard error", outcome.errors] if outcome.errors else []
    for name, content in outcome.files.items():
        parts += [f"--- file {name}", content]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


class Journal:
    """The directory of one comparison."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def create(self, setup):
        """Begin a comparison; `setup` is kept as JSON."""
        if any((self.directory / name).exists() for name in (SETUP, RUNS, RAW)):
            raise BenchError(
                f"{self.directory} holds another comparison; choose another --output, or continue "
                "that one with --resume"
            )
        (self.directory / RAW).mkdir(parents=True)
        self._write_setup(setup)
        (self.directory / RUNS).touch()

    def _write_setup(self, setup):
        """Write the whole file, or on a full disk nothing: --resume needs it."""
        text = json.dumps(setup, indent=2, sort_keys=True) + "\n"
        partial = self.directory / f"{SETUP}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.directory / SETUP)

    def setup(self):
        """Read what create() wrote."""
        try:
            return json.loads((self.directory / SETUP).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BenchError(
                f"{self.directory} holds no comparison to continue ({error}); start a new one "
                "without --resume"
            ) from error

    def pin(self, runs):
        """Record the plan, or check that it equals the recorded one."""
        setup = self.setup()
        plan = json.dumps([[run.name, run.commands] for run in runs])
        digest = hashlib.sha256(plan.encode()).hexdigest()
        if "plan" not in setup:
            self._write_setup({**setup, "plan": digest})
        elif setup["plan"] != digest:
            raise BenchError(
                f"{self.directory} was begun with other runs than would be made now: the build "
                "directory, a benchmark program or the available transports have changed; "
                "restore them, or start a new comparison"
            )

    def add(self, index, run, outcome):
        """Keep a finished run. Returns the file with its output."""
        name = f"{index:04d}-{run.name}.txt"
        raw = self.directory / RAW / name
        raw.write_text(_text_of(outcome), encoding="utf-8")
        entry = {"index": index, "file": name, "outcome": asdict(outcome)}
        runs = self.directory / RUNS
        cut_off = runs.read_bytes()[-1:] not in (b"", b"\n")
        with open(runs, "a", encoding="utf-8") as file:
            file.write("\n" * cut_off + json.dumps(entry) + "\n")
        return raw

    def outcomes(self):
        """Return {index of a finished run: (Outcome, file with its output)}. Ignores a line that a
        crash cut off."""
        found = {}
        for line in (self.directory / RUNS).read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            outcome = Outcome(**entry["outcome"])
            found[entry["index"]] = outcome, self.directory / RAW / entry["file"]
        return found


GIVE_UP_AFTER = 2  # failures of a transport in a case; the later rounds leave it out
LAST_LINES = 10
NOISE = re.compile(
    r"sent help message|orte_base_help_aggregate|^\[[^]]*\] \*\*\* "
    r"|setpgid\(|^Primary job  terminated|a non-zero exit code. Per user-direction"
)


@dataclass
class Done:
    """A finished run with its result."""

    run: Run
    seconds: float  # of mpirun, from its start to its end
    result: object  # from the driver; None if the output holds none
    failure: str = ""  # why it does not count; empty if it does
    last_lines: list = field(default_factory=list)  # of a failed run
    command: str = ""  # repeats it
    raw: str = ""  # the file with its output


@dataclass
class Record:
    """The progress and results of a session."""

    done: list = field(default_factory=list)
    unavailable: dict = field(default_factory=dict)  # transport -> reason
    notes: list = field(default_factory=list)
    planned: int = 0
    interrupted: bool = False

    @property
    def failures(self):
        return [one for one in self.done if one.failure]

    def problems(self):
        """Return all problems as sentences."""
        found = [
            f"**{transport}** was not measured: {reason}."
            for transport, reason in self.unavailable.items()
        ]
        for one in self.failures:
            text = f"{describe(one.run)}: {one.failure}. Repeat it with `{one.command}`"
            last = " / ".join(one.last_lines[-3:]).replace("`", "'")
            found.append(text + (f". Its last lines: `{last}`" if last else ""))
        return found + self.notes


def describe(run):
    """Describe a run."""
    return f"{run.case.label}, round {run.round}, {run.transport}"


def last_lines(outcome):
    """Return the end of mpirun's output, without rulers and lines that do not name a cause."""
    text = outcome.errors if outcome.errors.strip() else outcome.output
    lines = [line for line in text.splitlines() if line.strip(" -") and not NOISE.search(line)]
    return lines[-LAST_LINES:]


class Session:
    """The runs of a plan, executed now or found in the journal."""

    def __init__(self, driver, options, runs, journal, record):
        self.driver = driver
        self.options = options
        self.runs = runs
        self.journal = journal
        self.record = record
        self.failed = {}  # (case, transport) -> failures
        record.planned = len(runs)

    def replay(self, progress):
        """Take the runs from the journal. Returns the indices of the missing ones."""
        outcomes = self.journal.outcomes()
        for index, (outcome, raw) in sorted(outcomes.items()):
            self._take(self.runs[index], outcome, raw)
            progress.known(index, outcome.seconds)
        return [index for index in range(len(self.runs)) if index not in outcomes]

    def execute(self, indices, place, progress):
        """Make these runs. After an interruption, the record is complete up to it."""
        for index in indices:
            run = self.runs[index]
            if self.failed.get((run.case, run.transport), 0) >= GIVE_UP_AFTER:
                progress.skip(index)
                continue
            progress.begin(index)
            outcome = self._run(run, place)
            raw = self.journal.add(index, run, outcome)
            done = self._take(run, outcome, raw)
            progress.end(index, done, "" if done.failure else self.driver.line_of(done))

    def _run(self, run, place):
        """Run the commands of a run, up to the first that fails. Returns one Outcome for all."""
        directory = None
        if self.driver.works_in_directory:
            directory = self.journal.directory / "work" / run.name
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            self.driver.prepare_run(run, directory)
        total = Outcome(0, "", "", 0.0)
        try:
            for words in run.commands:
                words = ["--wdir", str(directory), *words] if directory else list(words)
                one = place.run(words, self.options.timeout)
                total.commands = (*total.commands, place.command(words))
                total.output += one.output
                total.errors += one.errors
                total.seconds += one.seconds
                total.status, total.timed_out = one.status, one.timed_out
                if one.status != 0:
                    break
            for name in self.driver.kept_files(run) if directory else ():
                if (directory / name).exists():
                    path = directory / name
                    total.files[name] = path.read_text(encoding="utf-8", errors="replace")
        finally:
            if directory:
                shutil.rmtree(directory.parent, ignore_errors=True)
        return total

    def _take(self, run, outcome, raw):
        """Record the result of a run."""
        failure, result = "", None
        if outcome.timed_out:
            failure = f"no end within {self.options.timeout:g} s (--timeout)"
        elif outcome.status:
            failure = f"mpirun ended with status {outcome.status}"
        try:
            result = self.driver.read(run, outcome, self.record.done)
        except Rejected as error:
            failure = str(error)
        except BenchError as error:
            failure = failure or str(error)
        done = Done(run, outcome.seconds, result, failure)
        done.command, done.raw = " && ".join(outcome.commands), str(Path(raw))
        if failure:
            done.last_lines = last_lines(outcome)
            key = (run.case, run.transport)
            self.failed[key] = self.failed.get(key, 0) + 1
        self.record.done.append(done)
        return done


GUESS_SECONDS = 4.0  # of a run, before any has ended


def clock(seconds):
    """Format seconds as minutes:seconds."""
    whole = max(0, int(seconds + 0.5))
    return f"{whole // 60}:{whole % 60:02d}"


class Progress:
    """Prints a line for each run, with the time that the remaining ones will take."""

    def __init__(self, runs, stream=None):
        self.runs = runs
        self.stream = stream or sys.stdout
        self.taken = {}  # (transport, case) -> seconds of its last run
        self.open = set(range(len(runs)))

    def _kind(self, index):
        return self.runs[index].transport, self.runs[index].case

    def expected(self, index):
        """Estimate the seconds of a run by the last one of its kind, else by others of its case."""
        kind = self._kind(index)
        if kind in self.taken:
            return self.taken[kind]
        alike = [value for (_, case), value in self.taken.items() if case == kind[1]]
        known = alike or list(self.taken.values())
        return sum(known) / len(known) if known else GUESS_SECONDS

    def _say(self, text):
        print(text, file=self.stream, flush=True)

    def begin(self, index):
        """Announce a run."""
        count, left = len(self.runs), clock(sum(map(self.expected, self.open)))
        what = describe(self.runs[index])
        self._say(f"[{index + 1:>{len(str(count))}}/{count}] {what} ({left} left)")

    def known(self, index, seconds):
        """Note a run from an earlier start of this program."""
        self.open.discard(index)
        self.taken[self._kind(index)] = seconds

    def skip(self, index):
        """Note that a run is left out."""
        self.open.discard(index)

    def end(self, index, done, text):
        """Note that a run has ended, and print its failure, or `text` if it is not empty."""
        self.known(index, done.seconds)
        if done.failure:
            self._say(f"FAILED: {describe(done.run)}: {done.failure}")
            for line in done.last_lines:
                self._say(f"    | {line}")
            self._say(f"  its output: {done.raw}\n  repeat it with: {done.command}")
        elif text:
            self._say(f"    {text}")
