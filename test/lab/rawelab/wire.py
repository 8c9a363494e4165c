# SPDX-License-Identifier: BSD-3-Clause
"""Starts the user-space wire of a lab (test/lab/wire), and uses its control socket.

Faults are `none`, or a list of KEY=VALUE, separated by commas or blanks:

  delay=1ms             of every frame           loss=1%          each frame independently
  reorder=20%:1ms       held back for up to 1 ms burst=0.1%:50ms  bursts of loss, or 0.1%:20 frames
  duplicate=5%          arrive twice             blackout=5s      nothing passes; or 50ms/1s: again
  corrupt=1%            a byte is changed                         and again, every second
  truncate=1%           cut short                pad=1%           zeros are appended
  repeat-changed=1%     arrive twice, then with  lengthen=1%      other bytes are appended
                        a changed byte
  rate=1gbit            line rate, with          mtu=1400         longer frames vanish
  buffer=64k            of buffer, drop-tail     seed=7           of the random numbers
"""

import re
import socket
import subprocess
from pathlib import Path

from .command import LabError

PROGRAM = Path("test/lab/wire/rawe-wire")
DIRECTIONS = ("in", "out", "both")  # towards the host, from the host
ANSWER_SECONDS = 60


def find_program(build=None):
    """Return the path of rawe-wire in the given build directory, ./build, or the source tree's."""
    beside = Path(__file__).resolve().parents[3] / "build"
    builds = [Path(build)] if build is not None else [Path("build"), beside]
    for one in builds:
        if (one / PROGRAM).exists():
            return (one / PROGRAM).resolve()
    looked = " and ".join(str(one / PROGRAM) for one in builds)
    raise LabError(
        f"a lab with a wire needs the program rawe-wire, which is not there: {looked}; build first "
        "(`make tests`), or name the build directory with --build"
    )


def _share(text):
    """Parse `1%` or `1` as a probability."""
    number = float(re.fullmatch(r"(\d+(?:\.\d*)?)%?", text).group(1)) / 100
    return number if number <= 1 else None


def _scaled(units, most):
    """Return a function that parses a number from 0 to `most` in one of these units."""

    def read(text):
        number, unit = re.fullmatch(r"(\d+(?:\.\d*)?)([A-Za-z]*)", text).groups()
        result = int(float(number) * units[unit]) if text != "0" else 0
        return result if result <= most and (result > 0 or text == "0") else None

    return read


_time = _scaled({"us": 1e3, "ms": 1e6, "s": 1e9}, 3600e9)
_rate = _scaled({"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}, 1e12)
_bytes = _scaled({"": 1, "k": 1024, "M": 1 << 20}, 256 << 20)
_number = _scaled({"": 1}, 2**63)


def _burst(value):
    share, length = value.split(":")
    frames = _number(length) if length.isdigit() else 0
    time_ns = 0 if length.isdigit() else _time(length)
    return (_share(share), frames, time_ns) if frames or time_ns else None


def _reorder(value):
    share, _, longest = value.partition(":")
    return _share(share), _time(longest or "1ms") or None


def _blackout(value):
    length, again, every = value.partition("/")
    length_ns, every_ns = _time(length), _time(every) if again else 0
    return (length_ns, every_ns) if not again or every_ns > length_ns else None


# Each fault: its settings in wire/wire.h, its parser, and a description of its values.
FAULTS = {
    "loss": (["loss"], _share, "a percentage as 1%"),
    "burst": (
        ["burst", "burst_frames", "burst_ns"],
        _burst,
        "PERCENTAGE:FRAMES or PERCENTAGE:TIME, as 0.1%:20 or 0.1%:50ms",
    ),
    "duplicate": (["duplicate"], _share, "a percentage as 5%"),
    "corrupt": (["corrupt"], _share, "a percentage as 1%"),
    "truncate": (["truncate"], _share, "a percentage as 1%"),
    "pad": (["pad"], _share, "a percentage as 1%"),
    "lengthen": (["lengthen"], _share, "a percentage as 1%"),
    "repeat-changed": (["repeat_changed"], _share, "a percentage as 1%"),
    "reorder": (["reorder", "reorder_ns"], _reorder, "PERCENTAGE or PERCENTAGE:TIME, as 20%:1ms"),
    "delay": (["delay_ns"], _time, "a time of at most an hour, as 100us, 1ms or 2s"),
    "rate": (["rate_bits"], _rate, "a rate as 100mbit or 1gbit, or 0"),
    "buffer": (["buffer_bytes"], _bytes, "bytes as 65536 or 64k, at most 256M"),
    "mtu": (["mtu_bytes"], _scaled({"": 1}, 65535), "bytes, at most 65535; 0 lets everything pass"),
    "blackout": (
        ["blackout_ns", "blackout_every_ns"],
        _blackout,
        "TIME or TIME/EVERY, as 5s or 50ms/1s, the latter the longer one",
    ),
    "seed": (["seed"], _number, "seed=NUMBER"),
}


def words_of(faults):
    """Return faults as the wire's NAME=NUMBER words; raise LabError if one is invalid."""
    result = []
    for word in re.split(r"[,\s]+", faults):
        key, equals, value = word.partition("=")
        if word in ("", "none"):
            result += [word] if word else []
            continue
        if not equals or not value:
            raise LabError(
                f"{word!r} is no fault of the wire; write it as delay=1ms,reorder=20%, or none"
            )
        if key not in FAULTS:
            raise LabError(f"there is no setting {key!r}; there are {', '.join(FAULTS)}")
        names, read, form = FAULTS[key]
        try:
            numbers = read(value)
        except (AttributeError, KeyError, ValueError):
            numbers = None
        numbers = numbers if isinstance(numbers, tuple) else (numbers,)
        if None in numbers:
            raise LabError(f"{word}: wanted is {form}")
        result += [f"{name}={number}" for name, number in zip(names, numbers)]
    return result


def socket_path(directory):
    """Return the path of the control socket of the lab in this directory."""
    return directory / "wire.sock"


def start(spec, ports, netns, directory, build):
    """Start a lab's wire in the switch's namespace; return its Popen once it forwards frames."""
    argv = ["ip", "netns", "exec", netns, find_program(build), "--control", socket_path(directory)]
    for nic in ports:
        argv += ["--port", f"{nic.port}={nic.mac}/{nic.index}"]
    log = directory / "wire.log"
    with open(log, "w", encoding="utf-8") as errors:
        # The wire has its own process group, because Ctrl-C is meant for the lab, which ends the
        # wire along with the namespaces; but it shares the ranks' session: see launch._for_orte().
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
            text=True,
        )
    with process.stdout:
        said = process.stdout.readline()
    if said.strip() != "ready":
        process.wait()
        text = log.read_text(encoding="utf-8").strip()
        raise LabError(f"the wire of lab {spec.name} did not start: {text}")
    if words_of(spec.wire):
        change(directory, None, "in", spec.wire)
    return process


def ask(directory, request):
    """Send a request to the wire; return the lines of its answer, or raise LabError."""
    path = socket_path(directory)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_SECONDS)
            client.connect(str(path))
            client.sendall(request.encode() + b"\n")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
    except OSError as error:
        raise LabError(
            f"the wire of this lab does not answer at {path} ({error}); a lab has one when it was "
            "made with --wire or --topology wire, see also wire.log there"
        ) from error
    lines = answer.decode().splitlines()
    if not lines or lines[-1] != "ok":
        text = lines[-1].removeprefix("error: ") if lines else "it broke off"
        raise LabError(f"the wire refuses: {text}")
    return lines[:-1]


def change(directory, ports, direction, faults):
    """Change the faults of these NICs' cables (None: all cables) in one direction or both."""
    if direction not in DIRECTIONS:
        raise LabError(f"a wire has the directions {', '.join(DIRECTIONS)}, not {direction!r}")
    words = words_of(faults)
    if not words:
        raise LabError("no fault is given; write for example delay=1ms,reorder=20%, or none")
    for name in ["*"] if ports is None else [nic.port for nic in ports]:
        ask(directory, " ".join(["set", name, direction, *words]))


def counters(directory):
    """Return all counters, {(port, direction): {name: number}}, with the whole wire under None."""
    result = {}
    for line in ask(directory, "show"):
        pairs = dict(word.split("=", 1) for word in line.split() if "=" in word)
        port, direction = pairs.pop("port", None), pairs.pop("direction", None)
        key = (port, direction) if port is not None else None
        result[key] = {name: int(value) for name, value in pairs.items()}
    return result
