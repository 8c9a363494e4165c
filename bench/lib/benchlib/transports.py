# SPDX-License-Identifier: BSD-3-Clause
"""The transports that are compared: mpirun's arguments for each, and their order in a round."""

import re
from pathlib import Path

COMPONENT = Path("opal/mca/btl/rawe/.libs/mca_btl_rawe.so")  # in a build directory
COLLECTIVES = Path("ompi/mca/coll/rawe/.libs")  # the coll component, which older builds lack
COMPONENT_PATH = "mca_base_component_path"
SHARED_MEMORY = "vader"  # reaches ranks of the same host only
BASELINE = "baseline"  # the programs without MPI, shown as a transport
OLD = "old"  # rawe of another build, see --against
UNICAST = "unicast"  # rawe without coll/rawe: collectives send to each process
ASYNC = "async"  # rawe with its progress thread
UDP = "udp"  # rawe in UDP datagrams
# Without this, a host where raw frames are not permitted would measure UDP.
RAW = "--mca pml ob1 --mca btl rawe,self --mca btl_rawe_kind packet"
# mpirun's arguments for each transport, and the component that it needs.
TRANSPORTS = {
    "tcp": ("--mca pml ob1 --mca btl tcp,self", "btl:tcp"),
    "rawe": (RAW, "btl:rawe"),
    OLD: (RAW, "btl:rawe"),
    UNICAST: (RAW + " --mca coll ^rawe", "btl:rawe"),
    ASYNC: (RAW + " --mca btl_rawe_async_progress 1", "btl:rawe"),
    UDP: ("--mca pml ob1 --mca btl rawe,self --mca btl_rawe_kind udp", "btl:rawe"),
    SHARED_MEMORY: ("--mca pml ob1 --mca btl vader,self", "btl:vader"),
    # Without these, this PML accepts only hardware that UCX drives.
    "ucx": (
        (
            "--mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any "
            "-x UCX_TLS=tcp,self"
        ),
        "pml:ucx",
    ),
    "ofi": ("--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp;ofi_rxm", "mtl:ofi"),
}
TITLES = {
    "tcp": "btl/tcp",
    "rawe": "btl/rawe",
    OLD: "btl/rawe of --against",
    UNICAST: "btl/rawe without multicast",
    ASYNC: "btl/rawe with async_progress",
    UDP: "btl/rawe over UDP",
    "vader": "btl/vader (shared memory)",
    "ucx": "UCX over TCP",
    "ofi": "libfabric over TCP",
    BASELINE: "baseline (raw frames, no MPI)",
}


def base_of(transports):
    """Return the transport to compare with: the old build, tcp, or the first one."""
    return next((name for name in (OLD, "tcp") if name in transports), transports[0])


def order(transports, round_number):
    """Return the transports of a round, reversed in every second round against slow drift."""
    return tuple(transports) if round_number % 2 else tuple(reversed(transports))


def component_path(build):
    """Return mpirun's arguments to load rawe from a build directory."""
    ours = [build / COMPONENT.parent, build / COLLECTIVES]
    path = ":".join([*(str(libs) for libs in ours if libs.exists()), "SYSTEM_DEFAULT:USER_DEFAULT"])
    return ["--mca", COMPONENT_PATH, path]


def arguments(transport, interface=None, shares_hosts=False, against=None):
    """Return mpirun's arguments for a transport, bound to an interface if one is given.

    With `shares_hosts`, ranks of one host use shared memory among themselves. `against` is the
    build directory that OLD is loaded from.
    """
    words = TRANSPORTS[transport][0].split()
    if shares_hosts and transport != SHARED_MEMORY:
        words = [re.sub(r"^(tcp|rawe),self$", rf"\1,{SHARED_MEMORY},self", word) for word in words]
    if transport == OLD:
        words += component_path(against)
    if interface is not None:
        words += {
            "tcp": ["--mca", "btl_tcp_if_include", interface],
            "rawe": ["--mca", "btl_rawe_if_include", interface],
            OLD: ["--mca", "btl_rawe_if_include", interface],
            UNICAST: ["--mca", "btl_rawe_if_include", interface],
            ASYNC: ["--mca", "btl_rawe_if_include", interface],
            UDP: ["--mca", "btl_rawe_if_include", interface],
            "ucx": ["-x", f"UCX_NET_DEVICES={interface}"],
            "ofi": ["-x", f"FI_TCP_IFACE={interface}"],
        }.get(transport, [])
    return words
