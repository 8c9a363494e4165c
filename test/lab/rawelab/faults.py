# SPDX-License-Identifier: BSD-3-Clause
"""Faults of a running lab: loss, rates, dead links, smaller MTUs, black holes.

nftables drops frames at the ingress of the receiving NIC, after the virtual cable, so the sender
sees a successful send. The ingress hook runs before sockets bound to an EtherType but after those
bound to ETH_P_ALL, so a capture on the receiving host still shows a dropped frame. An uncut batch
(TSO, GSO) counts as one frame: one drop may lose 64 kB.
"""

from .command import LabError, in_netns, ip_batch, run
from .spec import hosts_of, parse_percent, parse_rate, switch_netns, wire_ends

LOSS_STEPS = 100000  # range of the random number; one step is 0.001 percent


def _nft(host, script):
    in_netns(host.netns, ["nft", "-f", "-"], stdin=script)


def _replace_table(host, nic, purpose, rules):
    """Atomically replace one of our tables on a NIC's ingress, or remove it if `rules` is empty."""
    table = f"rawe_{purpose}_{nic.device}"
    script = f"add table netdev {table}\ndelete table netdev {table}\n"
    if rules:
        body = "\n".join(rules)
        script += (
            f"table netdev {table} {{ chain ingress {{\n"
            f'type filter hook ingress device "{nic.device}" priority 0; policy accept;\n'
            f"{body}\n}}\n}}\n"
        )
    _nft(host, script)


def set_loss(host, nic, percent):
    """Drop this percentage of the frames that arrive on a NIC, at random; 0 ends the loss."""
    share = round(parse_percent(percent) / 100.0 * LOSS_STEPS)
    # nftables rejects a comparison that is always true.
    condition = "" if share == LOSS_STEPS else f"numgen random mod {LOSS_STEPS} < {share} "
    rules = [f"{condition}counter drop"] if share else []
    _replace_table(host, nic, "loss", rules)


def set_blackhole(host, nic, peer_nics, ethertype=None):
    """Drop all frames, or those of one EtherType, that arrive on a NIC from these NICs of a peer.

    An empty `peer_nics` ends the black hole. The control network is not affected.
    """
    kind = f"ether type {ethertype:#06x} " if ethertype is not None else ""
    rules = [f"ether saddr {peer.mac} {kind}counter drop" for peer in peer_nics]
    _replace_table(host, nic, "hole", rules)


def counted(host, nic, purpose):
    """Return how many frames set_loss() ("loss") or set_blackhole() ("hole") has dropped on this
    NIC, or count_frames() ("count") has counted."""
    listing = in_netns(
        host.netns, ["nft", "list", "table", "netdev", f"rawe_{purpose}_{nic.device}"]
    ).stdout
    words = listing.split()
    return sum(int(words[at + 1]) for at, word in enumerate(words) if word == "packets")


def count_frames(host, nic, ethertype):
    """Start counting, from 0, the frames of an EtherType that a NIC receives for its own address.

    Frames that a switch floods because it has not learned their destination are not counted.
    """
    rule = f"ether daddr {nic.mac} ether type {ethertype:#06x} counter"
    _replace_table(host, nic, "count", [rule])


def set_link(host, nic, is_up):
    """Bring a NIC down or up. When it is down, the far end loses its carrier too."""
    lines = [f"link set {nic.device} {'up' if is_up else 'down'}"]
    if is_up and nic.route is not None:
        lines.append(nic.route)  # the kernel has removed it
    ip_batch(host.netns, lines)


def set_mtu(host, nic, mtu):
    """Change the MTU of one host's NIC only, as if that host were misconfigured."""
    ip_batch(host.netns, [f"link set {nic.device} mtu {mtu}"])


def set_address(host, nic, mac):
    """Change the MAC address of a NIC, as the failover of a bond does."""
    ip_batch(host.netns, [f"link set {nic.device} address {mac}"])


def delete_nic(host, nic):
    """Remove a NIC permanently, as if it were unplugged or its driver unloaded."""
    ip_batch(host.netns, [f"link delete {nic.device}"])


def set_short_queue(host, nic, rate, burst_bytes, limit_bytes):
    """Shape one host's NIC with a queue so short that the kernel refuses frames (ENOBUFS).

    Packets that fit into the bucket of `burst_bytes` are queued or refused whole; longer batches
    would be cut, and partly lost.
    """
    run(
        ["tc", "-n", host.netns, "qdisc", "replace", "dev", nic.device, "root", "tbf"]
        + ["rate", f"{parse_rate(rate)}bit", "burst", str(burst_bytes), "limit", str(limit_bytes)]
    )


def refuse_batches(host, nic, longest_bytes):
    """Let a NIC refuse to send IPv4 packets longer than this, including the Ethernet header.

    The sender gets ENOBUFS for each packet. Needs Linux 5.16 (nftables' egress hook).
    """
    table = f"rawe_refuse_{nic.device}"
    _nft(
        host,
        f"table netdev {table} {{ chain egress {{\n"
        f'type filter hook egress device "{nic.device}" priority 0; policy accept;\n'
        f"ether type ip meta length > {longest_bytes} counter drop\n}}\n}}\n",
    )


def shaping(spec, rate, is_switch_port):
    """Return tbf parameters for one end of a cable: (bits per second, burst bytes, limit bytes).

    burst: bytes sent at once. 0.1 ms at this rate resembles a real line, but the bucket must hold
    two full frames, because tbf drops packets longer than the bucket.
    limit: the queue. A switch port gets the lab's `buffer`, which is small and drops frames on
    overflow, as in real switches; a host's NIC gets 1000 full frames, the usual transmit queue.
    """
    bits = parse_rate(rate)
    frame_bytes = spec.mtu + 14
    burst = max(bits // 8 // 10000, 2 * frame_bytes)
    limit = max(spec.buffer, 4 * frame_bytes) if is_switch_port else 1000 * frame_bytes
    return bits, burst, limit


def set_rate(spec, rate):
    """Shape every NIC and switch port of the lab to `rate` with tbf; None ends shaping."""
    for netns, device, is_switch_port in wire_ends(spec):
        if rate is None:
            run(["tc", "-n", netns, "qdisc", "del", "dev", device, "root"], check=False)
            continue
        bits, burst, limit = shaping(spec, rate, is_switch_port)
        run(
            ["tc", "-n", netns, "qdisc", "replace", "dev", device, "root", "tbf"]
            + ["rate", f"{bits}bit", "burst", str(burst), "limit", str(limit)]
        )


def pin_addresses(spec):
    """Fix the address tables of the lab's bridges, as port security does in a managed switch."""
    if spec.topology != "switch":
        raise LabError(f"addresses are pinned in a switch, and topology {spec.topology} has none")
    for host in hosts_of(spec):
        for nic in host.nics:
            bridge = ["bridge", "-n", switch_netns(spec)]
            run([*bridge, "link", "set", "dev", nic.port, "learning", "off"])
            run([*bridge, "fdb", "replace", nic.mac, "dev", nic.port, "master", "static"])
