# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison keeps on disk while it runs, so that it can continue after an interruption.

setup.json     command line, directory, start, digest of the plan
runs.jsonl     one line for each finished run
raw/           all output of each run, below the commands that repeat it
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from . import BenchError
from .places import Outcome

SETUP = "setup.json"
RUNS = "runs.jsonl"
RAW = "raw"
ERRORS = "--- standard error\n"
FILE = "--- file "


@dataclass
class Entry:
    """A finished run: its place in the plan and how it ended."""

    index: int
    status: int
    seconds: float
    timed_out: bool
    file: str  # below raw/


def plan_digest(runs):
    """The same for two plans that make the same runs in the same order."""
    text = json.dumps([[run.name, run.commands] for run in runs])
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(outcome):
    """Commands and output of a run as one text."""
    text = "".join(f"$ {command}\n" for command in outcome.commands) + outcome.output
    if text[-1:] != "\n":
        text += "\n"
    if outcome.errors:
        text += f"{ERRORS}{outcome.errors}"
    for name, content in outcome.files.items():
        text += ("" if text.endswith("\n") else "\n") + f"{FILE}{name}\n{content}"
    return text


def _outcome_of(text, entry):
    """The Outcome that _text_of() wrote."""
    commands = []
    while text.startswith("$ "):
        command, _, text = text.partition("\n")
        commands.append(command[2:])
    text, *parts = text.split(FILE)
    files = {name: content for name, _, content in (part.partition("\n") for part in parts)}
    output, _, errors = text.partition(ERRORS)
    return Outcome(
        entry.status, output, errors, entry.seconds, entry.timed_out, tuple(commands), files
    )


class Journal:
    """The directory of one comparison."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def create(self, setup):
        """Begin; `setup` is anything JSON can hold."""
        if any((self.directory / name).exists() for name in (SETUP, RUNS, RAW)):
            raise BenchError(
                f"{self.directory} holds another comparison; choose another --output, or continue "
                "that one with --resume"
            )
        (self.directory / RAW).mkdir(parents=True)
        self._write_setup(setup)
        (self.directory / RUNS).touch()

    def _write_setup(self, setup):
        """All of it, or, on a full disk, nothing: without it there is no --resume."""
        text = json.dumps(setup, indent=2, sort_keys=True) + "\n"
        partial = self.directory / f"{SETUP}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.directory / SETUP)

    def setup(self):
        """What create() was given."""
        try:
            return json.loads((self.directory / SETUP).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BenchError(
                f"{self.directory} holds no comparison to continue ({error}); start a new one "
                "without --resume"
            ) from error

    def pin(self, runs):
        """Note the plan, or make sure that it is the one noted before."""
        setup = self.setup()
        digest = plan_digest(runs)
        if "plan" not in setup:
            self._write_setup({**setup, "plan": digest})
        elif setup["plan"] != digest:
            raise BenchError(
                f"{self.directory} was begun with other runs than would be made now: the build "
                "directory, a benchmark program or the available transports have changed; "
                "restore them, or start a new comparison"
            )

    def add(self, index, run, outcome):
        """Keep a finished run with all it printed; returns the file that holds that."""
        name = f"{index:04d}-{run.name}.txt"
        raw = self.directory / RAW / name
        raw.write_text(_text_of(outcome), encoding="utf-8")
        entry = Entry(index, outcome.status, round(outcome.seconds, 3), outcome.timed_out, name)
        runs = self.directory / RUNS
        cut_off = runs.read_bytes()[-1:] not in (b"", b"\n")
        with open(runs, "a", encoding="utf-8") as file:
            file.write("\n" * cut_off + json.dumps(asdict(entry)) + "\n")
        return raw

    def entries(self):
        """The finished runs by index; a line that a crash cut off does not count."""
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
            text = raw.read_text(encoding="utf-8")
        except OSError as error:
            raise BenchError(f"cannot continue: {error}; start a new comparison") from error
        return _outcome_of(text, entry), raw
