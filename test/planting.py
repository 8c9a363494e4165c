# SPDX-License-Identifier: BSD-3-Clause
"""Builds tests of core from a changed source: for bugs that are planted, and for mutants."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TEST = Path(__file__).resolve().parent
SIM = TEST / "sim"
NET = TEST / "net"
CORE = TEST.parent / "opal" / "mca" / "btl" / "rawe" / "core"
PATH = CORE.parent / "linux" / "probe"  # path discovery, with a simulator of its own
CFLAGS = ["-std=gnu11", "-O2", "-pthread"]
WRAP = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc"  # of rawe-sim only
LIMITS = ["prlimit", f"--as={2 << 30}", "--core=0"]  # a bug may take any amount of memory


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def run(command, seconds=None, limits=LIMITS):
    """A command's status and output, in bounded memory. Status None: it took too long."""
    with subprocess.Popen(
        [*limits, *(str(word) for word in command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0 if seconds else None,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output.decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # a simulator's runs are processes, too
            return None, ""


def compile_file(source, target, includes, flags=()):
    """The compiler's complaint; empty if there is none."""
    command = [os.environ.get("CC", "cc"), *CFLAGS, *(f"-I{i}" for i in includes), *flags]
    status, output = run([*command, "-c", source, "-o", target])
    return output if status != 0 else ""


def compile_all(folder, sources, includes):
    """Objects in the folder, by name of their source."""
    objects = {source.name: folder / f"{source.stem}.o" for source in sources}

    def compile_one(source):
        complaint = compile_file(source, objects[source.name], includes)
        if complaint:
            fail(f"{source.name} does not compile:\n{complaint}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))
    return objects


def compile_simulator(folder, core=CORE, simulator=(SIM, NET)):
    """Objects of core and the folders and files of a simulator, by name of their source."""
    sources = sorted({*core.rglob("*.c"), *(PATH.glob("rawe_path.c") if core == CORE else ())})
    for where in simulator:
        sources += sorted(where.glob("*.c")) if where.is_dir() else [where]
    return compile_all(folder, sources, [core, PATH, SIM, NET])


def compile_own_simulator(folder, name):
    """The same of a simulator that has a folder of its own."""
    folder.mkdir()
    return compile_simulator(
        folder, simulator=[SIM / name, SIM / "driver", SIM / "sim_event.c", NET]
    )


def link(target, words):
    """Link objects, libraries and options; ends with the linker's complaint."""
    status, output = run([os.environ.get("CC", "cc"), *CFLAGS, *words, "-o", target])
    if status != 0:
        fail(f"{target.name} does not link:\n{output}")


def link_simulator(target, objects):
    """Link objects by name of their source."""
    link(target, [*objects.values(), *([WRAP] if "sim_memory.c" in objects else [])])


def hunt(program, seeds, faults=None, seconds=None):
    """What a simulator finds first: a line about a seed, or how it ended; None: nothing."""
    command = [program, "--seeds", f"1:{seeds}", "--failures", "1", "--no-shrink"]
    status, output = run([*command, *(["--faults", faults] if faults else [])], seconds)
    if status is None:
        return f"no end within {seconds} s"
    failed = [line for line in output.splitlines() if line.startswith("FAILED seed ")]
    if failed:
        return failed[0].removeprefix("FAILED ")
    return f"signal {-status}" if status < 0 else None
