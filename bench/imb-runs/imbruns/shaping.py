# SPDX-License-Identifier: BSD-3-Clause
"""How much payload a shaped link lets through, to compare a goodput with.

The shaper (tbf) counts whole Ethernet frames without preamble and checksum: MTU + 14 bytes of a
full one. A frame carries the MTU less the transport's headers. A batch is cut before it is shaped,
so it counts as the frames it becomes.
"""

from dataclasses import dataclass

from benchlib.page import size_text
from rawelab.spec import LabSpec, parse_rate

ETHERNET_BYTES = 14
# Of a full frame of bulk data, behind the Ethernet header.
TCP_BYTES = 20 + 20 + 12  # IPv4, TCP, its timestamps
RAWE_HEADER_BYTES = 24
RAWE_CHECKSUM_BYTES = 4
RAWE_FRAGMENT_BYTES = 24  # PUT
RAWE_BATCH_BYTES = 20 + 60  # IPv4 and batch header, in place of both
RAWE_ROUNDING = 8  # a frame's payload is a multiple of it
OVER_TCP = ("tcp", "ucx", "ofi")


def bare_mbytes_per_s(bits_per_s, mtu):
    """MB/s of payload if frames held nothing but payload: no transport is faster."""
    return bits_per_s / 8e6 * mtu / (mtu + ETHERNET_BYTES)


def payload_bytes(transport, mtu, batches):
    """Payload of a full frame, or None for a transport whose headers are not known."""
    if transport in OVER_TCP:
        return mtu - TCP_BYTES
    if transport == "rawe":
        payload = mtu - RAWE_HEADER_BYTES - RAWE_CHECKSUM_BYTES
        payload = payload // RAWE_ROUNDING * RAWE_ROUNDING
        if batches:
            return payload + RAWE_HEADER_BYTES - RAWE_BATCH_BYTES
        return payload - RAWE_FRAGMENT_BYTES
    return None


def allowed_mbytes_per_s(transport, bits_per_s, mtu, batches):
    """MB/s of payload that the shaping allows a transport, given its headers; None if unknown."""
    payload = payload_bytes(transport, mtu, batches)
    if payload is None:
        return None
    return bare_mbytes_per_s(bits_per_s, mtu) * payload / mtu


@dataclass
class Share:
    """What a transport reached on a shaped link, at one message size."""

    transport: str
    size: int
    reached: float  # MB/s of payload
    bare: float
    allowed: float  # None where the transport's headers are not known

    def cells(self):
        """As texts of a table's row."""
        own = ["-", "-"]
        if self.allowed is not None:
            own = [f"{self.allowed:.2f}", f"{self.reached / self.allowed:.3f}"]
        bare = [f"{self.bare:.2f}", f"{self.reached / self.bare:.3f}"]
        return [self.transport, size_text(self.size), f"{self.reached:.2f}", *bare, *own]

    def sentence(self):
        """The same as a line for the terminal."""
        _, size, reached, bare, share, allowed, own = self.cells()
        return (
            f"{self.transport}: {reached} MB/s with {size}: {share} of what the line carries "
            f"({bare}), {own} of what it carries besides the transport's headers ({allowed})"
        )


def shares(tables, about):
    """A Share of each transport, from the largest messages that Uniband was measured with; none
    without --rate."""
    shape = {name: value for name, value in about.get("shape", {}).items() if value is not None}
    if "rate" not in shape:
        return []
    spec = LabSpec(**shape)
    bits_per_s, batches = parse_rate(spec.rate), spec.nic != "plain"
    bare = bare_mbytes_per_s(bits_per_s, spec.mtu)
    for table in tables:
        if table.title.startswith("Uniband:") and table.unit == "MB/s":
            row = table.rows[-1]
            return [
                Share(
                    name,
                    row.size,
                    row.median(name),
                    bare,
                    allowed_mbytes_per_s(name, bits_per_s, spec.mtu, batches),
                )
                for name in table.transports
                if name in row.found
            ]
    return []
