# SPDX-License-Identifier: BSD-3-Clause
"""The reference runs: their parts, and what is kept of them below results/.

results/<date>-<maker>/reference.json        date, machine, commit; command and facts of each part
results/<date>-<maker>/<part>/*.csv, *.svg   the part's values, and its plot where one is shown

The maker is that of the processor.
"""

import csv
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from . import summary
from .error import BenchError

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
INDEX = "reference.json"
MEDIANS = "medians.csv"
SHOWN = ("cut", "imb", "nas", "apps")  # parts whose plots README and doc/results.md show
PLOTS = ("plot.svg", "summary.svg")
IMB = "bench/imb-runs/compare"
COLLECTIVES = "Allreduce,Alltoall,Allgather,Bcast"
# Streams received into one buffer and into 64, and ping-pong: what a wiring is known by.
STREAMS = ("--benchmarks", "PingPong,Uniband,Biband", "--receive-buffers", "64")
LONG = (*STREAMS, "--msglog", "10:22")
OVERLAP = ("bench/rates/compare", "--transports", "tcp,rawe,async", "--suite")
PEERS = ("--transports", "tcp,ofi,ucx,rawe", "--benchmarks", "PingPong,Uniband")
# Name -> command from the checkout's root. At 5 rounds those of IMB together take half an hour.
PARTS = {
    "cut": (IMB, "--nic", "cut", *STREAMS),
    "imb": (IMB, "--suite", "all", "--np", "2,4", "--receive-buffers", "64"),
    "offload-off": (IMB, "--nic", "plain", *STREAMS),
    "mtu9000-cut": (IMB, "--mtu", "9000", "--nic", "cut", *LONG),
    "mtu9000": (IMB, "--mtu", "9000", *LONG),
    "mtu9000-offload-off": (IMB, "--mtu", "9000", "--nic", "plain", *LONG),
    "transports-cut": (IMB, "--nic", "cut", *PEERS),
    "transports": (IMB, *PEERS),
    "switch": (IMB, "--topology", "switch", "--suite", "latency"),
    "rate-1gbit": (
        IMB, "--rate", "1gbit", "--topology", "switch", "--benchmarks", "Uniband",
        "--msglog", "20:20", "--time", "5",
    ),
    "rate-10gbit": (
        IMB, "--rate", "10gbit", "--topology", "switch", "--benchmarks", "Uniband",
        "--msglog", "20:20",
    ),
    # btl/tcp sometimes hangs at its first connect() under loss; 20 s are five times enough.
    **{
        f"loss-{percent}": (
            IMB, "--suite", "loss", "--loss", f"{percent}%", "--time", "2",
            "--iterations", "200000", "--timeout", "20",
        )
        for percent in (0, 1, 5)
    },
    "collectives-2x4": (
        IMB, "--np", "8", "--hosts", "2", "--benchmarks", COLLECTIVES, "--msglog", "2:16",
    ),
    "seeds": (IMB, "--suite", "seeds"),
    "nas": ("bench/nas-runs/compare",),
    "apps": ("bench/app-runs/compare",),
    "overlap": (*OVERLAP, "messages"),
    "overlap-collectives": (*OVERLAP, "collectives", "--rate", "1gbit"),
    "many-ranks": ("bench/many-ranks",),
    "instructions": ("bench/instructions",),
    "memory": ("bench/memory",),
    "batch-time": ("bench/batch-time",),  # last, as perf is not everywhere
}  # fmt: skip
# Wiring, MTU in bytes -> the part that has its streams. The one that real NICs resemble is first.
WIRINGS = {
    ("cut", 1500): "cut",
    ("whole", 1500): "imb",
    ("none", 1500): "offload-off",
    ("cut", 9000): "mtu9000-cut",
    ("whole", 9000): "mtu9000",
    ("none", 9000): "mtu9000-offload-off",
}
MAKERS = ("AMD", "Intel")


def maker_of(machine):
    """The maker of a machine's processor; `machine` as facts.machine() gives it."""
    processor = dict(machine).get("Processor", "unknown")
    known = [maker for maker in MAKERS if maker.lower() in processor.lower()]
    return known[0] if known else re.match(r"[^\W_]*", processor).group() or "unknown"


_medians = functools.cache(summary.read_medians)  # every claim asks for them


@dataclass
class Reference:
    """A reference run that is kept below results/."""

    directory: Path
    index: dict

    @property
    def date(self):
        """Its day."""
        return self.index["date"]

    @property
    def maker(self):
        """The maker of the processor."""
        return maker_of(self.index["machine"])

    def parts(self):
        """Name and description of each part that was measured, in PARTS' order; then those that are
        no longer measured."""
        kept = self.index["parts"]
        names = [name for name in PARTS if name in kept]
        return [(name, kept[name]) for name in names + sorted(set(kept) - set(PARTS))]

    def about(self, part):
        """What report.save_about() kept of a part, or None."""
        return self.index["parts"].get(part, {}).get("about")

    def medians(self, part):
        """{Key: {transport: Median}} of a part; empty when it was not measured."""
        path = self.directory / part / MEDIANS
        return _medians(path) if part in self.index["parts"] and path.exists() else {}

    def rows(self, part):
        """The lines of the CSV file named after a part; none when it was not measured."""
        path = self.directory / part / f"{part}.csv"
        if part not in self.index["parts"] or not path.exists():
            return []
        with open(path, encoding="utf-8", newline="") as stream:
            return list(csv.reader(stream))


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
    """The newest Reference below results/ of each maker, by the makers' names."""
    found = [load(path.parent) for path in sorted(Path(results).glob(f"*/{INDEX}"))]
    by_maker = {one.maker: one for one in sorted(found, key=lambda one: one.date)}
    return [by_maker[maker] for maker in sorted(by_maker)]


def save(directory, index):
    """Write the index of a reference run, a part a line."""

    def text(value):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)

    parts = ",\n".join(f"{text(name)}: {text(part)}" for name, part in index["parts"].items())
    lines = [f"{text(name)}: {text(value)}" for name, value in index.items() if name != "parts"]
    lines.append(f'"parts": {{\n{parts}\n}}')
    content = "{\n" + ",\n".join(lines) + "\n}\n"
    (Path(directory) / INDEX).write_text(content, encoding="utf-8")
