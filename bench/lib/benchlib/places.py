# SPDX-License-Identifier: BSD-3-Clause
"""Places where mpirun runs: virtual hosts of the lab, or real hosts named in a file. Also the facts
about machine, hosts and rounds in a report."""

import copy
import os
import platform
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from rawelab import Lab, LabSpec, launch

from . import BenchError, prepare, transports

TIMEOUT_STATUS = 124
STOP_SECONDS = 10.0  # time for mpirun to obey SIGTERM
NICS = {
    "whole": "batches travel whole, as between virtual NICs",
    "cut": "the sender cuts batches into frames, the receiver merges frames, as with real NICs",
    "plain": "no offloads: the sender cuts, nothing merges, the kernel computes checksums",
}
ROOT_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Outcome:
    """The outcome of one mpirun, or of several in succession."""

    status: int
    output: str
    errors: str
    seconds: float
    timed_out: bool = False
    commands: tuple = ()  # commands that repeat the run
    files: dict = field(default_factory=dict)  # name -> text of the output files that are kept


class Place:
    """The base of both kinds of place; `interface` is the interface to measure, or None."""

    interface = None

    def run(self, arguments, timeout):
        """Run mpirun to its end, and never leave it running. Returns an Outcome."""
        started = time.monotonic()
        process = self._start(arguments)
        timed_out = False
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            output, errors = self._end(process)
        except BaseException:
            self._end(process)
            raise
        finally:
            self._settle()
        status = TIMEOUT_STATUS if timed_out else process.returncode
        return Outcome(status, output, errors, time.monotonic() - started, timed_out)

    def _end(self, process):
        """Terminate mpirun, or kill it if it does not obey. Returns its output and errors."""
        process.send_signal(signal.SIGTERM)
        try:
            return process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill(process)
            return process.communicate()


class LabPlace(Place):
    """Virtual hosts of the lab; a context manager brings them up and removes them."""

    interface = "eth0"

    def __init__(self, shape, build):
        self.shape = {name: value for name, value in shape.items() if value is not None}
        self.build = build
        self.lab = Lab(LabSpec(**self.shape))
        self.before = []

    def __enter__(self):
        self.lab.up()
        return self

    def __exit__(self, *_):
        self.lab.down()

    def _start(self, arguments):
        self.before = self.lab.processes()
        return launch.start(self.lab, arguments, build=self.build, **launch.PIPES)

    def _kill(self, process):
        self.lab.kill_processes(spare=self.before)

    def _settle(self):
        if launch.settle(self.lab, self.before):
            self.lab.kill_processes(spare=self.before)

    def command(self, arguments):
        """Return the command that repeats a run."""
        words = ["test/lab/lab", "mpirun"]
        for name, value in self.shape.items():
            words += [f"--{name}", str(value)]
        if self.build is not None:
            words += ["--build", str(self.build)]
        return shlex.join(words + ["--", *arguments])

    def describe(self):
        """Return facts about the place: (name, value)."""
        spec = self.lab.spec
        facts = [
            ("Hosts", f"{spec.hosts} virtual hosts (network namespaces of this machine)"),
            ("Wiring", {"pair": "two NICs wired directly", "switch": "bridge"}[spec.topology]),
            ("MTU", f"{spec.mtu} bytes"),
            ("NICs", NICS[spec.nic]),
        ]
        if spec.rate:
            facts.append(("Rate", f"{spec.rate}, queue of a switch port {spec.buffer} bytes"))
        if spec.loss:
            facts.append(("Loss", f"{spec.loss:g} % on each way"))
        return facts


class HostfilePlace(Place):
    """Real hosts, reached by the mpirun on PATH; a context manager checks them first."""

    def __init__(self, hostfile, interface, build, extra):
        self.hostfile = Path(hostfile)
        self.interface = interface
        self.extra = extra
        self.prefix = ["--hostfile", str(hostfile), "--map-by", "node", "--bind-to", "core"]
        self.files, self.component = [], []
        if build is not None:
            # The component is not installed: every host must see the component under this path.
            self.files.append(Path(build) / transports.COMPONENT)
            self.component = transports.component_path(Path(build))

    def __enter__(self):
        asked = copy.copy(self)
        asked.prefix = ["--hostfile", str(self.hostfile), "--map-by", "ppr:1:node"]
        preflight(asked, self.interface, self.files)
        return self

    def __exit__(self, *_):
        pass

    def _words(self, arguments):
        component = [] if transports.COMPONENT_PATH in arguments else self.component
        return ["mpirun", *self.prefix, *component, *self.extra, *map(str, arguments)]

    def _start(self, arguments):
        try:
            words, variables = self._words(arguments), {**os.environ, **ROOT_VARIABLES}
            return subprocess.Popen(words, env=variables, process_group=0, **launch.PIPES)
        except FileNotFoundError as error:
            raise BenchError("mpirun is not on PATH; that of the Open MPI to measure is") from error

    def _kill(self, process):
        os.killpg(process.pid, signal.SIGKILL)

    def _settle(self):
        """Do nothing: on real hosts, mpirun itself cleans up."""

    def command(self, arguments):
        """Return the command that repeats a run."""
        return shlex.join(self._words(arguments))

    def describe(self):
        """Return facts about the place: (name, value)."""
        facts = [("Hosts", f"those of {self.hostfile.name}")]
        if self.interface:
            facts.append(("Interface", self.interface))
        return facts


def place_of(options, hosts):
    """Return the place for runs on this number of virtual hosts, or on the hostfile's hosts."""
    build = options.build if (options.build / transports.COMPONENT).exists() else None
    if options.hostfile is None:
        return LabPlace({**options.shape, "hosts": hosts}, build)
    if "mca:btl:rawe:" in prepare.ompi_info(None):  # found without a path to it
        build = None
    return HostfilePlace(options.hostfile, options.interface, build, options.mpirun_args)


ASK_SECONDS = 60  # ssh gives up on a silent address after a minute or two
ASK_LINES = 8  # lines of mpirun's output to show; the first lines name the cause
ASK_MARK = "rawe-preflight:"
# Arguments: the network interface, or nothing; then the files that every host must see.
ASK_SCRIPT = f"""
say() {{ echo "{ASK_MARK} $(hostname): $*"; }}
if [ -n "$1" ] && [ ! -e "/sys/class/net/$1" ] && ! ip link show dev "$1" >/dev/null 2>&1; then
  say "there is no network interface $1; it has" /sys/class/net/*
fi
shift
for file; do [ -r "$file" ] || say "$file is not there"; done
"""


def _first_lines(outcome):
    text = f"{outcome.errors}\n{outcome.output}"
    lines = [line for line in text.splitlines() if line.strip("- \t") and ASK_MARK not in line]
    return "".join(f"\n  | {line}" for line in lines[:ASK_LINES])


def preflight(place, interface, files):
    """Raise BenchError if mpirun cannot reach a host, or a host lacks the interface or a file."""
    arguments = ["sh", "-c", ASK_SCRIPT, "preflight", interface or "", *map(str, files)]
    outcome = place.run(arguments, ASK_SECONDS)
    if outcome.status != 0:
        ended = f"had not ended after {ASK_SECONDS} s" if outcome.timed_out else "failed"
        raise BenchError(
            f"not all hosts of the hostfile run programs: mpirun {ended}{_first_lines(outcome)}\n"
            f"try: {place.command(['hostname'])}"
        )
    lacks = {
        line.partition(ASK_MARK)[2] for line in outcome.output.splitlines() if ASK_MARK in line
    }
    if lacks:
        text = "".join(f"\n {line.replace('/sys/class/net/', '')}" for line in sorted(lacks))
        raise BenchError(
            f"hosts of the hostfile lack something:{text}\n"
            "--interface names one that all hosts have; files are found when rawe is installed "
            "on each host (make install), or built in a directory that they share"
        )


def _first_line(argv):
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
    except OSError:
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0]


def _system():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def machine():
    """Return facts about this machine: (name, value)."""
    models = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = models[1] if models else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("Processor", f"{processor}, {os.cpu_count()} cores"),
        ("Memory", f"{memory:.0f} GiB"),
        ("System", _system()),
        ("Kernel", f"{platform.system()} {platform.release()}"),
        ("MPI", _first_line(["mpirun", "--version"])),
    ]


def facts_of(options, started, cases):
    """Return the facts about the whole comparison: (name, value)."""
    hosts = dict.fromkeys(case.hosts for case in cases)
    found = [("Date", started), *merge({n: place_of(options, n).describe() for n in hosts})]
    ranks = sorted({case.ranks for case in cases})
    found += [*machine(), ("Ranks", ", ".join(map(str, ranks))), ("Rounds", options.rounds)]
    if options.against is not None:
        found.append(("old", f"rawe of {options.against}"))
    cores = len(os.sched_getaffinity(0))
    if options.hostfile is None and ranks[-1] > cores:
        text = f"up to {ranks[-1]} ranks share {cores} cores: times include waiting for a core"
        found.append(("Note", text))
    return found


def merge(described):
    """Merge {number of hosts: facts} into one list. Differing values name their hosts."""
    values = {}
    for hosts, facts in described.items():
        for name, value in facts:
            values.setdefault(name, {}).setdefault(value, []).append(hosts)
    merged = []
    for name, by_value in values.items():
        texts = list(by_value)
        if len(texts) > 1 and name != "Hosts":
            texts = [f"{text} ({_hosts(hosts)})" for text, hosts in by_value.items()]
        merged.append((name, "; ".join(texts)))
    return merged


def _hosts(numbers):
    names = [str(number) for number in sorted(numbers)]
    return " and ".join(names) + (" host" if names == ["1"] else " hosts")
