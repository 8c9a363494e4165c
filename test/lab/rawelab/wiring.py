# SPDX-License-Identifier: BSD-3-Clause
"""Builds and removes a lab's namespaces, virtual cables, bridges and addresses.

    pair:    h0 eth0 ------ eth0 h1          switch:  h0 eth0 -- h0e0 [br0] h1e0 -- eth0 h1
             h0 eth1 ------ eth1 h1                   h0 eth1 -- h0e1 [br1] h1e1 -- eth1 h1

    wire:    h0 eth0 -- h0e0 [rawe-wire] h1e0 -- eth0 h1      one process for all NICs

    routed:  h0 eth0 -- h0e0 [br0a] router [br0b] h1e0 -- eth0 h1    h2 at br0a, h3 at br0b

    all:     h0 ctl0 -- h0c [ctl] h1c -- ctl0 h1

The control network carries mpirun's own traffic (launch, the ranks' I/O, abort), so a test can
disturb the data NICs without disconnecting mpirun from its hosts. The bridges and the wire have
their own namespace: no part of a lab is in the root namespace. With the topology routed, this
namespace is the router, and its bridges have addresses.
"""

import fcntl
import json
import os
import signal
import time

from . import faults, offloads, wire
from .command import LabError, in_netns, ip_batch, run
from .spec import hosts_of, subnets_of, switch_netns

CONTROL_DEVICE = "ctl0"
CONTROL_BRIDGE = "ctl"
KILL_ROUNDS = 50
KILL_PAUSE_SECONDS = 0.1
CARRIER_SECONDS = 60
ROUTER = "echo 1 > /proc/sys/net/ipv4/ip_forward"
IPV6_ROUTER = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
# Keep an idle lab's network silent: disable IPv6; neighbor entries are static.
QUIET = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"


def namespaces(spec):
    """Return all namespaces of a lab, the switch's last."""
    return [host.netns for host in hosts_of(spec)] + [switch_netns(spec)]


def existing_namespaces():
    """Return the names of all network namespaces on this machine."""
    return {line.split()[0] for line in run(["ip", "netns", "list"]).stdout.splitlines() if line}


def _add_namespace(netns, lock_path):
    # The first `ip netns add` mounts /run/netns, and fails if another does so at the same time.
    with open(lock_path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(["ip", "netns", "add", netns])
    in_netns(netns, ["sh", "-c", f"[ ! -d /proc/sys/net/ipv6 ] || {QUIET}"])
    ip_batch(netns, ["link set lo up"])


def _link_lines(spec, host, switch):
    """Return the `ip` commands, run inside the host, that create its cables."""
    lines = [
        f"link add {CONTROL_DEVICE} address {host.control_mac} type veth "
        f"peer name h{host.index}c netns {switch}"
    ]
    for nic in host.nics:
        add = f"link add {nic.device} mtu {spec.mtu} address {nic.mac} type veth peer name"
        if spec.topology != "pair":
            lines.append(f"{add} {nic.port} mtu {spec.mtu} netns {switch}")
        elif host.index == 0:
            other = hosts_of(spec)[1]
            far = other.nics[nic.index]
            lines.append(f"{add} {far.device} mtu {spec.mtu} address {far.mac} netns {other.netns}")
    return lines


def _address_lines(host, hosts):
    """Return the `ip` commands that set a host's addresses and neighbors, and bring its NICs up."""
    lines = [
        f"address add {host.control_address}/16 dev {CONTROL_DEVICE}",
        f"link set {CONTROL_DEVICE} up",
    ]
    for nic in host.nics:
        lines.append(f"address add {nic.address}/{nic.subnet.prefix_bits} dev {nic.device}")
        lines.append(f"link set {nic.device} up")
        if nic.route is not None:
            lines.append(
                f"neighbour replace {nic.subnet.router_address} lladdr {nic.subnet.router_mac} "
                f"dev {nic.device} nud permanent"
            )
            lines.append(nic.route)
    for peer in hosts:
        if peer.index == host.index:
            continue
        lines.append(
            f"neighbour replace {peer.control_address} lladdr {peer.control_mac} "
            f"dev {CONTROL_DEVICE} nud permanent"
        )
        for nic in peer.nics:
            if nic.subnet == host.nics[nic.index].subnet:
                lines.append(_neighbor_line(nic, nic.device))
    return lines


def _neighbor_line(nic, device):
    """Return the `ip` command for the static entry of a host's NIC at a neighbor's device."""
    return f"neighbour replace {nic.address} lladdr {nic.mac} dev {device} nud permanent"


def _switch_lines(spec, hosts):
    """Return the `ip` commands, run inside the switch's namespace, that connect all hosts."""
    bridge = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
    lines = [f"link add {CONTROL_BRIDGE} {bridge}", f"link set {CONTROL_BRIDGE} up"]
    lines += [f"link set h{host.index}c master {CONTROL_BRIDGE} up" for host in hosts]
    if spec.topology in ("switch", "routed"):
        nics = [nic for host in hosts for nic in host.nics]
        for subnet in subnets_of(spec):
            lines.append(f"link add {subnet.bridge} mtu {spec.mtu} {bridge}")
            lines.append(f"link set {subnet.bridge} up")
            members = [nic for nic in nics if nic.subnet == subnet]
            lines += [f"link set {nic.port} master {subnet.bridge} up" for nic in members]
            if spec.topology == "routed":
                lines += _router_lines(spec, subnet, members)
    if spec.topology == "wire":
        lines += [f"link set {nic.port} up" for host in hosts for nic in host.nics]
    return lines


def _router_lines(spec, subnet, members):
    """Return the `ip` commands that make a subnet's bridge a NIC of the router."""
    bridge = subnet.bridge
    lines = [
        f"link set {bridge} address {subnet.router_mac}",
        f"address add {subnet.router_address}/{subnet.prefix_bits} dev {bridge}",
    ]
    if subnet.half == 1 and spec.router_mtu is not None:
        # Only packets that the router sends are limited; a bridge's ports have their own MTU.
        lines.append(f"link set {bridge} mtu {spec.router_mtu}")
    return lines + [_neighbor_line(nic, bridge) for nic in members]


def _use_ipv6(netns, device, address, neighbors, more=()):
    """Enable IPv6 on a device, and run the `ip` commands that set its address and neighbors."""
    enable = f"echo 0 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6"
    in_netns(netns, ["sh", "-c", enable])
    lines = [f"address add {address}/64 dev {device} nodad"]
    for neighbor, mac in neighbors:
        lines.append(f"neighbour replace {neighbor} lladdr {mac} dev {device} nud permanent")
    ip_batch(netns, [*lines, *more])


def use_ipv6(spec, chosen):
    """Replace the IPv4 addresses of these hosts' data NICs by IPv6 ones. A router gets both."""
    nics = [nic for host in hosts_of(spec) for nic in host.nics]
    if spec.topology == "routed":
        switch = switch_netns(spec)
        in_netns(switch, ["sh", "-c", IPV6_ROUTER])
        for subnet in subnets_of(spec):
            members = [(nic.ipv6_address, nic.mac) for nic in nics if nic.subnet == subnet]
            _use_ipv6(switch, subnet.bridge, subnet.router_ipv6_address, members)
    for host in chosen:
        for nic in host.nics:
            subnet, route = nic.subnet, []
            others = [one for one in nics if one.subnet == subnet and one.host != nic.host]
            neighbors = [(one.ipv6_address, one.mac) for one in others]
            if subnet.half is not None:
                via = subnet.router_ipv6_address
                neighbors.append((via, subnet.router_mac))
                route = [f"route replace {subnet.other.ipv6_prefix} via {via} dev {nic.device}"]
            ip_batch(host.netns, [f"address flush dev {nic.device}"])
            _use_ipv6(host.netns, nic.device, nic.ipv6_address, neighbors, route)


def _wait_for_carrier(host):
    """Wait until the kernel reports every NIC of a host as operational."""
    deadline = time.monotonic() + CARRIER_SECONDS
    while True:
        links = json.loads(run(["ip", "-n", host.netns, "-json", "link", "show"]).stdout)
        dark = [
            link["ifname"] for link in links if link["ifname"] != "lo" and link["operstate"] != "UP"
        ]
        if not dark:
            return
        if time.monotonic() > deadline:
            raise LabError(
                f"{', '.join(dark)} of {host.name} got no carrier within {CARRIER_SECONDS} "
                "seconds; look at `ip link` in its namespace"
            )
        time.sleep(0.02)


def build(spec, lock_path, directory, build_directory):
    """Create all parts of a lab; on failure, the caller removes them.

    Returns the wire's Popen, or None. The wire ends with its namespace; the caller waits for it.
    """
    wire_process = None
    hosts = hosts_of(spec)
    switch = switch_netns(spec)
    for netns in namespaces(spec):
        _add_namespace(netns, lock_path)
    for host in hosts:
        ip_batch(host.netns, _link_lines(spec, host, switch))
    ip_batch(switch, _switch_lines(spec, hosts))
    if spec.topology == "routed":
        in_netns(switch, ["sh", "-c", ROUTER])
    for host in hosts:
        ip_batch(host.netns, _address_lines(host, hosts))
    for host in hosts:
        _wait_for_carrier(host)
    if spec.topology == "wire":
        nics = [nic for host in hosts for nic in host.nics]
        wire_process = wire.start(spec, nics, switch, directory, build_directory)
    offloads.apply(spec)
    if spec.rate is not None:
        faults.set_rate(spec, spec.rate)
    if spec.loss > 0:
        for host in hosts:
            for nic in host.nics:
                faults.set_loss(host, nic, spec.loss)
    return wire_process


def processes(netns_names):
    """Return the ids of all processes inside the given network namespaces."""
    present = existing_namespaces()
    pids = []
    for netns in netns_names:
        if netns in present:
            pids += [int(word) for word in run(["ip", "netns", "pids", netns]).stdout.split()]
    return pids


def kill_processes(netns_names, spare=()):
    """Kill all processes inside the given namespaces except `spare`; wait until they have ended."""
    for _ in range(KILL_ROUNDS):
        pids = [pid for pid in processes(netns_names) if pid not in spare]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(KILL_PAUSE_SECONDS)
    raise LabError(
        f"processes {pids} in {', '.join(netns_names)} survive SIGKILL, the namespaces stay; "
        "look at their state with `ps -o pid,stat,wchan,args`, then run `lab down` again"
    )


def remove(netns_names):
    """End all processes in the namespaces, and delete the namespaces that exist."""
    kill_processes(netns_names, spare=(os.getpid(),))
    present = existing_namespaces()
    for netns in netns_names:
        if netns in present:
            run(["ip", "netns", "delete", netns])
