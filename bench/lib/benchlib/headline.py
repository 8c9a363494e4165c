# SPDX-License-Identifier: BSD-3-Clause
"""The headline table: a fixed list of workloads, whatever they show."""

from dataclasses import dataclass

from .chart import size_text
from .claims import BASE, TESTED
from .reference import WIRINGS
from .report import number
from .summary import Row

K, M = 1 << 10, 1 << 20
# Benchmark, sizes, metric: of each wiring.
PATTERNS = (
    ("PingPong", (1, K, 16 * K, 64 * K, 256 * K, 4 * M), "time_us"),
    ("Isend", (64,), "time_us"),
    ("Uniband", (64,), "messages_per_s"),
    ("Uniband", (4 * K, 16 * K, 256 * K, 4 * M), "mbytes_per_s"),
    ("UnibandCold", (4 * K, 16 * K, 256 * K, 4 * M), "mbytes_per_s"),
    ("Biband", (256 * K,), "mbytes_per_s"),
    ("BibandCold", (256 * K,), "mbytes_per_s"),
    ("sender", (64 * K, M, 16 * M), "computing"),
    ("receiver", (64 * K, M, 16 * M), "computing"),
)
TITLES = {
    "PingPong": "half round trip",
    "Isend": "time in MPI_Isend",
    "Uniband": "stream",
    "UnibandCold": "stream, cold",
    "Biband": "streams both ways",
    "BibandCold": "streams both ways, cold",
    "sender": "the sender computes",
    "receiver": "the receiver computes",
}
NAMES = {"lammps": "LAMMPS", "abinit": "ABINIT", "hpcc": "HPL", "netpipe": "NetPIPE"}
ALSO = {"abinit": {"mpirun_s": "whole run"}}  # program -> further metrics with their names
STREAM, COLD = TITLES["Uniband"], TITLES["UnibandCold"]
# The README's rows: MTU in bytes, or None for programs, and the titles.
README_ROWS = {
    1500: (
        *(f"{size}, half round trip" for size in ("1 B", "1 KiB", "16 KiB", "64 KiB", "4 MiB")),
        f"64 B, {STREAM}",
        *(f"{size}, {kind}" for size in ("16 KiB", "256 KiB", "4 MiB") for kind in (STREAM, COLD)),
        *(f"1 MiB, {TITLES[side]}" for side in ("sender", "receiver")),
    ),
    9000: (
        "64 KiB, half round trip",
        "4 MiB, half round trip",
        *(f"{size}, {kind}" for size in ("256 KiB", "4 MiB") for kind in (STREAM, COLD)),
    ),
    None: (
        "LU A, 2 ranks on 2 hosts",
        "LU W, 4 ranks on 4 hosts",
        "SP W, 4 ranks on 4 hosts",
        "LAMMPS, 4 ranks on 4 hosts",
        "ABINIT, 4 ranks on 4 hosts",
        "ABINIT whole run, 4 ranks on 4 hosts",
        "Bitonic, 2 ranks on 2 hosts",
        "Cannon, 4 ranks on 4 hosts",
    ),
}
PROGRAMS_WIRING = "whole"  # over which programs are compared


@dataclass
class Line:
    """One workload over both transports."""

    title: str
    unit: str
    row: Row

    @property
    def gain(self):
        """How many times better rawe is; below 1 it is worse."""
        return self.row.gain(TESTED)

    @property
    def verdict(self):
        """The gain in a word."""
        if not self.row.differs(TESTED):
            return "no difference shown"
        return "better" if self.gain > 1 else "**worse**"

    def cells(self):
        """Both values, the gain and the verdict, as texts."""
        values = [f"{number(self.row.median(name))} {self.unit}" for name in (BASE, TESTED)]
        return [*values, f"{self.gain:.2f}", self.verdict]

    def mark(self):
        """The gain as one text: a loss in bold, with a tilde what is no difference."""
        if not self.row.differs(TESTED):
            return f"~{self.gain:.2f}"
        return f"{self.gain:.2f}" if self.gain > 1 else f"**{self.gain:.2f}**"


def _line(title, key, found):
    """A Line, or None where one of both was not measured."""
    row = Row([title], key, found, BASE)
    return Line(title, key.metric.unit, row) if row.gain(TESTED) else None


def patterns(reference, wiring, mtu):
    """The Lines that a reference run has of a wiring and an MTU."""
    parts = [WIRINGS[wiring, mtu]]
    if (wiring, mtu) == next(iter(WIRINGS)):
        parts.append("overlap")  # measured in this wiring only
    wanted = [(name, size, metric) for name, sizes, metric in PATTERNS for size in sizes]

    def place(key):
        return key.benchmark, key.size, key.metric.key

    found = {}
    for part in parts:
        found |= reference.select(part, lambda key: key.ranks == 2 and place(key) in wanted)
    lines = [
        _line(f"{size_text(key.size)}, {TITLES[key.benchmark]}", key, found[key])
        for key in sorted(found, key=lambda key: wanted.index(place(key)))
    ]
    return [line for line in lines if line]


def _programs(reference, part):
    """The first metric of each case, and the others in ALSO."""
    first = {}

    def wanted(key):
        name, metric = key.benchmark, key.metric.key
        is_first = first.setdefault((name, key.size, key.ranks, key.hosts), metric) == metric
        # A single rank sends nothing.
        return key.ranks > 1 and (is_first or metric in ALSO.get(name, ()))

    found = []
    for key, of_key in reference.select(part, wanted).items():
        name = key.benchmark
        title = NAMES.get(name, name.capitalize() if part == "apps" else f"{name} {key.size}")
        is_first = first[name, key.size, key.ranks, key.hosts] == key.metric.key
        what = "" if is_first else f" {ALSO[name][key.metric.key]}"
        found.append(_line(f"{title}{what}, {key.ranks} ranks on {key.hosts} hosts", key, of_key))
    return [line for line in found if line]


def programs(reference):
    """The Lines of NAS and of the applications."""
    return [*_programs(reference, "nas"), *_programs(reference, "apps")]


def readme_lines(references):
    """Lines of the README's table, whatever they show: the title, then the gains by maker and
    wiring, the wirings in WIRINGS' order. A row without any value is left out."""
    wirings = list(dict.fromkeys(wiring for wiring, _ in WIRINGS))
    lines = []
    for mtu, titles in README_ROWS.items():
        gains = []
        for one in references:
            for wiring in wirings:
                rows = []
                if mtu is not None:
                    rows = patterns(one, wiring, mtu)
                elif wiring == PROGRAMS_WIRING:
                    rows = programs(one)
                gains.append({row.title: row.mark() for row in rows})
        words = "" if mtu in (None, 1500) else f", MTU {mtu}"
        for title in titles:
            marks = [found.get(title, "") for found in gains]
            if any(marks):
                lines.append([f"{title}{words}", *marks])
    return lines
