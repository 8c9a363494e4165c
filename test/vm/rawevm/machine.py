# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine: a QEMU process, its console and its agent."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from rawelab.command import LabError

from .job import Agent

START_SECONDS = 30  # for QEMU to create its sockets
BOOT_SECONDS = 240
COMMAND_SECONDS = 60
STOP_SECONDS = 5
CONSOLE_LINES = 40
NICENESS = 5  # emulation uses whole cores for minutes
PR_SET_PDEATHSIG = 1
COMMAND_LINE = (
    # If the first process fails, the machine ends, and QEMU with it.
    "panic=-1 console=ttyS0 loglevel=4 "
    # QEMU's TSC is reliable, but the emulation is so slow that the kernel would reject it.
    "tsc=reliable no_timer_check "
    # Without these, an emulated boot takes seconds longer, for no benefit here.
    "mitigations=off audit=0 nokaslr random.trust_cpu=on "
    # An idle network is silent.
    "ipv6.disable=1"
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LIBC = ctypes.CDLL(None, use_errno=True)


def _prepare_child():
    # A process killed with SIGKILL cannot end its machines, so the kernel does.
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(NICENESS)


class Machine:
    """A machine `name` with its sockets and console in `directory`."""

    def __init__(self, name, directory, qemu, kernel, initramfs, cpus, memory_mib):
        self.name = name
        self.directory = Path(directory)
        self.console = self.directory / f"{name}.console"
        self._qemu = qemu
        self._agent = None
        self._qmp = None
        self._process = None
        self._argv = [
            *qemu.argv(),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-name", name, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
            *("-smp", str(cpus), "-m", f"{memory_mib}M"),
            *("-kernel", str(kernel.image), "-initrd", str(initramfs), "-append", COMMAND_LINE),
            *("-chardev", f"file,id=console,path={self.console}", "-serial", "chardev:console"),
            # Inode numbers of the file systems below / may collide.
            *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
            *("-device", "virtio-serial-pci"),
            *("-chardev", f"socket,id=agent,path={self._socket('agent')},server=on,wait=off"),
            *("-device", "virtserialport,chardev=agent,name=rawe.agent"),
            *("-qmp", f"unix:{self._socket('qmp')},server=on,wait=off"),
        ]

    def _socket(self, purpose):
        return self.directory / f"{self.name}.{purpose}"

    def plug(self, *words):
        """Add words to QEMU's command line, before it starts."""
        self._argv += map(str, words)

    def start(self):
        """Start QEMU; return when its sockets exist."""
        with open(self.directory / f"{self.name}.qemu", "wb") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._qemu.environment()},
                start_new_session=True,
                preexec_fn=_prepare_child,
            )
        deadline = time.monotonic() + START_SECONDS
        while not all(self._socket(purpose).exists() for purpose in ("qmp", "agent")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"QEMU of {self.name} did not start:\n{self._last_words()}")
            time.sleep(0.02)
        # Before the agent opens the port, which would be at its end without a client.
        self._agent = Agent(self._socket("agent"))

    def wait_until_up(self):
        """Wait until the agent answers."""
        try:
            result = self._agent.start(["true"], {"PATH": PATH}, "/").wait(BOOT_SECONDS)
        except LabError:
            result = None
        if result is None:
            raise LabError(
                f"{self.name} did not boot within {BOOT_SECONDS} seconds, or ended; its console:\n"
                f"{self._last_words()}"
            )

    def _last_words(self):
        lines = []
        for file in (self.directory / f"{self.name}.qemu", self.console):
            if file.exists():
                lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-CONSOLE_LINES:])

    def spawn(self, argv, environment=None, directory="/"):
        """Start a command in the machine; return its Job."""
        return self._agent.start(argv, environment or {"PATH": PATH}, directory)

    def run(self, argv, check=True, seconds=COMMAND_SECONDS):
        """Run a command in the machine; return its Result, or raise LabError if it fails."""
        result = self.spawn(argv).wait(seconds)
        if result is None:
            raise LabError(f"{self.name}: {argv} did not end within {seconds} seconds")
        if check and result.returncode != 0:
            raise LabError(
                f"{self.name}: {argv} failed with status {result.returncode}\n"
                f"{(result.errors or result.output).strip()}"
            )
        return result

    def shell(self, script):
        """Run a shell script, which ends at the first command that fails, as run()."""
        return self.run(["sh", "-ec", script])

    def monitor(self, command, **arguments):
        """Execute a command of QEMU's monitor; see QEMU's QMP reference."""
        if self._qmp is None:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(COMMAND_SECONDS)
            connection.connect(str(self._socket("qmp")))
            self._qmp = connection.makefile("rw", encoding="utf-8")
            self._qmp.readline()  # the greeting
            self.monitor("qmp_capabilities")
        self._qmp.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._qmp.flush()
        while True:
            answer = json.loads(self._qmp.readline())
            if "error" in answer:
                raise LabError(f"{self.name}: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def stop(self):
        """End QEMU, by force if necessary."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._agent is not None:
            self._agent.close()
        if self._qmp is not None:
            self._qmp.close()
