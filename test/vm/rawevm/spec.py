# SPDX-License-Identifier: BSD-3-Clause
"""The specification of a cluster of virtual machines, checked; names and addresses."""

from dataclasses import dataclass

from rawelab.command import LabError

from .fetch import KERNELS

# Names of NICs: (QEMU's device, the kernel's module).
NICS = {
    "e1000e": ("e1000e", "e1000e"),
    "vmxnet3": ("vmxnet3", "vmxnet3"),
    "virtio-net": ("virtio-net-pci", "virtio_net"),
}
HOSTS_MAX = 8
NICS_MAX = 4
MTU_MIN = 576
MTU_MAX = 9000  # vmxnet3's


@dataclass
class ClusterSpec:
    """The shape of a cluster."""

    hosts: int = 2
    nic: str = "e1000e"
    kernel: str = "6.1"
    mtu: int = 1500
    nics: int = 1  # data NICs per host, one per network, in addition to the control network
    cpus: int = 1  # of each machine
    memory_mib: int = 1024  # of each machine

    def resolve(self):
        """Check every value; return self."""
        if self.nic not in NICS:
            raise LabError(f"NIC {self.nic!r} is unknown; choose one of {', '.join(NICS)}")
        if self.kernel not in KERNELS:
            raise LabError(f"kernel {self.kernel!r} is unknown; choose one of {', '.join(KERNELS)}")
        for name, low, high in (
            ("hosts", 2, HOSTS_MAX),
            ("nics", 1, NICS_MAX),
            ("mtu", MTU_MIN, MTU_MAX),
            ("cpus", 1, 16),
            ("memory_mib", 512, 65536),
        ):
            if not low <= getattr(self, name) <= high:
                shown = name.partition("_")[0]
                raise LabError(f"--{shown} {getattr(self, name)} is outside {low}..{high}")
        return self

    @property
    def networks(self):
        """The control network and the data networks, by the names of their devices."""
        return ["ctl0", *(f"eth{index}" for index in range(self.nics))]


def mac(network, host):
    """Return the MAC address of a host's NIC; it shows network and host in a capture."""
    number = 255 if network == "ctl0" else int(network.removeprefix("eth"))
    return f"02:72:61:{number:02x}:00:{host + 1:02x}"


def address(network, host):
    """Return the IPv4 address of a host's NIC; each network is a /16."""
    second = 80 if network == "ctl0" else 81 + int(network.removeprefix("eth"))
    return f"10.{second}.0.{host + 1}"
