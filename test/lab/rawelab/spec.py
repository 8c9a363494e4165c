# SPDX-License-Identifier: BSD-3-Clause
"""The specification of a lab: checked command-line options, and the names derived from them."""

import random
import re
from dataclasses import asdict, dataclass

from . import wire
from .command import LabError

MTU_MIN = 576
MTU_MAX = 65535
HOSTS_MAX = 1000
NICS_MAX = 16
TOPOLOGIES = ("pair", "switch", "wire", "routed")
# How the hosts' NICs handle batches (TSO, GSO, UDP segmentation) and received frames:
# whole: batches pass unchanged, as with virtual NICs; nothing is merged
# cut: batches leave as frames, and the receiver merges frames (GRO), as with real NICs
# plain: no offloads, not even checksums
NIC_KINDS = ("whole", "cut", "plain")
# `<name>-h999` must fit the 64 bytes of a host name, and `rawe-<name>-h999` a file name.
NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]|[a-z]")
RATE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)bit", re.IGNORECASE)


def parse_percent(text):
    """Parse `1%`, `1` or `0.5 %` as a percentage; raise LabError unless it is 0 to 100."""
    try:
        value = float(str(text).strip().rstrip("%").strip())
    except ValueError as error:
        raise LabError(f"loss {text!r} is not a percentage; write it as 1%") from error
    if not 0.0 <= value <= 100.0:
        raise LabError(f"loss {text!r} is outside 0%..100%")
    return value


def parse_rate(text):
    """Parse `1gbit`, `100mbit` or `500kbit` as bits per second."""
    match = RATE_PATTERN.fullmatch(str(text).strip())
    if match is None or float(match.group(1)) <= 0:
        raise LabError(f"rate {text!r} is not understood; write it as 500kbit, 100mbit or 1gbit")
    scale = {"k": 10**3, "m": 10**6, "g": 10**9}[match.group(2).lower()]
    return int(float(match.group(1)) * scale)


def random_name():
    """Return four readable syllables; letters only, because host names append a number."""
    chooser = random.SystemRandom()
    return "".join(chooser.choice("bdfgklmnprstvz") + chooser.choice("aeiou") for _ in range(4))


@dataclass
class LabSpec:
    """The shape of a lab. resolve() sets `name` and `topology`."""

    hosts: int = 2
    # pair: two directly connected hosts; switch: a bridge for each NIC number; wire: rawe-wire, a
    # switch in user space with more kinds of faults; routed: two subnets for each NIC number, each
    # a bridge, which a router joins. Hosts with even numbers are in the first subnet.
    topology: str = None
    mtu: int = 1500
    nics: int = 1  # data NICs per host, in addition to the control network
    nic: str = None  # one of NIC_KINDS; default: plain with a wire, otherwise whole
    loss: float = 0.0  # percentage of frames lost on the way into each host
    rate: str = None  # line rate of every NIC and switch port
    buffer: int = 128 * 1024  # bytes that a switch port can queue when `rate` is set
    wire: str = None  # faults of the wire to each host; see wire.py
    router_mtu: int = None  # MTU of the router's NICs in the second subnets; default: `mtu`
    name: str = None

    def resolve(self):
        """Set defaults that depend on other fields, and check every value; return self."""
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
        if self.router_mtu is not None:
            if self.topology != "routed":
                raise LabError(f"--router-mtu needs the topology routed, not {self.topology}")
            self._check_range("router-mtu", self.router_mtu, MTU_MIN, self.mtu)
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
        """Return the fields as a dictionary, for the lab's record."""
        return asdict(self)


@dataclass(frozen=True)
class Subnet:
    """The IPv4 subnet of all NICs with one number; with a router, one of two (`half` 0 or 1)."""

    nic: int
    half: int = None

    @property
    def bridge(self):
        """Name of the bridge in the switch's namespace, which is the NIC of a router there."""
        return f"br{self.nic}{'' if self.half is None else 'ab'[self.half]}"

    @property
    def prefix_bits(self):
        """Length of the subnet's prefix."""
        return 16 if self.half is None else 17

    @property
    def prefix(self):
        """The subnet in the notation of `ip route`."""
        return f"10.{81 + self.nic}.{128 * (self.half or 0)}.0/{self.prefix_bits}"

    def address(self, number):
        """Return the IPv4 address with this number, 0 to 32767."""
        return f"10.{81 + self.nic}.{128 * (self.half or 0) + (number >> 8)}.{number & 255}"

    @property
    def ipv6_prefix(self):
        """The unique-local IPv6 subnet, for Lab.use_ipv6."""
        return f"fd00:81:{self.nic + 1}:{(self.half or 0) + 1}::/64"

    def ipv6_address(self, number):
        """Return the IPv6 address with this number."""
        return f"fd00:81:{self.nic + 1}:{(self.half or 0) + 1}::{number:x}"

    @property
    def other(self):
        """The subnet at the other side of the router."""
        return Subnet(self.nic, 1 - self.half)

    @property
    def router_address(self):
        """IPv4 address of the router in this subnet."""
        return self.address(0x7FFE)

    @property
    def router_ipv6_address(self):
        """IPv6 address of the router in this subnet."""
        return self.ipv6_address(0x7FFE)

    @property
    def router_mac(self):
        """MAC address of the router in this subnet."""
        return f"02:72:61:{self.nic:02x}:ff:{self.half:02x}"


@dataclass(frozen=True)
class Nic:
    """A host's data NIC, with its names inside the host and at the switch."""

    index: int
    host: int
    subnet: Subnet

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
        """MAC address, locally administered; identifies host and NIC in a capture."""
        return f"02:72:61:{self.index:02x}:{(self.host + 1) >> 8:02x}:{(self.host + 1) & 255:02x}"

    @property
    def address(self):
        """IPv4 address in the NIC's subnet."""
        return self.subnet.address(self.host + 1)

    @property
    def ipv6_address(self):
        """IPv6 address in the NIC's subnet, for Lab.use_ipv6."""
        return self.subnet.ipv6_address(self.host + 1)

    @property
    def route(self):
        """The `ip` command, run inside the host, for the route through the router; None: none."""
        if self.subnet.half is None:
            return None
        to, via = self.subnet.other.prefix, self.subnet.router_address
        return f"route replace {to} via {via} dev {self.device}"


@dataclass(frozen=True)
class Host:
    """A virtual host: a network namespace, a host name, and NICs."""

    lab: str
    index: int
    nics: tuple

    @property
    def name(self):
        """Host name, unique among labs, because Open MPI names session directories after it."""
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
    """Return the hosts of a resolved LabSpec."""
    return [
        Host(
            spec.name,
            host,
            tuple(
                Nic(nic, host, Subnet(nic, host % 2 if spec.topology == "routed" else None))
                for nic in range(spec.nics)
            ),
        )
        for host in range(spec.hosts)
    ]


def subnets_of(spec):
    """Return the subnets of a resolved LabSpec."""
    halves = (0, 1) if spec.topology == "routed" else (None,)
    return [Subnet(nic, half) for nic in range(spec.nics) for half in halves]


def switch_netns(spec):
    """Return the name of the namespace with the lab's bridges and wire, which is the router."""
    return f"rawe-{spec.name}-sw"


def wire_ends(spec):
    """Return (namespace, device, is a switch port) for each end of each data cable."""
    ends = []
    for host in hosts_of(spec):
        for nic in host.nics:
            ends.append((host.netns, nic.device, False))
            if spec.topology != "pair":
                ends.append((switch_netns(spec), nic.port, True))
    return ends
