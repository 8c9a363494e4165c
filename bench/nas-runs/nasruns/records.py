# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison keeps on disk while it runs: its setup and one line a run, so it can go on."""

import csv
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .error import NasError
from .plan import Case

SETUP = "setup.json"
RUNS = "runs.csv"


@dataclass
class Run:
    """One run of one program over one transport. Figures are None when it failed."""

    benchmark: str
    problem: str
    ranks: int
    hosts: int
    peer: str  # tcp, rawe, ...
    round: int  # from 1
    seconds: float = None
    mops: float = None
    mpi_share: float = None  # percent
    messages: int = None
    bytes_sent: int = None
    verification: str = ""
    failure: str = ""  # why there are no figures; empty when there are

    @property
    def case(self):
        """The Case this run belongs to."""
        return Case(self.benchmark, self.problem, self.ranks, self.hosts)

    @property
    def done(self):
        """What --resume need not repeat is known by this."""
        return (self.case, self.peer, self.round)


KINDS = {name: int for name in ("ranks", "hosts", "round", "messages", "bytes_sent")}
KINDS.update({name: float for name in ("seconds", "mops", "mpi_share")})
TEXTS = ("verification", "failure")
COLUMNS = [field.name for field in fields(Run)]


def _from_row(row):
    values = {}
    for name, text in row.items():
        if text == "" and name not in TEXTS:
            values[name] = None
        else:
            values[name] = KINDS.get(name, str)(text)
    return Run(**values)


class Records:
    """The folder of one comparison."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def create(self, setup):
        """Make the folder and keep the setup (anything JSON can hold)."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if (self.directory / RUNS).exists():
            raise NasError(
                f"{self.directory} holds another comparison already; choose another folder with "
                "--out, or go on with that one with --resume"
            )
        text = json.dumps(setup, indent=2, sort_keys=True) + "\n"
        (self.directory / SETUP).write_text(text, encoding="utf-8")
        with open(self.directory / RUNS, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(COLUMNS)

    def setup(self):
        """The setup that create() kept."""
        try:
            return json.loads((self.directory / SETUP).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise NasError(
                f"{self.directory} holds no comparison to go on with ({error}); start a new one "
                "without --resume"
            ) from error

    def add(self, run):
        """Keep one more run, at once."""
        row = asdict(run)
        with open(self.directory / RUNS, "a", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(["" if row[name] is None else row[name] for name in COLUMNS])

    def runs(self):
        """All runs so far."""
        try:
            with open(self.directory / RUNS, encoding="utf-8", newline="") as file:
                return [_from_row(row) for row in csv.DictReader(file)]
        except (OSError, ValueError, TypeError) as error:
            raise NasError(f"cannot read {self.directory / RUNS}: {error}") from error
