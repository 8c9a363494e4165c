# SPDX-License-Identifier: BSD-3-Clause
"""Sets a lab's NICs to whole, cut or plain: where batches are cut and frames are merged.

A veth pair passes batches on unchanged. Real NICs cut them into frames, which the receiving host's
kernel merges before any socket sees them (GRO). "Cut" NICs emulate this: the kernel cuts batches
before the veth, and its far end runs GRO, which on veth needs Linux 5.13. Switch ports run GRO too,
because the switch would otherwise forward frames one by one, and a veth merges only frames that
arrive together. A wire needs frames with complete checksums, so its NICs cannot be "whole".
"""

from .command import LabError, in_netns
from .spec import subnets_of, switch_netns, wire_ends

CUTTING = ("tso", "gso", "tx-udp-segmentation", "tx-gso-partial", "tx-gso-list")
MERGING = ("gro", "rx-gro-list", "rx-udp-gro-forwarding")
CHECKSUMS = ("tx", "rx", "sg")
# Offloads that must be off so that no packet above the MTU passes, by ethtool's long names.
CUTTING_NAMES = frozenset(
    ("tcp-segmentation-offload", "generic-segmentation-offload", "tx-udp-segmentation")
)
GRO_NAME = "generic-receive-offload"
OTHER_NAMES = frozenset((GRO_NAME, "tx-checksumming"))


def active(netns, device):
    """Return those of the offloads above that are on, by ethtool's long names."""
    listing = in_netns(netns, ["ethtool", "-k", device]).stdout
    on = set()
    for line in listing.splitlines():
        feature, _, value = line.strip().partition(":")
        if feature in CUTTING_NAMES | OTHER_NAMES and value.strip().startswith("on"):
            on.add(feature)
    return on


def _switch(netns, device, features, value):
    for feature in features:
        # Ignore failures: a later check reports a feature that is fixed or unknown on this kernel.
        in_netns(netns, ["ethtool", "-K", device, feature, value], check=False)


def _refuse(spec, netns, device, what):
    raise LabError(
        f"{device} in {netns}: {what} on this kernel; run the lab without --nic {spec.nic}"
    )


def _plain(spec):
    ends = [(netns, device) for netns, device, _ in wire_ends(spec)]
    if spec.topology in ("switch", "routed"):
        # The bridge would otherwise still announce features that its ports no longer have.
        ends += [(switch_netns(spec), subnet.bridge) for subnet in subnets_of(spec)]
    for netns, device in ends:
        _switch(netns, device, CUTTING + MERGING + CHECKSUMS, "off")
        still_on = active(netns, device)
        if still_on:
            _refuse(spec, netns, device, f"{', '.join(sorted(still_on))} cannot be switched off")


def _cut(spec):
    at_wire = spec.topology == "wire"
    for netns, device, is_switch_port in wire_ends(spec):
        if at_wire and is_switch_port:
            continue  # GRO would merge frames that the wire handles one by one
        _switch(netns, device, (*CUTTING, "tx") if at_wire else CUTTING, "off")
        # As on real NICs, UDP packets are merged only on request.
        _switch(netns, device, ("gro",), "on")
        on = active(netns, device)
        if on & CUTTING_NAMES:
            names = ", ".join(sorted(on & CUTTING_NAMES))
            _refuse(spec, netns, device, f"{names} cannot be switched off")
        if GRO_NAME not in on:
            _refuse(spec, netns, device, f"{GRO_NAME} cannot be switched on")


def apply(spec):
    """Set the offloads of all data NICs and switch ports according to `spec.nic`."""
    if spec.nic == "plain":
        _plain(spec)
    elif spec.nic == "cut":
        _cut(spec)
