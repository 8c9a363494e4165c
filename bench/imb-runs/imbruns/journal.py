# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison keeps on disk while it runs, so that it can go on after an interruption."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .places import Outcome
from .prepare import PrepareError

SETUP = "setup.json"
RUNS = "runs.jsonl"
RAW = "raw"
ERRORS = "# standard error:\n"


@dataclass
class Entry:
    """A run that is over: its place in the plan and how it ended."""

    index: int
    status: int
    seconds: float
    timed_out: bool
    file: str  # below raw/


def plan_digest(runs):
    """The same for two plans that make the same runs in the same order."""
    text = json.dumps([[run.round, run.peer, run.part, *run.arguments] for run in runs])
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """The directory of one comparison: setup.json, runs.jsonl, raw/."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def create(self, setup):
        """Begin: `setup` is anything JSON can hold."""
        if (self.directory / RUNS).exists() or (self.directory / RAW).exists():
            raise PrepareError(
                f"{self.directory} holds results; choose another --output, or go on with them "
                "with --resume"
            )
        (self.directory / RAW).mkdir(parents=True)
        self._write_setup(setup)
        (self.directory / RUNS).touch()

    def _write_setup(self, setup):
        text = json.dumps(setup, indent=2, sort_keys=True) + "\n"
        (self.directory / SETUP).write_text(text, encoding="utf-8")

    def setup(self):
        """What create() was given."""
        try:
            return json.loads((self.directory / SETUP).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PrepareError(
                f"{self.directory} holds no comparison to go on with ({error}); start a new one "
                "without --resume"
            ) from error

    def pin(self, runs):
        """Note the plan, or make sure that it is the one noted before."""
        setup = self.setup()
        digest = plan_digest(runs)
        if setup.setdefault("plan", digest) != digest:
            raise PrepareError(
                f"{self.directory} was begun with other runs than would be made now: the build "
                "directory, the benchmark program or the transports available have changed; "
                "restore them, or start a new comparison"
            )
        self._write_setup(setup)

    def add(self, index, run, outcome, command):
        """Keep a run that is over, with all it printed; returns the file that holds that."""
        name = f"{index:04d}-np{run.processes}-round{run.round}-{run.peer}-{run.part}.txt"
        text = f"# {command}\n{outcome.output}"
        if outcome.errors:
            text += f"{ERRORS}{outcome.errors}"
        raw = self.directory / RAW / name
        raw.write_text(text, encoding="utf-8")
        entry = {
            "index": index,
            "status": outcome.status,
            "seconds": round(outcome.seconds, 3),
            "timed_out": outcome.timed_out,
            "file": name,
        }
        with open(self.directory / RUNS, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        return raw

    def entries(self):
        """The runs that are over, by index; a line cut off by a crash does not count."""
        found = {}
        for line in (self.directory / RUNS).read_text(encoding="utf-8").splitlines():
            try:
                entry = Entry(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[entry.index] = entry
        return found

    def outcome(self, entry):
        """How a run ended, and the file with all it printed."""
        raw = self.directory / RAW / entry.file
        try:
            text = raw.read_text(encoding="utf-8").partition("\n")[2]
        except OSError as error:
            raise PrepareError(f"cannot go on: {error}; start a new comparison") from error
        output, _, errors = text.partition(ERRORS)
        return Outcome(entry.status, output, errors, entry.seconds, entry.timed_out), raw
