# SPDX-License-Identifier: BSD-3-Clause
"""Slurm on a lab: the controller on the first host, a compute node on each other host.

Everything that the daemons of Slurm and MUNGE write is in the lab's directory, and all processes
run in the hosts' namespaces. So Lab.down() removes everything, also what a killed run has left.
"""

import os
import shutil
import subprocess
import time

from .command import LabError

READY_SECONDS = 120
POLL_SECONDS = 0.1
KEY_BYTES = 128
LOG_BYTES = 3000  # of a daemon's log, shown if it fails
FILES = ("socket", "key-file", "pid-file", "seed-file")  # of munged, by its options
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
# All hosts share one kernel and one file system: node names distinguish the daemons' files. Jobs
# are neither confined nor charged, because that needs control groups, which the hosts lack.
CONF = """
ClusterName=lab
SlurmctldHost={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdSpoolDir={directory}/spool-%n
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdLogFile={directory}/slurmd-%n.log
TmpFS={directory}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
MpiDefault=none
ReturnToService=2
NodeName={nodes} CPUs={cpus}
PartitionName=lab Nodes={nodes} Default=YES
"""


class Slurm:
    """Slurm's daemons on a lab, as a context manager that finally ends them and their jobs."""

    def __init__(self, lab, cpus=2):
        """`cpus` is the number of ranks that a node takes, whatever the machine has."""
        self.lab = lab
        self.cpus = cpus
        self.directory = lab.directory / "slurm"
        self.controller, self.nodes = lab.hosts[0], lab.hosts[1:]
        self.environment = {**os.environ, "SLURM_CONF": str(self.directory / "slurm.conf")}
        self._daemons = {}

    def __enter__(self):
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Start the daemons; return self once every node accepts jobs."""
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise LabError(f"{', '.join(missing)} not found; test/install-deps launchers installs")
        self._write_files()
        munge = [f"--{name}={self.directory}/munge.{name.removesuffix('-file')}" for name in FILES]
        self._start(self.controller, "munged", ["--foreground", "--force", *munge])
        self._wait((self.directory / "munge.socket").exists, "no socket of munged")
        self._start(self.controller, "slurmctld", ["-D"])
        for node in self.nodes:
            self._start(node, "slurmd", ["-D", "-N", node.name])
        self._wait(self._is_idle, "not every node is idle")
        return self

    def down(self):
        """End the daemons and every other process on the lab's hosts."""
        self.lab.kill_processes()
        for process, _ in self._daemons.values():
            process.wait()
        self._daemons.clear()

    def _write_files(self):
        self.directory.mkdir(mode=0o755)
        for node in self.nodes:
            (self.directory / f"tmp-{node.name}").mkdir()
            (self.directory / f"tmp-{node.name}").chmod(0o1777)
        key = self.directory / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(KEY_BYTES))
        conf = CONF.format(
            controller=self.controller.name,
            directory=self.directory,
            nodes=",".join(node.name for node in self.nodes),
            cpus=self.cpus,
        )
        (self.directory / "slurm.conf").write_text(conf, encoding="ascii")
        (self.directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="ascii")

    def _start(self, host, program, arguments):
        log = self.directory / f"{program}-{host.name}.out"
        with open(log, "wb") as output:
            # Its own session, because Ctrl-C is meant for the program that ends the daemons.
            process = subprocess.Popen(
                self.lab.host_command(host, [program, *arguments]),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._daemons[f"{program} on {host.name}"] = (process, log)

    def _wait(self, condition, problem):
        """Wait until a condition holds; raise LabError if a daemon ends, or with the `problem`."""
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            for name, (process, log) in self._daemons.items():
                if process.poll() is not None:
                    raise LabError(f"{name} ended with status {process.returncode}:\n{_end(log)}")
            if time.monotonic() > deadline:
                logs = "\n".join(_end(log) for _, log in self._daemons.values())
                raise LabError(f"{problem} after {READY_SECONDS} seconds:\n{logs}")
            time.sleep(POLL_SECONDS)

    def _is_idle(self):
        done = self.run(["sinfo", "--noheader", "--Node", "--format=%t"])
        return done.stdout.split() == ["idle"] * len(self.nodes)

    def run(self, argv, **options):
        """Run one of Slurm's commands on the controller's host; see Lab.run()."""
        return self.lab.run(self.controller, argv, **{"env": self.environment, **options})

    def batch(self, script, directory, prefix=(), variables=None, wait=True, timeout=None):
        """Submit a batch script, and usually wait until the job has ended.

        The job runs in a directory that its user may write to; its output is in `job.out` there.
        `prefix`, such as setpriv, runs sbatch; `variables` are added to the job's environment.
        Returns a CompletedProcess: the status of the job, or of sbatch; `stdout` is the output.
        """
        file, output = directory / "job.sh", directory / "job.out"
        output.unlink(missing_ok=True)
        file.write_text(script, encoding="utf-8")
        file.chmod(0o755)
        argv = [*prefix, "sbatch", f"--chdir={directory}", f"--output={output}"]
        argv += ["--wait"] * wait + [file]
        environment = {**self.environment, **(variables or {})}
        done = self.run(argv, env=environment, timeout=timeout)
        said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        return subprocess.CompletedProcess(argv, done.returncode, said, done.stdout + done.stderr)


def _end(log):
    return f"--- {log}\n" + log.read_text(encoding="utf-8", errors="replace")[-LOG_BYTES:]
