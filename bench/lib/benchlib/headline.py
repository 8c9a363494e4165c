# SPDX-License-Identifier: BSD-3-Clause
"""The headline table: a fixed list of workloads, whatever they show."""

from dataclasses import dataclass

from .chart import size_text
from .claims import BASE, TESTED, imb_row

# Part, benchmark, sizes, metric, what the row says of the part's conditions.
PATTERNS = (
    ("imb", "PingPong", (1, 1 << 10, 16 << 10, 256 << 10, 4 << 20), "time_us", ""),
    ("imb", "Isend", (64,), "time_us", ""),
    ("imb", "Uniband", (64, 4 << 10), "messages_per_s", ""),
    ("cut", "Uniband", (256 << 10, 4 << 20), "mbytes_per_s", ", NICs that cut and merge"),
    ("imb", "Uniband", (256 << 10, 4 << 20), "mbytes_per_s", ""),
    ("offload-off", "Uniband", (256 << 10, 4 << 20), "mbytes_per_s", ", NICs without offloads"),
    ("mtu9000-cut", "Uniband", (256 << 10,), "mbytes_per_s", ", NICs that cut, MTU 9000"),
    ("mtu9000", "Uniband", (256 << 10,), "mbytes_per_s", ", MTU 9000"),
)
TITLES = {
    "PingPong": "half round trip",
    "Isend": "time in MPI_Isend",
    "Uniband": "stream, 64 messages in flight",
}
UNITS = {"time_us": "µs", "messages_per_s": "messages/s", "mbytes_per_s": "MB/s"}
NAMES = {"lammps": "LAMMPS", "abinit": "ABINIT", "hpcc": "HPL", "netpipe": "NetPIPE"}
ALSO = {"abinit": {"mpirun_s": "whole run"}}  # program -> further metrics with their names
STREAM = f"256 KiB, {TITLES['Uniband']}"
README_ROWS = (
    "1 B, half round trip",
    "16 KiB, half round trip",
    "4 MiB, half round trip",
    f"64 B, {TITLES['Uniband']}",
    STREAM,
    f"{STREAM}, NICs without offloads",
    "LU W, 4 ranks on 4 hosts",
    "SP W, 4 ranks on 4 hosts",
    "LAMMPS, 4 ranks on 4 hosts",
    "ABINIT, 4 ranks on 4 hosts",
    "ABINIT whole run, 4 ranks on 4 hosts",
    "Bitonic, 2 ranks on 2 hosts",
    "Cannon, 4 ranks on 4 hosts",
)


@dataclass
class Row:
    """One workload over both transports."""

    title: str
    unit: str
    base: float
    tested: float
    higher_is_better: bool
    overlaps: bool  # whether a round of one transport lies between rounds of the other
    file: str  # below the reference run's directory

    @property
    def gain(self):
        """How many times better the tested transport is; below 1 it is worse."""
        ratio = self.tested / self.base
        return ratio if self.higher_is_better else 1 / ratio

    @property
    def verdict(self):
        """The gain in a word."""
        if self.overlaps:
            return "rounds overlap"
        return "better" if self.gain > 1 else "**worse**"

    def cells(self):
        """As texts of a table's row."""
        values = [
            f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
            for value in (self.base, self.tested)
        ]
        gain = f"{self.gain:.2f}"
        return [self.title, *(f"{value} {self.unit}" for value in values), gain, self.verdict]


def _overlap(one, other):
    """Whether two ranges (low, high) have a value in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def _range(row):
    return float(row["min"]), float(row["max"])


def _patterns(reference):
    for part, benchmark, sizes, metric, condition in PATTERNS:
        for size in sizes:
            key = (reference, part, benchmark, size, metric)
            tested, base = (imb_row(*key, transport=name) for name in (TESTED, BASE))
            if tested is not None and base is not None:
                yield Row(
                    f"{size_text(size)}, {TITLES[benchmark]}{condition}",
                    UNITS[metric],
                    float(base["median"]),
                    float(tested["median"]),
                    metric != "time_us",
                    _overlap(_range(base), _range(tested)),
                    f"{part}/medians.csv",
                )


def _ranges(reference, part):
    """(program, size, ranks, hosts, transport, metric) -> (low, high) over the rounds."""
    values = {}
    for row in reference.rows(part, "runs.csv"):
        if row["value"]:
            key = (*_case(row), row["transport"], row["metric"])
            values.setdefault(key, []).append(float(row["value"]))
    return {key: (min(several), max(several)) for key, several in values.items()}


def _case(row):
    return tuple(row[name] for name in ("program", "size", "ranks", "hosts"))


def _programs(reference, part):
    """The first metric of each case, and the others in ALSO."""
    medians, first, ranges = {}, {}, _ranges(reference, part)
    for row in reference.rows(part, "summary.csv"):
        case, metric = _case(row), row["metric"]
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
            _overlap(ranges[(*case, BASE, metric)], ranges[(*case, TESTED, metric)]),
            f"{part}/summary.csv",
        )


def rows(reference):
    """All Rows that the reference run has."""
    return [
        *_patterns(reference),
        *_programs(reference, "nas"),
        *_programs(reference, "apps"),
    ]


def readme_rows(reference):
    """The Rows for the README: those of README_ROWS, whatever they show."""
    return [row for row in rows(reference) if row.title in README_ROWS]
