# SPDX-License-Identifier: BSD-3-Clause
"""The transports that are compared: mpirun's arguments for each, and their order in a round."""

SHARED_MEMORY = "vader"  # reaches ranks of the same host only
BASELINE = "baseline"  # bare programs instead of MPI, in a transport's place
# mpirun's arguments for each transport, and the component that has to be there.
TRANSPORTS = {
    "tcp": ("--mca pml ob1 --mca btl tcp,self", "btl:tcp"),
    "rawe": ("--mca pml ob1 --mca btl rawe,self", "btl:rawe"),
    SHARED_MEMORY: ("--mca pml ob1 --mca btl vader,self", "btl:vader"),
    # Without these, this pml wants hardware that UCX drives.
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
    "vader": "btl/vader (shared memory)",
    "ucx": "UCX over TCP",
    "ofi": "libfabric over TCP",
    BASELINE: "baseline (raw frames, no MPI)",
}


def base_of(transports):
    """The transport that the others are compared with: tcp, or the first one."""
    return "tcp" if "tcp" in transports else transports[0]


def order(transports, round_number):
    """The transports of a round; every second round is reversed, against slow drift."""
    return tuple(transports) if round_number % 2 else tuple(reversed(transports))


def arguments(transport, interface=None, shares_hosts=False):
    """mpirun's arguments for a transport, bound to an interface where one is given.

    With `shares_hosts`, ranks of one host use shared memory among themselves.
    """
    words = TRANSPORTS[transport][0].split()
    if shares_hosts and transport != SHARED_MEMORY:
        mixed = f"{transport},{SHARED_MEMORY},self"
        words = [mixed if word == f"{transport},self" else word for word in words]
    if interface is not None:
        words += {
            "tcp": ["--mca", "btl_tcp_if_include", interface],
            "rawe": ["--mca", "btl_rawe_if_include", interface],
            "ucx": ["-x", f"UCX_NET_DEVICES={interface}"],
            "ofi": ["-x", f"FI_TCP_IFACE={interface}"],
        }.get(transport, [])
    return words
