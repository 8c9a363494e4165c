# SPDX-License-Identifier: BSD-3-Clause
"""What a lab should look like: the options of the command line, checked, and the names."""

import random
import re
from dataclasses import asdict, dataclass

from . import wire
from .command import LabError

MTU_MIN = 576
MTU_MAX = 65535
HOSTS_MAX = 1000
NICS_MAX = 16
TOPOLOGIES = ("pair", "switch", "wire")
# What the hosts' NICs do with batches (TSO, GSO, UDP segmentation) and received frames:
# whole: pass batches on as they are, as virtual NICs do; nothing is merged
# cut: batches leave as frames, and the receiver merges frames (GRO), as real NICs do
# plain: no offloads at all, checksums included
NIC_KINDS = ("whole", "cut", "plain")
# `<name>-h999` must fit the 64 bytes of a host name, `rawe-<name>-h999` a file name.
NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]|[a-z]")
RATE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)bit", re.IGNORECASE)


def parse_percent(text):
    """Turn `1%`, `1` or `0.5 %` into a share in percent; LabError outside 0..100."""
    try:
        value = float(str(text).strip().rstrip("%").strip())
    except ValueError as error:
        raise LabError(f"loss {text!r} is not a percentage; write it as 1%") from error
    if not 0.0 <= value <= 100.0:
        raise LabError(f"loss {text!r} is outside 0%..100%")
    return value


def parse_rate(text):
    """Turn `1gbit`, `100mbit`, `500kbit` into bits per second."""
    match = RATE_PATTERN.fullmatch(str(text).strip())
    if match is None or float(match.group(1)) <= 0:
        raise LabError(f"rate {text!r} is not understood; write it as 500kbit, 100mbit or 1gbit")
    scale = {"k": 10**3, "m": 10**6, "g": 10**9}[match.group(2).lower()]
    return int(float(match.group(1)) * scale)


def random_name():
    """Four syllables a person can read out; letters only, host names carry numbers behind it."""
    chooser = random.SystemRandom()
    return "".join(chooser.choice("bdfgklmnprstvz") + chooser.choice("aeiou") for _ in range(4))


@dataclass
class LabSpec:
    """The shape of a lab. `name` and `topology` are filled in by resolve()."""

    hosts: int = 2
    # pair: two hosts wired directly; switch: a bridge for each NIC number; wire: rawe-wire, which
    # switches in user space and can do more harm.
    topology: str = None
    mtu: int = 1500
    nics: int = 1  # data NICs a host, beside the control network
    nic: str = None  # one of NIC_KINDS; whole, at a wire plain, unless said otherwise
    loss: float = 0.0  # percent of frames lost on their way into each host
    rate: str = None  # line rate of every NIC and switch port
    buffer: int = 128 * 1024  # bytes a switch port can hold when `rate` is set
    wire: str = None  # faults of the wire towards each host, see wire.py
    name: str = None

    def resolve(self):
        """Fill in the defaults that depend on others and check every value; returns self."""
        if self.name is None:
            self.name = random_name()
        if NAME_PATTERN.fullmatch(self.name) is None:
            raise LabError(
                f"lab name {self.name!r} is not usable as a host name: up to 32 small letters, "
                "digits and dashes, a letter first"
            )
        if self.topology is None:
            usual = "pair" if self.hosts == 2 else "switch"
            self.topology = usual if self.wire is None else "wire"
        if self.topology not in TOPOLOGIES:
            known = ", ".join(TOPOLOGIES)
            raise LabError(f"topology {self.topology!r} is unknown; choose one of {known}")
        if self.wire is not None and self.topology != "wire":
            raise LabError(f"--wire needs the topology wire, not {self.topology}; leave that out")
        if self.topology == "wire":
            self.wire = self.wire or ""
            wire.words_of(self.wire)
            if self.nic == "whole":
                raise LabError("--nic whole: a wire carries frames; choose cut or plain")
        self.nic = self.nic or ("plain" if self.topology == "wire" else "whole")
        if self.topology == "pair" and self.hosts != 2:
            raise LabError(
                f"topology pair wires exactly two hosts, not {self.hosts}; use --topology switch"
            )
        self._check_range("hosts", self.hosts, 1, HOSTS_MAX)
        self._check_range("nics", self.nics, 1, NICS_MAX)
        self._check_range("mtu", self.mtu, MTU_MIN, MTU_MAX)
        self._check_range("buffer", self.buffer, 2048, 2**30)
        if self.nic not in NIC_KINDS:
            raise LabError(f"--nic {self.nic!r} is unknown; choose one of {', '.join(NIC_KINDS)}")
        self.loss = parse_percent(self.loss)
        if self.rate is not None:
            parse_rate(self.rate)
        return self

    @staticmethod
    def _check_range(what, value, low, high):
        if not low <= value <= high:
            raise LabError(f"--{what} {value} is outside {low}..{high}")

    def as_dict(self):
        """The fields as a dictionary, for the lab's record."""
        return asdict(self)


@dataclass(frozen=True)
class Nic:
    """One data NIC of a host, under the names it has inside the host and at the switch."""

    index: int
    host: int

    @property
    def device(self):
        """Name inside the host."""
        return f"eth{self.index}"

    @property
    def port(self):
        """Name of the other end, in the switch's namespace."""
        return f"h{self.host}e{self.index}"

    @property
    def mac(self):
        """MAC address: locally administered, tells NIC and host when seen in a capture."""
        return f"02:72:61:{self.index:02x}:{(self.host + 1) >> 8:02x}:{(self.host + 1) & 255:02x}"

    @property
    def address(self):
        """IPv4 address; the subnet is a /16 for each NIC number."""
        return f"10.{81 + self.index}.{(self.host + 1) >> 8}.{(self.host + 1) & 255}"


@dataclass(frozen=True)
class Host:
    """One virtual host: a network namespace, a host name, NICs."""

    lab: str
    index: int
    nics: tuple

    @property
    def name(self):
        """Host name, unique among labs, since Open MPI names session directories after it."""
        return f"{self.lab}-h{self.index}"

    @property
    def netns(self):
        """Name of the network namespace."""
        return f"rawe-{self.name}"

    @property
    def control_mac(self):
        """MAC address on the control network."""
        return f"02:72:61:ff:{(self.index + 1) >> 8:02x}:{(self.index + 1) & 255:02x}"

    @property
    def control_address(self):
        """IPv4 address on the control network; the host name resolves to it."""
        return f"10.80.{(self.index + 1) >> 8}.{(self.index + 1) & 255}"


def hosts_of(spec):
    """The hosts that a resolved LabSpec describes."""
    return [
        Host(spec.name, host, tuple(Nic(nic, host) for nic in range(spec.nics)))
        for host in range(spec.hosts)
    ]


def switch_netns(spec):
    """Name of the namespace that holds the lab's bridges and its wire."""
    return f"rawe-{spec.name}-sw"


def wire_ends(spec):
    """(namespace, device, is a switch port) of every end of every data cable."""
    ends = []
    for host in hosts_of(spec):
        for nic in host.nics:
            ends.append((host.netns, nic.device, False))
            if spec.topology != "pair":
                ends.append((switch_netns(spec), nic.port, True))
    return ends
