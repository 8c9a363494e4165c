# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison keeps on disk while it runs: setup, one line a run, the programs' output."""

import json
from dataclasses import asdict, dataclass, field

from benchlib.folder import Folder, FolderError

from .plan import Case

RUNS = "runs.jsonl"
RAW = "raw"


@dataclass
class Run:
    """One run of one application over one transport. Figures are empty when it failed."""

    app: str
    size: str
    ranks: int
    hosts: int
    peer: str  # tcp, rawe, ...
    round: int  # from 1
    seconds: float = None  # of mpirun, from its start to its end
    figures: dict = field(default_factory=dict)
    steady: dict = field(default_factory=dict)  # results that all runs have to share
    failure: str = ""  # why it does not count; empty when it does
    command: str = ""  # that repeats it

    @property
    def case(self):
        """The Case this run belongs to."""
        return Case(self.app, self.size, self.ranks, self.hosts)

    @property
    def done(self):
        """What --resume need not repeat is known by this."""
        return (self.case, self.peer, self.round)

    @property
    def name(self):
        """Of its files."""
        return f"{self.case.key}.{self.peer}.round{self.round}"


class Records(Folder):
    """The folder of one comparison."""

    def create(self, setup):
        """Begin a comparison."""
        self.begin(setup)
        (self.directory / RAW).mkdir()
        (self.directory / RUNS).write_text("", encoding="utf-8")

    def add(self, run):
        """Keep one more run, at once."""
        with open(self.directory / RUNS, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run), sort_keys=True) + "\n")

    def runs(self):
        """All runs so far."""
        try:
            with open(self.directory / RUNS, encoding="utf-8") as file:
                return [Run(**json.loads(line)) for line in file]
        except (OSError, ValueError, TypeError) as error:
            raise FolderError(f"cannot read {self.directory / RUNS}: {error}") from error

    def keep_raw(self, run, text):
        """Keep what a run wrote; the file."""
        path = self.directory / RAW / f"{run.name}.txt"
        path.write_text(text, encoding="utf-8")
        return path
