# SPDX-License-Identifier: BSD-3-Clause
"""Build tests of core with a changed source, for planted bugs and for mutants."""

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
PATH = CORE.parent / "linux" / "probe"  # path discovery, with its own simulator
CFLAGS = ["-std=gnu11", "-O2", "-pthread"]
WRAP = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc"  # of rawe-sim only
LIMITS = ["prlimit", f"--as={2 << 30}", "--core=0"]  # a bug may take any amount of memory


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def run(command, seconds=None, limits=LIMITS):
    """Run a command with limited memory. Returns status and output; status None: timeout."""
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
            os.killpg(process.pid, signal.SIGKILL)  # including the processes of a simulator's runs
            return None, ""


def compile_file(source, target, includes, flags=()):
    """Compile a source. Returns the compiler's errors, or "" on success."""
    command = [os.environ.get("CC", "cc"), *CFLAGS, *(f"-I{i}" for i in includes), *flags]
    status, output = run([*command, "-c", source, "-o", target])
    return output if status != 0 else ""


def compile_all(folder, sources, includes):
    """Compile sources into the folder. Returns the objects by name of their source."""
    objects = {source.name: folder / f"{source.stem}.o" for source in sources}

    def compile_one(source):
        complaint = compile_file(source, objects[source.name], includes)
        if complaint:
            fail(f"{source.name} does not compile:\n{complaint}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))
    return objects


def compile_simulator(folder, core=CORE, simulator=(SIM, NET)):
    """Compile core and a simulator's folders and files; see compile_all."""
    sources = sorted({*core.rglob("*.c"), *(PATH.glob("rawe_path.c") if core == CORE else ())})
    for where in simulator:
        sources += sorted(where.glob("*.c")) if where.is_dir() else [where]
    return compile_all(folder, sources, [core, PATH, SIM, NET])


def compile_own_simulator(folder, name):
    """Compile core and a simulator with its own folder; see compile_all."""
    folder.mkdir()
    return compile_simulator(
        folder, simulator=[SIM / name, SIM / "driver", SIM / "sim_event.c", NET]
    )


def link(target, words):
    """Link objects, libraries and options; exit with the linker's errors if that fails."""
    status, output = run([os.environ.get("CC", "cc"), *CFLAGS, *words, "-o", target])
    if status != 0:
        fail(f"{target.name} does not link:\n{output}")


def link_simulator(target, objects):
    """Link objects by name of their source."""
    link(target, [*objects.values(), *([WRAP] if "sim_trouble.c" in objects else [])])


def hunt(program, seeds, faults=None, seconds=None):
    """A simulator's first finding: a line about a seed, or the way it ended; None: nothing."""
    command = [program, "--seeds", f"1:{seeds}", "--failures", "1", "--no-shrink"]
    status, output = run([*command, *(["--faults", faults] if faults else [])], seconds)
    if status is None:
        return f"no end within {seconds} s"
    failed = [line for line in output.splitlines() if line.startswith("FAILED seed ")]
    if failed:
        return failed[0].removeprefix("FAILED ")
    return f"signal {-status}" if status < 0 else None
