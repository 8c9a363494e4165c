# SPDX-License-Identifier: BSD-3-Clause
"""A job, and a host on the same switch that attacks it (test/lab/attack, rawe-verify --soak).

The switch's address table is fixed, as with port security: forged source addresses cannot divert
frames, so all hostile frames reach the victims.
"""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import launch
from .command import LabError

ATTACKER = Path(__file__).resolve().parents[1] / "attack"

KINDS = ("random", "replay", "blind", "forged")
CAPTURED_FRAMES = 3000
LEAST_FRAMES = 20000
HANG_SECONDS = 180  # a job usually needs a few
# rawe's plain frames and its batches.
EXPRESSION = ["ether", "proto", "0x88b5", "or", "src", "host", "255.255.255.255"]
UDP_EXPRESSION = ["udp"]
UDP = ("--mca", "btl_rawe_kind", "udp")
RANKS = 2  # on the first two hosts; the third is the attacker
HOSTS = 3


@dataclass
class Outcome:
    """The result of a job, whether or not it was attacked."""

    result: launch.MpiResult
    attack: str = ""  # the attacker's output
    sent: dict = field(default_factory=dict)  # number of hostile frames of each kind

    def counter(self, name):
        """Return the sum of a counter over all ranks and interfaces."""
        text = self.result.output + self.result.errors
        return sum(int(value) for value in re.findall(rf"\b{name}=(\d+)", text))

    def rejected(self):
        """Return the nonzero counters of dropped frames."""
        text = self.result.output + self.result.errors
        names = sorted(set(re.findall(r"\b(dropped_\w+|duplicates)=", text)))
        return {name: self.counter(name) for name in names if self.counter(name)}


def _attack(lab, seconds, kind, way, file, source):
    """Run the attacker on the third host; return its output."""
    words = ["--interface", "eth0", "--capture", file, "--seconds", seconds]
    words += ["--frames", LEAST_FRAMES]
    words += ["--kind", kind] if kind is not None else []
    words += ["--way", way] if way is not None else []
    words += ["--source", source] if source is not None else []
    done = lab.run(2, [ATTACKER, *words], timeout=seconds + HANG_SECONDS)
    return done.stdout + done.stderr


def _await_frames(capture, process):
    """Wait until enough frames have been captured. Returns false if the job ends first."""
    deadline = time.monotonic() + HANG_SECONDS
    while capture.poll() is None and process.poll() is None:
        if time.monotonic() > deadline:
            raise LabError(
                f"no {CAPTURED_FRAMES} frames of the job came within {HANG_SECONDS} seconds: it "
                "hangs, or tcpdump does not see it"
            )
        time.sleep(0.05)
    return capture.poll() is not None


def run(
    lab,
    build,
    seconds,
    kind=None,
    way=None,
    file=None,
    timeout=None,
    btl="rawe,self",
    options=(),
    source=None,
):
    """Run the soak on a lab of three hosts for `seconds`.

    With a `file` for captured frames, the job is attacked for at least that time and with at least
    LEAST_FRAMES frames, of one kind or all kinds, wrong in one way or in all. The attack starts
    once enough frames of the job have been captured, and the job ends after the attack. `timeout`
    counts from the end of the attack. With a `source` ("peer", "own"), the job uses UDP, and the
    hostile datagrams have that source address.
    """
    options = [*options, *(UDP if source is not None else ())]
    arguments = ["-np", RANKS, "--mca", "btl", btl, "--mca", "btl_rawe_stats", "1", *options]
    arguments += [launch.program(build, launch.VERIFY), "--soak", seconds, "--interval", 1]
    if file is not None:
        end_file = Path(f"{file}.end")
        arguments += ["--until", end_file]
        expression = EXPRESSION if source is None else UDP_EXPRESSION
        capture = lab.capture(1, file, expression, count=CAPTURED_FRAMES)
    process = launch.start(lab, arguments, build=build, **launch.PIPES)
    said = ""
    if file is not None:
        try:
            if _await_frames(capture, process):
                said = _attack(lab, seconds, kind, way, file, source)
        finally:
            capture.stop()
            end_file.touch()
    result = launch.collect(lab, process, timeout)
    sent = {name: int(count) for name, count in re.findall(r"\b([a-z]+)=(\d+)", said)}
    return Outcome(result, said, sent)
