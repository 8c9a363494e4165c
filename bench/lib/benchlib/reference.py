# SPDX-License-Identifier: BSD-3-Clause
"""The reference runs: their parts, and the files kept below results/.

results/<date>-<maker>/reference.json   date, machine, commit; command and medians of each part
results/<date>-<maker>/plot.svg         time and bandwidth over message size, of PLOTTED

<maker> is the maker of the processor.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import BenchError
from .summary import BETTER, Key, Median, Metric
from .transports import BASELINE

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
INDEX = "reference.json"
PLOT = "plot.svg"
PLOTTED = "cut"  # the part whose plot README and doc/results.md show
IMB = "bench/imb-runs/compare"
# The benchmarks that characterize a wiring: ping-pong, and streams into one buffer and into 64.
STREAMS = ("--benchmarks", "PingPong,Uniband,Biband", "--receive-buffers", "64")
LONG = (*STREAMS, "--msglog", "10:22")
OVERLAP = ("bench/rates/compare", "--transports", "tcp,rawe,async", "--suite")
PROGRAMS = "bench/programs/compare"
# Name -> command from the checkout's root. At 5 rounds those of IMB together take half an hour.
PARTS = {
    "programs-cut": (PROGRAMS, "--nic", "cut"),
    "programs": (PROGRAMS,),
    "programs-offload-off": (PROGRAMS, "--nic", "plain"),
    "cut": (IMB, "--nic", "cut", *STREAMS),
    "imb": (IMB, "--suite", "all", "--np", "2,4", "--receive-buffers", "64"),
    "offload-off": (IMB, "--nic", "plain", *STREAMS),
    "mtu9000-cut": (IMB, "--mtu", "9000", "--nic", "cut", *LONG),
    "mtu9000": (IMB, "--mtu", "9000", *LONG),
    "mtu9000-offload-off": (IMB, "--mtu", "9000", "--nic", "plain", *LONG),
    "others": ("bench/others",),
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
    "seeds": (IMB, "--suite", "seeds"),
    "nas": ("bench/nas-runs/compare",),
    "apps": ("bench/app-runs/compare",),
    "overlap": (*OVERLAP, "messages"),
    "overlap-collectives": (*OVERLAP, "collectives", "--rate", "1gbit"),
    "many-ranks": ("bench/many-ranks",),
    "instructions": ("bench/instructions",),
    "memory": ("bench/memory",),
    "batch-time": ("bench/batch-time",),  # last, because perf is missing on some machines
}  # fmt: skip
# Wiring, MTU in bytes -> the parts measured over it. The first wiring is the most like real NICs.
WIRINGS = {
    ("cut", 1500): ("programs-cut", "cut", "overlap"),
    ("whole", 1500): ("programs", "imb"),
    ("none", 1500): ("programs-offload-off", "offload-off"),
    ("cut", 9000): ("mtu9000-cut",),
    ("whole", 9000): ("mtu9000",),
    ("none", 9000): ("mtu9000-offload-off",),
}
MAKERS = ("AMD", "Intel")


def maker_of(machine):
    """Return the maker of a processor; `machine` is the result of places.machine()."""
    processor = dict(machine).get("Processor", "unknown")
    known = [maker for maker in MAKERS if maker.lower() in processor.lower()]
    return known[0] if known else re.match(r"[^\W_]*", processor).group() or "unknown"


def rows_of(medians):
    """Return medians as lists for the index, without the baseline, which no page shows."""
    return [
        [
            *key.cells(),
            {
                name: [one.median, one.low, one.high, one.rounds, *(one.interval or ())]
                for name, one in found.items()
                if name != BASELINE
            },
        ]
        for key, found in medians.items()
    ]


def _medians_of(rows):
    """Return {Key: {transport: Median}}: the inverse of rows_of()."""
    senses = {text: sense for sense, text in BETTER.items()}
    medians = {}
    for *start, metric, unit, better, found in rows:
        key = Key(*start, Metric(metric, metric, unit, senses[better]))
        medians[key] = {
            name: Median(rounds, median, low, high, tuple(interval) or None)
            for name, (median, low, high, rounds, *interval) in found.items()
        }
    return medians


@dataclass
class Reference:
    """A reference run that is kept below results/."""

    directory: Path
    index: dict
    shown: dict = field(default_factory=dict)  # part -> keys that select() has given

    @property
    def date(self):
        return self.index["date"]

    @property
    def maker(self):
        return maker_of(self.index["machine"])

    def part(self, name):
        """Return the index entry of a part, empty if it was not measured."""
        return self.index["parts"].get(name, {})

    def medians(self, part):
        """Return {Key: {transport: Median}} of a part, empty if it was not measured."""
        return _medians_of(self.part(part).get("medians", ()))

    def select(self, part, wanted):
        """Return the medians of a part whose key is `wanted`, and record that a page shows them."""
        found = {key: one for key, one in self.medians(part).items() if wanted(key)}
        self.shown.setdefault(part, set()).update(found)
        return found

    def condense(self):
        """Drop the medians that no page shows. A part that no page shows keeps the powers of 4."""
        for name, part in self.index["parts"].items():
            if "medians" in part:
                shown = self.shown.get(name)
                part["medians"] = rows_of(
                    {
                        key: found
                        for key, found in self.medians(name).items()
                        if (key in shown if shown else _is_power_of_four(key.size))
                    }
                )


def _is_power_of_four(size):
    """Return true for 0, 1, 4, 16, ..."""
    return size == 0 or (size & (size - 1) == 0 and size.bit_length() % 2 == 1)


def load(directory):
    """Read the Reference in a directory."""
    try:
        text = (Path(directory) / INDEX).read_text(encoding="utf-8")
        return Reference(Path(directory), json.loads(text))
    except (OSError, ValueError) as error:
        raise BenchError(
            f"{directory} holds no reference run ({error}); bench/publish makes one"
        ) from error


def newest(results=RESULTS):
    """Return the newest Reference of each maker, in the order of their names."""
    found = [load(path.parent) for path in sorted(Path(results).glob(f"*/{INDEX}"))]
    by_maker = {one.maker: one for one in sorted(found, key=lambda one: one.date)}
    return [by_maker[maker] for maker in sorted(by_maker)]


def _lines(value):
    """Format a value as JSON with a line for each item of a list, or of an outer dictionary."""
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_lines(one)}" for name, one in value.items()]
    elif isinstance(value, list):
        items = [json.dumps(one, ensure_ascii=False) for one in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n" + ",\n".join(items) + f"\n{end}"


def save(directory, index):
    """Write the index of a reference run, one row on each line."""
    (Path(directory) / INDEX).write_text(_lines(index) + "\n", encoding="utf-8")
