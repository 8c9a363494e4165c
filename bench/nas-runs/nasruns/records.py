# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison keeps on disk while it runs: its setup and one line a run, so it can go on."""

import csv
from dataclasses import asdict, dataclass, fields

from benchlib.folder import Folder, FolderError

from .plan import Case

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


class Records(Folder):
    """The folder of one comparison."""

    def create(self, setup):
        """Begin a comparison."""
        self.begin(setup)
        with open(self.directory / RUNS, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(COLUMNS)

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
            raise FolderError(f"cannot read {self.directory / RUNS}: {error}") from error
