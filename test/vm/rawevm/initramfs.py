# SPDX-License-Identifier: BSD-3-Clause
"""Creates the initial RAM disk of a virtual machine: busybox, our init, and the modules that are
needed to mount the host's file system. It is a cpio archive of the format "newc", see
Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
"""

import lzma
import stat
import subprocess
from pathlib import Path

from rawelab.command import LabError

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


def build(kernel, path):
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
