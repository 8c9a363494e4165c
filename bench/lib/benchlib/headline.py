# SPDX-License-Identifier: BSD-3-Clause
"""The headline table: a fixed list of workloads, whatever they show."""

from dataclasses import dataclass

from . import case_summary, stats
from .chart import size_text
from .claims import BASE, TESTED, imb_row
from .reference import WIRINGS

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
)
TITLES = {
    "PingPong": "half round trip",
    "Isend": "time in MPI_Isend",
    "Uniband": "stream",
    "UnibandCold": "stream, cold",
    "Biband": "streams both ways",
    "BibandCold": "streams both ways, cold",
}
UNITS = {"time_us": "µs", "messages_per_s": "messages/s", "mbytes_per_s": "MB/s"}
NAMES = {"lammps": "LAMMPS", "abinit": "ABINIT", "hpcc": "HPL", "netpipe": "NetPIPE"}
ALSO = {"abinit": {"mpirun_s": "whole run"}}  # program -> further metrics with their names
STREAM, COLD = TITLES["Uniband"], TITLES["UnibandCold"]
# The README's rows: MTU in bytes, or None for programs, and the titles.
README_ROWS = {
    1500: (
        *(f"{size}, half round trip" for size in ("1 B", "1 KiB", "16 KiB", "64 KiB", "4 MiB")),
        f"64 B, {STREAM}",
        *(f"{size}, {kind}" for size in ("16 KiB", "256 KiB", "4 MiB") for kind in (STREAM, COLD)),
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
class Row:
    """One workload over both transports."""

    title: str
    unit: str
    base: float
    tested: float
    higher_is_better: bool
    differs: bool  # whether the interval of the ratio does not contain 1
    file: str  # below the reference run's directory

    @property
    def gain(self):
        """How many times better the tested transport is; below 1 it is worse."""
        ratio = self.tested / self.base
        return ratio if self.higher_is_better else 1 / ratio

    @property
    def verdict(self):
        """The gain in a word."""
        if not self.differs:
            return "no difference shown"
        return "better" if self.gain > 1 else "**worse**"

    def cells(self):
        """Both values, the gain and the verdict, as texts."""
        values = [f"{number_text(value)} {self.unit}" for value in (self.base, self.tested)]
        return [*values, f"{self.gain:.2f}", self.verdict]

    def mark(self):
        """The gain as one text: a loss in bold, with a tilde what is no difference."""
        if not self.differs:
            return f"~{self.gain:.2f}"
        return f"{self.gain:.2f}" if self.gain > 1 else f"**{self.gain:.2f}**"


def number_text(value):
    """A value as tables show it."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def patterns(reference, wiring, mtu):
    """The Rows that a reference run has of a wiring and an MTU."""
    part, found = WIRINGS[wiring, mtu], []
    for benchmark, sizes, metric in PATTERNS:
        for size in sizes:
            key = (reference, part, benchmark, size, metric)
            tested, base = (imb_row(*key, transport=name) for name in (TESTED, BASE))
            if tested is not None and base is not None:
                row = Row(
                    f"{size_text(size)}, {TITLES[benchmark]}",
                    UNITS[metric],
                    float(base["median"]),
                    float(tested["median"]),
                    metric != "time_us",
                    stats.differs(stats.kept_interval(tested, base)),
                    f"{part}/medians.csv",
                )
                found.append(row)
    return found


def _programs(reference, part):
    """The first metric of each case, and the others in ALSO."""
    medians, first = {}, {}
    doubts = case_summary.intervals(reference.rows(part, "runs.csv"), BASE)
    for row in reference.rows(part, "summary.csv"):
        case, metric = case_summary.case_of(row), row["metric"]
        first.setdefault(case, metric)
        if row["median"] and metric in (first[case], *ALSO.get(case[0], ())):
            medians.setdefault((case, metric), {})[row["transport"]] = row
    for (case, metric), rows_of in medians.items():
        name, size, ranks, hosts = case
        # A single rank sends nothing.
        if TESTED not in rows_of or BASE not in rows_of or ranks == "1":
            continue
        tested, base = rows_of[TESTED], rows_of[BASE]
        ratio, gain = float(tested[f"ratio_to_{BASE}"]), float(tested[f"gain_over_{BASE}"])
        title = NAMES.get(name, name.capitalize() if part == "apps" else f"{name} {size}")
        what = "" if metric == first[case] else f" {ALSO[name][metric]}"
        yield Row(
            f"{title}{what}, {ranks} ranks on {hosts} hosts",
            tested["unit"],
            float(base["median"]),
            float(tested["median"]),
            (gain > 1) == (ratio > 1),
            stats.differs(doubts[(*case, metric)][TESTED]),
            f"{part}/summary.csv",
        )


def programs(reference):
    """The Rows of NAS and of the applications."""
    return [*_programs(reference, "nas"), *_programs(reference, "apps")]


def readme_lines(references):
    """Lines of the README's table, whatever they show: the title, then the gains by maker and
    wiring, the wirings in WIRINGS' order. A row that nobody measured is left out."""
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
