# SPDX-License-Identifier: BSD-3-Clause
"""The Lab object: brings a lab up, runs commands on its hosts, injects faults, takes it down."""

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from . import faults, launch, record, wire, wiring
from .capture import Capture
from .command import LabError, check_machine, in_netns
from .spec import LabSpec, hosts_of, switch_netns

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ETHERNET_BYTES = 14
SLOTS_OF_PRRTE = 1024  # more than any host has ranks
SHM_PATTERN = "*{host}*"  # files that Open MPI names after the host, in /dev/shm


class Lab:
    """A lab, as a context manager that finally removes everything the lab created.

    `hosts` lists the virtual hosts in order. Methods accept a host's number, `h1`, or full name.
    """

    def __init__(self, spec=None, build=None, **options):
        """`build` is the build directory that has rawe-wire; only the topology wire needs it."""
        self.build = build
        self.wire_process = None
        self.spec = (spec or LabSpec(**options)).resolve()
        self.hosts = hosts_of(self.spec)
        self.namespaces = wiring.namespaces(self.spec)
        self.host_namespaces = [host.netns for host in self.hosts]
        self.directory = record.directory(self.spec.name)

    @property
    def name(self):
        """Return the lab's name."""
        return self.spec.name

    @classmethod
    def attach(cls, name):
        """Return the lab of this name, created by `lab up`."""
        lab = cls(LabSpec(**record.load(name)["spec"]))
        return lab

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Create the lab. On failure or interruption, remove everything created so far."""
        check_machine()
        record.create(self.name, self.spec.as_dict(), self.namespaces)
        try:
            self._write_files()
            self.wire_process = wiring.build(
                self.spec, record.lock_path(), self.directory, self.build
            )
        except BaseException:
            self.down()
            raise
        return self

    def down(self):
        """End every process of the lab, and remove the lab or what is left of it."""
        wiring.remove(self.namespaces)
        if self.wire_process is not None:
            self.wire_process.wait()
        for host in self.hosts:
            for left in Path("/dev/shm").glob(SHM_PATTERN.format(host=host.name)):
                left.unlink(missing_ok=True)
        record.delete(self.name)

    def keep(self):
        """Let the lab outlive this process."""
        record.release_owner(self.name)

    def _write_files(self):
        lines = ["127.0.0.1 localhost"]
        lines += [f"{host.control_address} {host.name} h{host.index}" for host in self.hosts]
        (self.directory / "hosts").write_text("\n".join(lines) + "\n", encoding="ascii")
        # If mpirun has a mapping option, PRRTE refuses to start more ranks than slots.
        slots = len(launch.cores()) if launch.open_mpi()[0] < 5 else SLOTS_OF_PRRTE
        lines = [f"{host.name} slots={slots}" for host in self.hosts]
        (self.directory / "hostfile").write_text("\n".join(lines) + "\n", encoding="ascii")
        (self.directory / "tmp").mkdir(mode=0o1777)
        (self.directory / "empty").mkdir()
        # Open MPI splits the scripts' paths at spaces, and a checkout's path may contain some.
        for script in SCRIPTS.iterdir():
            # Copy the scripts: another user's mpirun must run them, but may not read the checkout.
            shutil.copy(script, self.directory)

    def host(self, which):
        """Return the Host for a number, `h1`, a full name, or a Host."""
        for host in self.hosts:
            if which in (host, host.index, str(host.index), f"h{host.index}", host.name):
                return host
        raise LabError(
            f"lab {self.name} has no host {which!r}; its hosts are h0 to h{len(self.hosts) - 1}"
        )

    def nic(self, which, index=0):
        """Return the Nic with this number on a host."""
        host = self.host(which)
        if not 0 <= index < len(host.nics):
            raise LabError(f"{host.name} has no NIC {index}; it has {len(host.nics)}, from 0")
        return host.nics[index]

    def host_command(self, which, argv):
        """Return the command that runs `argv` on a host; it execs `argv`, which keeps its pid."""
        host = self.host(which)
        enter = str(self.directory / "enter-host")
        return [enter, host.netns, host.name, str(self.directory / "hosts"), *map(str, argv)]

    def run(self, which, argv, **options):
        """Call subprocess.run() on a host; by default, text output is captured."""
        options.setdefault("text", True)
        options.setdefault("check", False)
        if not options.get("capture_output"):
            options.setdefault("stdout", subprocess.PIPE)
            options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(self.host_command(which, argv), **options)

    def mpirun(self, arguments, timeout=None, **options):
        """Run mpirun on host 0; see launch.run() for options and the MpiResult."""
        return launch.run(self, arguments, timeout=timeout, **options)

    def start_mpirun(self, arguments, **options):
        """Start mpirun on host 0 and return its Popen; see launch.start()."""
        return launch.start(self, arguments, **options)

    def at_switch(self, *words):
        """Run a command in the namespace of the bridges, which is the router's; return its
        CompletedProcess."""
        return in_netns(switch_netns(self.spec), words)

    def processes(self):
        """Return the process ids of all processes on the lab's hosts."""
        return wiring.processes(self.host_namespaces)

    def kill_processes(self, spare=()):
        """SIGKILL all processes on the lab's hosts, except the ids in `spare`."""
        wiring.kill_processes(self.host_namespaces, spare)

    def _nics(self, which, index):
        hosts = self.hosts if which is None else [self.host(which)]
        for host in hosts:
            for nic in host.nics if index is None else [self.nic(host, index)]:
                yield host, nic

    def set_loss(self, percent, which=None, nic=None):
        """Change the loss on all hosts or one, on all their NICs or one."""
        for host, one in self._nics(which, nic):
            faults.set_loss(host, one, percent)

    def dropped(self, which=None, purpose="loss"):
        """Return the number of frames that set_loss() or, for "hole", blackhole() has dropped."""
        return sum(faults.counted(host, one, purpose) for host, one in self._nics(which, None))

    def count_frames(self, ethertype):
        """Start counting, from 0, the frames of an EtherType to each NIC's own address."""
        for host, nic in self._nics(None, None):
            faults.count_frames(host, nic, ethertype)

    def frames(self, which=None, nic=None):
        """Return the frames counted since count_frames() on all hosts or one, all NICs or one."""
        return sum(faults.counted(host, one, "count") for host, one in self._nics(which, nic))

    def set_environment(self, which, **variables):
        """Set environment variables for the MPI processes on one host, overriding all others."""
        lines = [f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()]
        file = self.directory / f"environment-{self.host(which).name}"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def set_rate(self, rate):
        """Change the rate of all NICs and switch ports; None ends shaping."""
        faults.set_rate(self.spec, rate)

    def set_short_queue(self, rate, burst_bytes, limit_bytes):
        """Limit the rate and queue of all hosts' NICs; see faults.set_short_queue()."""
        for host, one in self._nics(None, None):
            faults.set_short_queue(host, one, rate, burst_bytes, limit_bytes)

    def refuse_batches(self, which=None):
        """Let the NICs of all hosts or one refuse to send batches, but not plain frames."""
        for host, one in self._nics(which, None):
            faults.refuse_batches(host, one, self.spec.mtu + ETHERNET_BYTES)

    def link_down(self, which, nic=0):
        """Take a NIC down."""
        faults.set_link(self.host(which), self.nic(which, nic), False)

    def link_up(self, which, nic=0):
        """Bring a NIC up again."""
        faults.set_link(self.host(which), self.nic(which, nic), True)

    def set_mtu(self, which, mtu, nic=0):
        """Change the MTU of one host's NIC."""
        faults.set_mtu(self.host(which), self.nic(which, nic), mtu)

    def set_address(self, which, mac, nic=0):
        """Change the MAC address of a host's NIC."""
        faults.set_address(self.host(which), self.nic(which, nic), mac)

    def delete_nic(self, which, nic=0):
        """Remove a host's NIC permanently."""
        faults.delete_nic(self.host(which), self.nic(which, nic))

    def use_ipv6(self, which=None):
        """Replace the IPv4 addresses of all hosts' data NICs, or one's, by IPv6 addresses."""
        wiring.use_ipv6(self.spec, self.hosts if which is None else [self.host(which)])

    def pin_addresses(self):
        """Fix the switch's address table, so that the switch learns no more addresses."""
        faults.pin_addresses(self.spec)

    def set_wire(self, faults_of_wire, which=None, nic=None, direction="in"):
        """Change the wire's faults (see wire.py) for all hosts or one, all NICs or one, in one
        direction ("in": to the host, "out": from the host) or "both"."""
        nics = [one for _, one in self._nics(which, nic)]
        everything = which is None and nic is None
        wire.change(self.directory, None if everything else nics, direction, faults_of_wire)

    def wire_counters(self):
        """Return the wire's counters; see wire.counters()."""
        return wire.counters(self.directory)

    def wire_total(self, name, which=None, nic=None, direction="in"):
        """Return one of the wire's counters, summed over NICs, in one direction."""
        counters = self.wire_counters()
        return sum(counters[one.port, direction][name] for _, one in self._nics(which, nic))

    def pause(self, which):
        """Stop the MPI processes on a host (SIGSTOP), as if the host were swapping or suspended."""
        self._signal_ranks(which, signal.SIGSTOP)

    def resume(self, which):
        """Continue the MPI processes on a host (SIGCONT)."""
        self._signal_ranks(which, signal.SIGCONT)

    def ranks(self, which):
        """Return {rank: process id} of the MPI processes that mpirun has started on a host."""
        found = {}
        for pid in wiring.processes([self.host(which).netns]):
            rank = launch.rank_of(pid)
            if rank is not None:
                found[rank] = pid
        return found

    def _signal_ranks(self, which, number):
        pids = self.ranks(which).values()
        if not pids:
            raise LabError(f"no MPI process runs on {self.host(which).name}")
        for pid in pids:
            os.kill(pid, number)

    def blackhole(self, receiver, sender, ethertype=None):
        """Drop all frames from `sender` to `receiver`, or those of one EtherType."""
        peers = self.host(sender).nics
        for host, nic in self._nics(receiver, None):
            faults.set_blackhole(host, nic, peers, ethertype)

    def end_blackhole(self, receiver):
        """Stop dropping frames to `receiver`."""
        for host, nic in self._nics(receiver, None):
            faults.set_blackhole(host, nic, [])

    def statistic(self, which, name, nic=0):
        """Return one of the kernel's counters for a host's NIC, such as rx_bytes."""
        file = f"/sys/class/net/{self.nic(which, nic).device}/statistics/{name}"
        return int(self.run(which, ["cat", file], check=True).stdout)

    def capture(self, which, file, expression=(), nic=0, count=None):
        """Start capturing at a host's NIC into `file`, which Capture.end() completes."""
        host = self.host(which)
        return Capture(self, host, self.nic(host, nic), file, expression, count)
