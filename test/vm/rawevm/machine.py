# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine: its initial RAM disk, a QEMU process, its console and its agent.

The RAM disk has busybox, our init, and the modules that are needed to mount the host's file system.
It is a cpio archive of the format "newc", see
Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
"""

import ctypes
import json
import lzma
import os
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

from rawelab.command import LabError

from .job import Agent

START_SECONDS = 30  # time for QEMU to create its sockets
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
    # Without these, an emulated boot takes seconds longer, for nothing.
    "mitigations=off audit=0 nokaslr random.trust_cpu=on "
    # An idle network is silent.
    "ipv6.disable=1"
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LIBC = ctypes.CDLL(None, use_errno=True)


GUEST = Path(__file__).resolve().parents[1] / "guest"
BUSYBOX = Path("/bin/busybox")
# The RAM disk loads these in order, each after its dependencies.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")


def _entry(name, content, mode, inode):
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    data = header + name.encode() + b"\0"
    data += b"\0" * (-len(data) % 4) + content
    return data + b"\0" * (-len(data) % 4)


def _archive(files):
    """Return the archive of {name: (content, mode)}, with the parent directories of the names."""
    folders = {parent for name in files for parent in Path(name).parents if parent != Path(".")}
    entries = {str(folder): (b"", stat.S_IFDIR | 0o755) for folder in sorted(folders)}
    for name, (content, mode) in files.items():
        entries[name] = (content, stat.S_IFREG | mode)
    data = b"".join(
        _entry(name, content, mode, inode)
        for inode, (name, (content, mode)) in enumerate(entries.items(), 1)
    )
    return data + _entry("TRAILER!!!", b"", 0, 0)


def _files_of(kernel, module):
    """Return the files of a module and its dependencies, in the order of loading."""
    argv = ["modprobe", "--dirname", str(kernel.tree), "--set-version", kernel.version]
    argv += ["--ignore-install", "--show-depends", module]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError("modprobe is missing; test/install-deps vm installs it") from error
    if done.returncode != 0:
        raise LabError(f"kernel {kernel.version} has no module {module}: {done.stderr.strip()}")
    words = [line.split() for line in done.stdout.splitlines()]
    return [Path(line[1]) for line in words if line and line[0] == "insmod"]


def build_ramdisk(kernel, path):
    """Write the RAM disk for a kernel."""
    if not BUSYBOX.exists():
        raise LabError(f"{BUSYBOX} is missing; test/install-deps vm installs it")
    files = {
        "init": ((GUEST / "init").read_bytes(), 0o755),
        "bin/busybox": (BUSYBOX.read_bytes(), 0o755),
    }
    load = []
    for module in MODULES:
        for file in _files_of(kernel, module):
            name = file.name.removesuffix(".xz")
            if name not in load:
                content = file.read_bytes()
                content = lzma.decompress(content) if file.suffix == ".xz" else content
                files[f"modules/{name}"] = (content, 0o644)
                load.append(name)
    config = f"AGENT='{GUEST / 'agent'}'\nMODULES='{kernel.modules}'\nLOAD='{' '.join(load)}'\n"
    files["config"] = (config.encode(), 0o644)
    path.write_bytes(_archive(files))


def _prepare_child():
    # A process killed with SIGKILL cannot end its machines, so the kernel has to.
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
        # Before the agent opens the port, which would report end of file without a client.
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
        """Run a shell script up to the first command that fails; see run()."""
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
