# SPDX-License-Identifier: BSD-3-Clause
"""Runs mpirun on a lab's first host.

mpirun gets the user's arguments unchanged. The lab sets OMPI_MCA_* and PRTE_MCA_* variables, which
the command line and the user's own environment override. One option of 5.0 has no variable: see
start().
"""

import ctypes
import functools
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .command import LabError
from .wiring import CONTROL_DEVICE

TIMEOUT_STATUS = 124  # as in timeout(1)
STOP_SECONDS = 10.0  # time for mpirun to end normally after a signal
SETTLE_SECONDS = 60.0  # time for daemons and ranks to end after mpirun, usually below a second
STRAY_SECONDS = 5.0  # on a terminal, where a user is waiting; survivors are then killed
COMPONENT = Path("opal/mca/btl/rawe/.libs")
VERIFY = "test/lab/verify/rawe-verify"
COLLECTIVES = Path("ompi/mca/coll/rawe/.libs")  # the coll component, which older builds lack
PR_SET_PDEATHSIG = 1
# Popen options for a program without input and with text output that we read.
PIPES = {"stdin": subprocess.DEVNULL, "text": True, "errors": "replace"}
PIPES |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class MpiResult:
    """The outcome of a run of mpirun."""

    returncode: int  # mpirun's status; 128 + signal if a signal ended it; 124 on timeout
    output: str = ""  # standard output, when captured
    errors: str = ""  # standard error, when captured
    timed_out: bool = False
    leftover: list = field(default_factory=list)  # what was running SETTLE_SECONDS after mpirun


def cores():
    """Return the cores that this process, and therefore the lab, may use."""
    return sorted(os.sched_getaffinity(0))


def component_path(build):
    """Return the mca_base_component_path that includes the components of a build directory."""
    libs = Path(build).resolve() / COMPONENT
    if not (libs / "mca_btl_rawe.so").exists():
        raise LabError(
            f"no component in {libs}: build first (`make` in {build}), or name the build "
            "directory with --build"
        )
    inherited = os.environ.get("OMPI_MCA_mca_base_component_path", "SYSTEM_DEFAULT:USER_DEFAULT")
    collectives = Path(build).resolve() / COLLECTIVES
    ours = [libs, collectives] if collectives.exists() else [libs]
    return ":".join(map(str, [*ours, inherited]))


def find_build(start=None):
    """Return ./build if it has the component, else None."""
    build = Path(start or ".") / "build"
    return build if (build / COMPONENT / "mca_btl_rawe.so").exists() else None


def build_directory(build=None):
    """Return the given build directory, else ./build, else that of this source tree."""
    if build is None:
        build = find_build() or Path(__file__).resolve().parents[3] / "build"
    component_path(build)
    return Path(build).resolve()


def program(build, path):
    """Return the path of a program in the build directory."""
    full = Path(build).resolve() / path
    if not full.exists():
        raise LabError(f"{full} is missing: build first (`make tests`)")
    return full


def _mentions(arguments, parameter):
    return parameter in arguments or f"OMPI_MCA_{parameter}" in os.environ


@functools.lru_cache(maxsize=1)
def open_mpi():
    """Return the major and minor version of the Open MPI whose mpirun is on PATH."""
    if shutil.which("mpirun") is None:
        raise LabError("mpirun is not on PATH; test/install-deps installs Debian's openmpi-bin")
    said = subprocess.run(
        ["mpirun", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    ).stdout
    found = re.search(r"Open MPI\) (\d+)\.(\d+)", said)
    if found is None:
        raise LabError(f"the mpirun on PATH is not Open MPI's; it says: {said.strip()!r}")
    return int(found.group(1)), int(found.group(2))


def _for_orte(directory):
    """Return the settings that let Open MPI 4.1 launch processes in the lab."""
    return {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": str(directory / "launch-agent"),
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        # One session for all hosts, because Linux schedules by session: kernel 6.18 starved ranks
        # in one session for many seconds while ranks in another yielded on the same core.
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_orte_fork_agent": str(directory / "rank-agent"),
        "OMPI_MCA_orte_default_hostfile": str(directory / "hostfile"),
        "OMPI_MCA_orte_tmpdir_base": str(directory / "tmp"),
        "OMPI_MCA_oob_tcp_if_include": CONTROL_DEVICE,
        "OMPI_MCA_rmaps_base_mapping_policy": "node",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }


# The names that PRRTE has used since Open MPI 6.0, which warns about the old names.
NAMES_SINCE_6 = {
    "oob_tcp_if_include": "prte_if_include",
    "rmaps_default_mapping_policy": "mapby",
    "hwloc_default_binding_policy": "bindto",
}


def _for_prrte(directory, release):
    """Return the settings that let PRRTE, used since Open MPI 5.0, launch processes in the lab."""
    settings = {
        "plm": "ssh",
        "plm_ssh_agent": str(directory / "launch-agent"),
        "plm_ssh_no_tree_spawn": "1",
        "odls_base_exec_agent": str(directory / "rank-agent"),
        "prte_default_hostfile": str(directory / "hostfile"),
        "prte_tmpdir_base": str(directory / "tmp"),
        "oob_tcp_if_include": CONTROL_DEVICE,
        "rmaps_default_mapping_policy": "node:oversubscribe",
        "hwloc_default_binding_policy": "none",
    }
    names = NAMES_SINCE_6 if release >= 6 else {}
    return {f"PRTE_MCA_{names.get(name, name)}": value for name, value in settings.items()}


def environment(lab, arguments, build=None, pin=True, release=None):
    """Return mpirun's environment on this lab, based on our own. `release` is the major version of
    mpirun's Open MPI, by default of the one on PATH."""
    release = release or open_mpi()[0]
    allowed = cores()
    devices = ",".join(nic.device for nic in lab.hosts[0].nics)
    ours = {
        "RAWE_LAB_DIR": str(lab.directory),
        "RAWE_LAB_CORES": " ".join(map(str, allowed)) if pin else "",
        "RAWE_LAB_CORE_COUNT": str(len(allowed)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "TMPDIR": str(lab.directory / "tmp"),
        **(_for_orte(lab.directory) if release < 5 else _for_prrte(lab.directory, release)),
    }
    for btl in ("tcp", "rawe"):
        # if_include and if_exclude conflict, so set neither if the caller sets if_exclude.
        if not _mentions(arguments, f"btl_{btl}_if_exclude"):
            ours[f"OMPI_MCA_btl_{btl}_if_include"] = devices
    path = "OMPI_MCA_mca_base_component_path"
    if release >= 5 and (build is not None or path in os.environ):
        # Name an empty directory: PRRTE would otherwise pass Open MPI's path to PMIx, which would
        # complain about the files there; and an empty value crashes prterun.
        ours["PMIX_MCA_mca_base_component_path"] = str(lab.directory / "empty")
    for name in list(ours):
        if name.startswith(("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")) and name in os.environ:
            del ours[name]
    if build is not None:
        ours[path] = component_path(build)
    return {**os.environ, **ours}


def rank_of(pid):
    """Return the rank of an MPI process that mpirun started, or None for any other process.

    Children of a rank inherit its environment, so a process whose parent has it too is not a rank.
    """

    def read(one):
        environment = Path(f"/proc/{one}/environ").read_bytes().split(b"\0")
        words = [word for word in environment if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
        return int(words[0].partition(b"=")[2]) if words else None

    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        parent = int(stat.rpartition(")")[2].split()[1])
        return read(pid) if read(parent) is None else None
    except (OSError, IndexError):
        return None  # the process has ended


def _die_with_parent():
    # A lab killed with SIGKILL cannot end its mpirun, so the kernel has to.
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def start(lab, arguments, build=None, pin=True, variables=None, prefix=(), **options):
    """Start mpirun on host 0 in its own process group; `options` go to subprocess.Popen.

    `variables` are added to the environment; `prefix`, such as setpriv, runs mpirun.
    """
    arguments = [str(argument) for argument in arguments]
    settings = {**environment(lab, arguments, build, pin), **(variables or {})}
    # Use one session for all hosts: see _for_orte().
    words = ["--leave-session-attached"] if open_mpi()[0] >= 5 else []
    argv = lab.host_command(0, [*prefix, "mpirun", *words, *arguments])
    options.setdefault("process_group", 0)
    return subprocess.Popen(argv, env=settings, preexec_fn=_die_with_parent, **options)


def exit_status(code):
    """Convert a Popen.returncode to a shell's exit status, which is 128 + signal for a signal."""
    return code if code >= 0 else 128 - code


def stop(process, number=signal.SIGTERM):
    """Signal mpirun and wait for a normal end. Returns false if mpirun is still running."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def end(process, number=signal.SIGTERM):
    """Signal mpirun, and kill it if it is still running then; its daemons notice, and end."""
    if not stop(process, number):
        process.kill()


def settle(lab, before=(), seconds=SETTLE_SECONDS):
    """Wait until the lab's hosts run only the processes `before`; return any others that remain."""
    deadline = time.monotonic() + seconds
    while True:
        pids = [pid for pid in lab.processes() if pid not in before]
        if not pids or time.monotonic() > deadline:
            return pids
        time.sleep(0.05)


def run(lab, arguments, timeout=None, **options):
    """Run mpirun with captured output, and leave no process behind; return an MpiResult.

    After `timeout` seconds, mpirun is first asked to end, and then killed.
    """
    before = lab.processes()
    return collect(lab, start(lab, arguments, **PIPES, **options), timeout, before)


def collect(lab, process, timeout=None, before=()):
    """Wait for the end of an mpirun that was started with PIPES; see run()."""
    timed_out = False
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        process.send_signal(signal.SIGTERM)
        try:
            output, errors = process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            lab.kill_processes(spare=before)
            output, errors = process.communicate()
    leftover = settle(lab, before)
    if leftover:
        lab.kill_processes(spare=before)
    code = TIMEOUT_STATUS if timed_out else exit_status(process.returncode)
    return MpiResult(code, output, errors, timed_out, leftover)


def run_attached(lab, arguments, timeout=None, exclusive=True, **options):
    """Run mpirun on this process's terminal and return its exit status.

    If the lab is `exclusive` to this run, processes that survive mpirun are killed. mpirun becomes
    the terminal's foreground process group, so Ctrl-C reaches it exactly once.
    """
    before = lab.processes()
    process = start(lab, arguments, **options)
    terminal = _give_terminal(process.pid)
    try:
        try:
            code = exit_status(process.wait(timeout))
        except subprocess.TimeoutExpired:
            end(process)
            code = TIMEOUT_STATUS
        except BaseException as reason:
            end(process, getattr(reason, "number", signal.SIGTERM))
            raise
        if exclusive:
            settle(lab, before, STRAY_SECONDS)
        return code
    finally:
        if exclusive:
            lab.kill_processes(spare=before)
        process.wait()
        if terminal is not None:
            _take_terminal(terminal)


def _give_terminal(group):
    """Make `group` the terminal's foreground group if ours is; return the terminal or None."""
    try:
        if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
            os.tcsetpgrp(0, group)
            return 0
    except OSError:
        pass  # no controlling terminal
    return None


def _take_terminal(terminal):
    previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(terminal, os.getpgrp())
    except (OSError, ProcessLookupError):
        pass  # the terminal is gone
    finally:
        signal.signal(signal.SIGTTOU, previous)
