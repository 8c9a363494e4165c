# SPDX-License-Identifier: BSD-3-Clause
"""A lab as an object: bring it up, run things on its hosts, hurt it, take it down."""

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from . import faults, launch, record, wire, wiring
from .capture import Capture
from .command import LabError, check_machine
from .spec import LabSpec, hosts_of

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ETHERNET_BYTES = 14
SLOTS_OF_PRRTE = 1024  # more ranks than any host gets
SHM_PATTERN = "*{host}*"  # files that Open MPI names after the host, in /dev/shm


class Lab:
    """Use it as a context manager: at the end everything the lab made is gone.

    `hosts` holds the virtual hosts in order; a host is named by its number, by `h1`, or by its
    full name wherever a method takes one.
    """

    def __init__(self, spec=None, build=None, **options):
        """`build` is the build directory that has rawe-wire, for a lab of the topology wire."""
        self.build = build
        self.wire_process = None
        self.spec = (spec or LabSpec(**options)).resolve()
        self.hosts = hosts_of(self.spec)
        self.namespaces = wiring.namespaces(self.spec)
        self.host_namespaces = [host.netns for host in self.hosts]
        self.directory = record.directory(self.spec.name)

    @property
    def name(self):
        """The lab's name."""
        return self.spec.name

    @classmethod
    def attach(cls, name):
        """The lab of that name, made by `lab up`."""
        lab = cls(LabSpec(**record.load(name)["spec"]))
        return lab

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Create the lab; when that fails, or is interrupted, what was created is removed."""
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
        """End every process of the lab and remove it; what is gone already is no error."""
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
        # PRRTE refuses what exceeds them as soon as mpirun is told how to map.
        slots = len(launch.cores()) if launch.open_mpi()[0] < 5 else SLOTS_OF_PRRTE
        lines = [f"{host.name} slots={slots}" for host in self.hosts]
        (self.directory / "hostfile").write_text("\n".join(lines) + "\n", encoding="ascii")
        (self.directory / "tmp").mkdir(mode=0o1777)
        (self.directory / "empty").mkdir()
        # Open MPI splits these at spaces, which a checkout's path may contain.
        for script in SCRIPTS.iterdir():
            # Copies: other users' mpirun runs them, too, and may not read the checkout.
            shutil.copy(script, self.directory)

    def host(self, which):
        """The Host for a number, `h1`, a full name, or a Host."""
        for host in self.hosts:
            if which in (host, host.index, str(host.index), f"h{host.index}", host.name):
                return host
        raise LabError(
            f"lab {self.name} has no host {which!r}; its hosts are h0 to h{len(self.hosts) - 1}"
        )

    def nic(self, which, index=0):
        """The Nic of a host by its number."""
        host = self.host(which)
        if not 0 <= index < len(host.nics):
            raise LabError(f"{host.name} has no NIC {index}; it has {len(host.nics)}, from 0")
        return host.nics[index]

    def host_command(self, which, argv):
        """The command line that runs `argv` on a host; it execs, so the pid is that of `argv`."""
        host = self.host(which)
        enter = str(self.directory / "enter-host")
        return [enter, host.netns, host.name, str(self.directory / "hosts"), *map(str, argv)]

    def run(self, which, argv, **options):
        """subprocess.run() on a host, text in and out captured unless `options` say otherwise."""
        options.setdefault("text", True)
        options.setdefault("check", False)
        if not options.get("capture_output"):
            options.setdefault("stdout", subprocess.PIPE)
            options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(self.host_command(which, argv), **options)

    def mpirun(self, arguments, timeout=None, **options):
        """Run mpirun on host 0 to its end; see launch.run() for options and the MpiResult."""
        return launch.run(self, arguments, timeout=timeout, **options)

    def start_mpirun(self, arguments, **options):
        """Start mpirun on host 0 and return its Popen; see launch.start()."""
        return launch.start(self, arguments, **options)

    def processes(self):
        """Ids of the processes that run on the lab's hosts."""
        return wiring.processes(self.host_namespaces)

    def kill_processes(self, spare=()):
        """SIGKILL whatever runs on the lab's hosts, except the process ids in `spare`."""
        wiring.kill_processes(self.host_namespaces, spare)

    def _nics(self, which, index):
        hosts = self.hosts if which is None else [self.host(which)]
        for host in hosts:
            for nic in host.nics if index is None else [self.nic(host, index)]:
                yield host, nic

    def set_loss(self, percent, which=None, nic=None):
        """Change the loss, on all hosts or one, all NICs or one."""
        for host, one in self._nics(which, nic):
            faults.set_loss(host, one, percent)

    def dropped(self, which=None, purpose="loss"):
        """Frames dropped so far by set_loss() (or with purpose "hole" by blackhole())."""
        return sum(faults.counted(host, one, purpose) for host, one in self._nics(which, None))

    def count_frames(self, ethertype):
        """Start to count, from 0, the frames of an EtherType that each NIC gets for itself."""
        for host, nic in self._nics(None, None):
            faults.count_frames(host, nic, ethertype)

    def frames(self, which=None, nic=None):
        """Frames seen since count_frames(), on all hosts or one, all NICs or one."""
        return sum(faults.counted(host, one, "count") for host, one in self._nics(which, nic))

    def set_environment(self, which, **variables):
        """Set environment variables for the MPI processes of one host only, above all others."""
        lines = [f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()]
        file = self.directory / f"environment-{self.host(which).name}"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def set_rate(self, rate):
        """Change the rate of all NICs and switch ports; None ends shaping."""
        faults.set_rate(self.spec, rate)

    def set_short_queue(self, rate, burst_bytes, limit_bytes):
        """Let all hosts' NICs refuse what a queue of `limit_bytes` in front of `rate` has no room
        for; see faults.set_short_queue()."""
        for host, one in self._nics(None, None):
            faults.set_short_queue(host, one, rate, burst_bytes, limit_bytes)

    def refuse_batches(self, which=None):
        """Let the NICs of all hosts, or one, refuse batches from now on, and no plain frame."""
        for host, one in self._nics(which, None):
            faults.refuse_batches(host, one, self.spec.mtu + ETHERNET_BYTES)

    def link_down(self, which, nic=0):
        """Take a NIC down."""
        faults.set_link(self.host(which), self.nic(which, nic), False)

    def link_up(self, which, nic=0):
        """Take a NIC up again."""
        faults.set_link(self.host(which), self.nic(which, nic), True)

    def set_mtu(self, which, mtu, nic=0):
        """Change the MTU of one host's NIC."""
        faults.set_mtu(self.host(which), self.nic(which, nic), mtu)

    def set_address(self, which, mac, nic=0):
        """Give a NIC of a host another MAC address."""
        faults.set_address(self.host(which), self.nic(which, nic), mac)

    def delete_nic(self, which, nic=0):
        """Remove a NIC of a host for good."""
        faults.delete_nic(self.host(which), self.nic(which, nic))

    def pin_addresses(self):
        """Tell the switch once and for all at which port each NIC is; it learns no more."""
        faults.pin_addresses(self.spec)

    def set_wire(self, faults_of_wire, which=None, nic=None, direction="in"):
        """Change the faults of the wire, see wire.py: of one host or NIC or all, in one direction
        ("in": towards the host, "out": from it) or "both"."""
        nics = [one for _, one in self._nics(which, nic)]
        everything = which is None and nic is None
        wire.change(self.directory, None if everything else nics, direction, faults_of_wire)

    def wire_counters(self):
        """The wire's counters, see wire.counters()."""
        return wire.counters(self.directory)

    def wire_total(self, name, which=None, nic=None, direction="in"):
        """Sum of one of the wire's counters over NICs, in one direction."""
        counters = self.wire_counters()
        return sum(counters[one.port, direction][name] for _, one in self._nics(which, nic))

    def pause(self, which):
        """Stop the MPI processes of a host (SIGSTOP), as if it swapped or was suspended."""
        self._signal_ranks(which, signal.SIGSTOP)

    def resume(self, which):
        """Let the MPI processes of a host go on."""
        self._signal_ranks(which, signal.SIGCONT)

    def ranks(self, which):
        """{rank: process id} of the MPI processes that mpirun has started on a host."""
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
        """Drop what `receiver` gets from `sender`: all of it, or one EtherType (one way only)."""
        peers = self.host(sender).nics
        for host, nic in self._nics(receiver, None):
            faults.set_blackhole(host, nic, peers, ethertype)

    def end_blackhole(self, receiver):
        """Let `receiver` get everything again."""
        for host, nic in self._nics(receiver, None):
            faults.set_blackhole(host, nic, [])

    def statistic(self, which, name, nic=0):
        """A counter that the kernel keeps of a host's NIC (rx_bytes, say), since it was made."""
        file = f"/sys/class/net/{self.nic(which, nic).device}/statistics/{name}"
        return int(self.run(which, ["cat", file], check=True).stdout)

    def capture(self, which, file, expression=(), nic=0, count=None):
        """Start tcpdump on a host's NIC into `file`; end() the returned Capture to have it all."""
        host = self.host(which)
        return Capture(self, host, self.nic(host, nic), file, expression, count)
