# SPDX-License-Identifier: BSD-3-Clause
"""The files of a running comparison, from which it can continue after an interruption.

setup.json     command line, directory, start, digest of the plan
runs.jsonl     one line for each finished run: its place in the plan, and how it ended
raw/           the same for people: all output of each run, below the commands that repeat it
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from . import BenchError
from .places import Outcome

SETUP = "setup.json"
RUNS = "runs.jsonl"
RAW = "raw"


def plan_digest(runs):
    """The same for two plans that make the same runs in the same order."""
    text = json.dumps([[run.name, run.commands] for run in runs])
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(outcome):
    """Commands and output of a run for people."""
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
        """Read what create() wrote."""
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
        entry = {"index": index, "file": name, "outcome": asdict(outcome)}
        runs = self.directory / RUNS
        cut_off = runs.read_bytes()[-1:] not in (b"", b"\n")
        with open(runs, "a", encoding="utf-8") as file:
            file.write("\n" * cut_off + json.dumps(entry) + "\n")
        return raw

    def outcomes(self):
        """The Outcome of each finished run and the file with all it printed, by the run's index. A
        line that a crash cut off does not count."""
        found = {}
        for line in (self.directory / RUNS).read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            outcome = Outcome(**entry["outcome"])
            found[entry["index"]] = outcome, self.directory / RAW / entry["file"]
        return found
