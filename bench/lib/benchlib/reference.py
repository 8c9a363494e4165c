# SPDX-License-Identifier: BSD-3-Clause
"""The reference run: its parts, and what is kept of them below results/.

results/<date>/reference.json        date, machine, commit; command and facts of each part
results/<date>/<part>/*.csv, *.svg   the part's values and plots

bench/report makes the report pages from these.
"""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from .error import BenchError

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
INDEX = "reference.json"
KEPT = ("medians.csv", "summary.csv", "runs.csv", "instructions.csv", "memory.csv")
KEPT_PLOTS = ("plot.svg", "summary.svg")
IMB = "bench/imb-runs/compare"
COLLECTIVES = "Allreduce,Alltoall,Allgather,Bcast"
# Name -> command from the checkout's root.
PARTS = {
    "imb": (IMB, "--suite", "all"),
    "transports": (IMB, "--transports", "tcp,ofi,ucx,rawe", "--benchmarks", "PingPong,Uniband"),
    "switch": (IMB, "--topology", "switch", "--suite", "latency"),
    "cut": (IMB, "--nic", "cut", "--suite", "bandwidth"),
    "offload-off": (IMB, "--nic", "plain", "--suite", "bandwidth"),
    "mtu9000": (IMB, "--mtu", "9000", "--suite", "bandwidth"),
    "mtu9000-cut": (IMB, "--mtu", "9000", "--nic", "cut", "--suite", "bandwidth"),
    "mtu9000-offload-off": (IMB, "--mtu", "9000", "--nic", "plain", "--suite", "bandwidth"),
    "mtu65000": (IMB, "--mtu", "65000", "--suite", "bandwidth"),
    "rate-1gbit": (
        IMB, "--rate", "1gbit", "--topology", "switch", "--benchmarks", "Uniband",
        "--msglog", "20:20", "--time", "5",
    ),
    "rate-10gbit": (
        IMB, "--rate", "10gbit", "--topology", "switch", "--benchmarks", "Uniband",
        "--msglog", "20:20",
    ),
    # btl/tcp sometimes hangs at its first connect() under loss; 40 s are ten times enough.
    **{
        f"loss-{percent}": (
            IMB, "--suite", "loss", "--loss", f"{percent}%", "--time", "2",
            "--iterations", "200000", "--timeout", "40",
        )
        for percent in (0, 1, 5)
    },
    "collectives-2x4": (
        IMB, "--np", "8", "--hosts", "2", "--benchmarks", COLLECTIVES, "--msglog", "2:16",
    ),
    "seeds": (IMB, "--suite", "seeds"),
    "nas": ("bench/nas-runs/compare",),
    "apps": ("bench/app-runs/compare",),
    "instructions": ("bench/instructions",),
    "memory": ("bench/memory",),
}  # fmt: skip


@dataclass
class Reference:
    """A reference run that is kept below results/."""

    directory: Path
    index: dict

    @property
    def date(self):
        """Its day."""
        return self.index["date"]

    def parts(self):
        """Name and description of each part that was measured, in PARTS' order."""
        kept = self.index["parts"]
        return [(name, kept[name]) for name in PARTS if name in kept]

    def about(self, part):
        """What report.save_about() kept of a part, or None."""
        return self.index["parts"].get(part, {}).get("about")

    def rows(self, part, file):
        """The lines of a part's CSV file, as dictionaries; none when it was not measured."""
        path = self.directory / part / file
        if part not in self.index["parts"] or not path.exists():
            return []
        with open(path, encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))


def load(directory):
    """The Reference in a directory."""
    try:
        return Reference(
            Path(directory), json.loads((Path(directory) / INDEX).read_text(encoding="utf-8"))
        )
    except (OSError, ValueError) as error:
        raise BenchError(
            f"{directory} holds no reference run ({error}); bench/publish makes one"
        ) from error


def newest(results=RESULTS):
    """The newest Reference below results/, or None."""
    found = sorted(path.parent for path in Path(results).glob(f"*/{INDEX}"))
    return load(found[-1]) if found else None


def save(directory, index):
    """Write the index of a reference run."""
    text = json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (Path(directory) / INDEX).write_text(text, encoding="utf-8")
