# SPDX-License-Identifier: BSD-3-Clause
"""Virtual machines connected by virtual cables, and mpirun on them.

    two hosts:  h0 eth0 --------- eth0 h1       a socket between two QEMU processes
    more:       h0 eth0 -- hub -- eth0 h1       in h0's QEMU; repeats each frame to all
                            +----- eth0 h2
    all:        ctl0, a network of the same kind

The control network, always virtio, carries mpirun's own traffic, so that the NIC under test carries
only MPI traffic. No frame reaches the network of the host.
"""

import os
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rawelab import launch
from rawelab.command import LabError

from . import fetch
from . import machine as machines
from .fetch import KERNELS
from .machine import Machine

CONTROL = "ctl0"
STATE = "/run/rawe-vm"  # in the machines
STOP_SECONDS = 20  # time for mpirun to end normally after a signal
LAST_CHARACTERS = 4000  # of the output of a job that hung


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


class Cluster:
    """A cluster, as a context manager that finally ends all machines, which `hosts` lists."""

    def __init__(self, spec=None, **options):
        self.spec = (spec or ClusterSpec(**options)).resolve()
        self.directory = None
        self.hosts = []

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Start the machines and wait until they are ready; on failure, end them all."""
        spec = self.spec
        qemu, kernel = fetch.qemu(), fetch.kernel(spec.kernel)
        # Sockets here give access to the machines. A socket's path is limited to 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="rawe-vm-", dir="/tmp"))
        try:
            ramdisk = self.directory / "initramfs"
            machines.build_ramdisk(kernel, ramdisk)
            for index in range(spec.hosts):
                machine = Machine(
                    f"vm{index}", self.directory, qemu, kernel, ramdisk, spec.cpus, spec.memory_mib
                )
                for network in spec.networks:
                    self._plug(machine, index, network)
                self.hosts.append(machine)
                machine.start()
            for index, machine in enumerate(self.hosts):
                machine.wait_until_up()
                self._configure(machine, index)
            for machine in self.hosts:
                self._wait_for_carrier(machine)
        except BaseException:
            self.down()
            raise
        return self

    def down(self):
        """End the machines."""
        for machine in self.hosts:
            machine.stop()
        self.hosts = []
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _cable(self, network, host):
        return self.directory / f"{network}-{host}.cable"

    def _plug(self, machine, index, network):
        """Add a NIC with its cable; the first host has a socket for each of the other hosts."""
        device = NICS["virtio-net" if network == CONTROL else self.spec.nic][0]
        unix = "addr.type=unix,addr.path"
        if index > 0:
            path = self._cable(network, index)
            machine.plug("-netdev", f"stream,id={network},server=off,{unix}={path}")
        elif self.spec.hosts == 2:
            path = self._cable(network, 1)
            machine.plug("-netdev", f"stream,id={network},server=on,{unix}={path}")
        else:
            hub = self.spec.networks.index(network)
            machine.plug("-netdev", f"hubport,id={network},hubid={hub}")
            for other in range(1, self.spec.hosts):
                far = f"{network}-{other}"
                path = self._cable(network, other)
                machine.plug("-netdev", f"stream,id={far}-far,server=on,{unix}={path}")
                machine.plug("-netdev", f"hubport,id={far},hubid={hub},netdev={far}-far")
        machine.plug(
            "-device", f"{device},id={network}-nic,netdev={network},mac={mac(network, index)}"
        )

    def _configure(self, machine, index):
        """Rename the NICs of a machine, set their addresses, and bring them up."""
        spec = self.spec
        hosts = [f"{address(CONTROL, host)} vm{host}" for host in range(spec.hosts)]
        slots = [f"vm{host} slots={spec.cpus}" for host in range(spec.hosts)]
        lines = [
            f"echo {machine.name} > /proc/sys/kernel/hostname",
            "printf '127.0.0.1 localhost\\n%s\\n' '" + "\n".join(hosts) + "' > /etc/hosts",
            f"mkdir {STATE}",
            # Open MPI splits the path of its launch agent at spaces, which ours may contain.
            f"ln -s '{machines.GUEST / 'launch'}' {STATE}/launch",
            "echo '" + "\n".join(slots) + f"' > {STATE}/hostfile",
            "modprobe -a virtio_net " + NICS[spec.nic][1],
            "ip link set lo up",
        ]
        for network in spec.networks:
            # The control NIC is first on the bus; renaming it frees eth0.
            lines += [
                f"old=$(grep -l {mac(network, index)} /sys/class/net/*/address | cut -d/ -f5)",
                f'[ "$old" = {network} ] || ip link set "$old" name {network}',
                f"ip address add {address(network, index)}/16 dev {network}",
            ]
            if network != CONTROL:
                lines.append(f"ip link set {network} mtu {spec.mtu}")
            lines.append(f"ip link set {network} up")
        machine.shell("\n".join(lines))

    def _wait_for_carrier(self, machine):
        """Wait until every NIC has negotiated its link."""
        for network in self.spec.networks:
            state = f"/sys/class/net/{network}/operstate"
            machine.shell(f"until grep -q up {state}; do sleep 0.1; done")

    def environment(self, build=None, devices=None):
        """Return the environment of mpirun, based on that of this process."""
        ours = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm": "rsh",
            "OMPI_MCA_plm_rsh_agent": f"{STATE}/launch",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_orte_default_hostfile": f"{STATE}/hostfile",
            "OMPI_MCA_oob_tcp_if_include": CONTROL,
            "OMPI_MCA_rmaps_base_mapping_policy": "node",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "TMPDIR": "/tmp",
        }
        devices = devices or ",".join(self.spec.networks[1:])
        for btl in ("tcp", "rawe"):
            if f"OMPI_MCA_btl_{btl}_if_exclude" not in os.environ:
                ours[f"OMPI_MCA_btl_{btl}_if_include"] = devices
        ours = {name: value for name, value in ours.items() if name not in os.environ}
        if build is not None:
            ours["OMPI_MCA_mca_base_component_path"] = launch.component_path(build)
        return {**os.environ, **ours, "TMPDIR": "/tmp"}

    def start_mpirun(self, arguments, build=None, devices=None, variables=None):
        """Start mpirun on the first host; return its Job. `devices` replace eth0, eth1, ..."""
        environment = {**self.environment(build, devices), **(variables or {})}
        argv = ["mpirun", *map(str, arguments)]
        return self.hosts[0].spawn(argv, environment, Path.cwd())

    def finish(self, job, seconds):
        """Return the Result of a job; after `seconds`, stop it and raise LabError."""
        result = job.wait(seconds)
        if result is None:
            job.signal(signal.SIGTERM)
            job.wait(STOP_SECONDS)
            raise LabError(
                f"mpirun did not end within {seconds:g} seconds; it wrote:\n"
                f"{job.output[-LAST_CHARACTERS:]}\n{job.errors[-LAST_CHARACTERS:]}"
            )
        return result

    def pull(self, network):
        """Unplug a network's cable from every machine."""
        self._set_links(network, False)

    def plug_in(self, network):
        """Plug a network's cable in again."""
        self._set_links(network, True)

    def _set_links(self, network, up):
        for machine in self.hosts:
            machine.monitor("set_link", name=f"{network}-nic", up=up)
