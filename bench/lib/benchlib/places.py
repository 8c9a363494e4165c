# SPDX-License-Identifier: BSD-3-Clause
"""Where mpirun runs: on virtual hosts of the lab, or on real hosts named in a file."""

import copy
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from rawelab import Lab, LabSpec, launch

from . import preflight, prepare, transports
from .error import BenchError

TIMEOUT_STATUS = 124
STOP_SECONDS = 10.0  # what mpirun gets to end in good order
NICS = {
    "whole": "batches travel whole, as between virtual NICs",
    "cut": "the sender cuts batches into frames, the receiver merges frames, as with real NICs",
    "plain": "no offloads: the sender cuts, nothing merges, the kernel computes checksums",
}
ROOT_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Outcome:
    """How one mpirun ended, or several, one after the other."""

    status: int
    output: str
    errors: str
    seconds: float
    timed_out: bool = False
    commands: tuple = ()  # that repeat it
    files: dict = field(default_factory=dict)  # name -> text of the files it wrote, if any are kept


class Place:
    """Common to both kinds; `interface` is the network interface to measure, or None."""

    interface = None

    def run(self, arguments, timeout, tick=lambda: None):
        """Run mpirun to its end, calling tick() about twice a second; never leaves it running."""
        started = time.monotonic()
        process = self._start(arguments)
        timed_out = False
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    tick()
                    if time.monotonic() - started > timeout:
                        timed_out = True
                        output, errors = self._end(process)
                        break
        except BaseException:
            self._end(process)
            raise
        finally:
            self._settle()
        status = TIMEOUT_STATUS if timed_out else process.returncode
        return Outcome(status, output, errors, time.monotonic() - started, timed_out)

    def _end(self, process):
        """End mpirun, by a signal that it can obey if possible; what it had printed."""
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
        """The command a person types to repeat a run."""
        words = ["test/lab/lab", "mpirun"]
        for name, value in self.shape.items():
            words += [f"--{name}", str(value)]
        if self.build is not None:
            words += ["--build", str(self.build)]
        return shlex.join(words + ["--", *arguments])

    def describe(self):
        """Name and value of what matters about the place."""
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
            # The component is not installed: every host has to see it under this path.
            self.files.append(Path(build) / transports.COMPONENT)
            self.component = transports.component_path(Path(build))

    def __enter__(self):
        asked = copy.copy(self)
        asked.prefix = ["--hostfile", str(self.hostfile), "--map-by", "ppr:1:node"]
        preflight.check(asked, self.interface, self.files)
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
        """Nothing to do: mpirun itself leaves nothing behind on real hosts."""

    def command(self, arguments):
        """The command a person types to repeat a run."""
        return shlex.join(self._words(arguments))

    def describe(self):
        """Name and value of what matters about the place."""
        facts = [("Hosts", f"those of {self.hostfile.name}")]
        if self.interface:
            facts.append(("Interface", self.interface))
        return facts


def place_of(options, hosts):
    """The place for runs on a number of virtual hosts, or on the hosts of the hostfile."""
    build = options.build if (options.build / transports.COMPONENT).exists() else None
    if options.hostfile is None:
        return LabPlace({**options.shape, "hosts": hosts}, build)
    if prepare.rawe_installed():
        build = None
    return HostfilePlace(options.hostfile, options.interface, build, options.mpirun_args)
