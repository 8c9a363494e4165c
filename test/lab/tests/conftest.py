# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the lab's tests: options, labs, programs, assertions."""

import importlib.machinery
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import rawelab  # noqa: E402  (the path has to be set first)
from rawelab import launch  # noqa: E402

ROOT = HERE.parents[2]
# If the environment says so, jobs use UDP, and tests with the mark `raw` are skipped.
KIND = "OMPI_MCA_btl_rawe_kind"
OVER_UDP = os.environ.get(KIND) == "udp"
ETHERTYPE = 0x0800 if OVER_UDP else 0x88B5  # of rawe's frames
RAWE = ("--mca", "btl", "rawe,self")
# The rules of a home router: it translates the addresses of UDP datagrams. TCP passes.
MASQUERADE = """
table ip nat {
    chain outgoing {
        type nat hook postrouting priority 100
        iifname "br0a" oifname "br0b" ip protocol udp masquerade
    }
}
table ip firewall {
    chain through {
        type filter hook forward priority 0
        iifname "br0b" ip protocol udp ct state new drop
    }
}
"""
STATS = ("--mca", "btl_rawe_stats", "1")
# Groups of rawe-verify that fail in Open MPI with any BTL: 4.1 cannot spawn on several hosts ("PML
# modex not found"), and the PRRTE of 5.0.7 sometimes corrupts its memory when jobs connect ("PMIX
# ERROR ... pmix_server_dyn.c", then a "double free" in prterun).
BEYOND_OPEN_MPI = "spawn" if launch.open_mpi()[0] < 5 else "spawn,connect"
HANG_SECONDS = 300  # ten times the duration of the longest test on an idle machine


def thorough(*values):
    """Mark values of a parametrized test so that --brief omits them; return them."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def pytest_addoption(parser):
    """Add the options that test/run passes on."""
    parser.addoption("--build", default=str(HERE.parents[2] / "build"), help="build directory")
    parser.addoption("--instrumented", help="build directory of a component with a sanitizer")
    parser.addoption("--long", action="store_true", help="also long tests")
    parser.addoption(
        "--brief", action="store_true", help="no thorough tests, and two cases of each"
    )
    parser.addoption("--launchers", action="store_true", help="the tests of launchers, no others")


def pytest_configure(config):
    """Register the marks; let SIGTERM end the run as Ctrl-C does, so that labs are removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.addinivalue_line("markers", "long: runs only with --long")
    config.addinivalue_line("markers", "thorough: does not run with --brief")
    config.addinivalue_line("markers", "instrumented: runs with --instrumented, nothing else does")
    config.addinivalue_line("markers", "launchers: runs with --launchers, nothing else does")
    config.addinivalue_line("markers", f"raw: of raw frames alone; does not run with {KIND}=udp")


def pytest_collection_modifyitems(config, items):
    """Deselect tests that were not requested, instead of counting them as skipped."""
    others = ("instrumented", "launchers")

    def is_wanted(item):
        return (
            (config.getoption("--long") or not item.get_closest_marker("long"))
            and not (config.getoption("--brief") and item.get_closest_marker("thorough"))
            and not (OVER_UDP and item.get_closest_marker("raw"))
            and all(
                bool(config.getoption(name)) == (item.get_closest_marker(name) is not None)
                for name in others
            )
        )

    wanted = [item for item in items if is_wanted(item)]
    if config.getoption("--brief"):
        wanted = first_and_last(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = wanted


def first_and_last(items):
    """Return the items without those between a parametrized test's first case and its last."""
    cases = {}
    for item in items:
        cases.setdefault((item.path, item.originalname), []).append(item)
    return [item for group in cases.values() for item in dict.fromkeys((group[0], group[-1]))]


@pytest.fixture
def make_lab(request):
    """A function that brings up a lab, which is removed after the test."""
    labs = []

    def make(**options):
        lab = rawelab.Lab(build=request.config.getoption("--build"), **options).up()
        labs.append(lab)
        return lab

    yield make
    for lab in labs:
        lab.down()


@pytest.fixture(scope="session")
def build(request):
    """The build directory; it must hold the component."""
    directory = Path(request.config.getoption("--build"))
    launch.component_path(directory)
    return directory


@pytest.fixture(scope="session")
def instrumented(request):
    """The build directory of a component with a sanitizer."""
    directory = Path(request.config.getoption("--instrumented"))
    launch.component_path(directory)
    return directory


def built(name, path):
    """Return a fixture: the path of a program in the build directory."""

    @pytest.fixture(scope="session", name=name)
    def find_program(request):
        program = Path(request.config.getoption("--build")) / path
        assert program.exists(), f"{program} is missing: build first, test/run does"
        return program

    return find_program


verify = built("verify", "test/lab/verify/rawe-verify")
watch = built("watch", "test/lab/watch/rawe-watch")
ping = built("ping", "tools/rawe-ping")
info = built("info", "tools/rawe-info")


def compiled(name, *others):
    """Return a fixture: the path of an MPI program, compiled from NAME.c and others here."""

    @pytest.fixture(scope="session", name=name)
    def compile_program(tmp_path_factory):
        program = tmp_path_factory.mktemp(name) / name
        sources = [HERE / f"{one}.c" for one in (name, *others)]
        subprocess.run(["mpicc", "-O1", "-o", program, *sources], check=True)
        return program

    return compile_program


bcasts = compiled("bcasts", "reductions")
away, exchange, leaves, lives, pulled, shrinks = map(
    compiled, ("away", "exchange", "leaves", "lives", "pulled", "shrinks")
)


def load_program(name):
    """Return a Python program of tools/ as a module."""
    loader = importlib.machinery.SourceFileLoader(
        name.replace("-", "_"), str(ROOT / "tools" / name)
    )
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses look their module up there
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def wait_until(condition, what):
    """Wait until a condition, named `what`, holds; fail if it never does."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {HANG_SECONDS} s"
        time.sleep(0.05)


def show(result):
    """Return the output of a run of mpirun, for use as an assertion's message."""
    return f"status {result.returncode}\n{result.output[-4000:]}\n{result.errors[-4000:]}"


def assert_clean_end(result):
    """Assert that the run ended by itself, before its timeout, and left no processes behind."""
    assert not result.timed_out, f"hung\n{show(result)}"
    assert not result.leftover, f"processes {result.leftover} stayed\n{show(result)}"


def assert_success(result):
    """Assert that the run succeeded and left no processes behind."""
    assert_clean_end(result)
    assert result.returncode == 0, show(result)


def run_job(lab, ranks, *words, btls=RAWE, timeout=HANG_SECONDS, build=None, **options):
    """Run a job, by default over rawe; it must succeed. Return its MpiResult."""
    arguments = ["-np", ranks, *btls, *words]
    result = lab.mpirun(arguments, timeout=timeout, build=build or lab.build, **options)
    assert_success(result)
    return result


def run_verify(lab, ranks, *words, **options):
    """Run a job of rawe-verify, which must complete all checks; return its MpiResult."""
    result = run_job(lab, ranks, *words, **options)
    assert "checks, OK" in result.output, show(result)
    return result


def reports(text):
    """Return the reports of btl_rawe_stats: {(rank, interface): Counter of the counters}."""
    found = {}
    pattern = r"rawe: host \S+ rank (\d+) interface (\S+): (.*)"
    for rank, interface, rest in re.findall(pattern, text):
        counters = found.setdefault((int(rank), interface), Counter())
        for name, value in re.findall(r"(\w+)=(\d+)", rest):
            counters[name] += int(value)
    return found


def counted(result, *names):
    """Return the sum of these counters over all ranks and interfaces."""
    every = reports(result.errors).values()
    assert every, f"no report\n{show(result)}"
    return sum(counters[name] for counters in every for name in names)


def until_told(attempt, tries=4):
    """Repeat an attempt until its result contains a help message of rawe; return that result.

    Open MPI 4.1.4 sometimes loses a rank's help message, with btl/tcp too: mpirun prints "Data
    unpack ... show_help.c", or nothing.
    """
    for _ in range(tries):
        result = attempt()
        if help_messages(result):
            break
    return result


def help_messages(result):
    """Return the help messages of the rawe BTL: the texts between two dashed lines.

    A process that cannot pass a message to mpirun puts its name before the first line."""
    blocks, current = [], None
    for line in (result.errors + result.output).splitlines():
        dashes = re.sub(r"^\[[^]]*:\d+\] ", "", line)
        if len(dashes) > 60 and set(dashes) == {"-"}:
            if current is None:
                current = []
            else:
                blocks.append("\n".join(current))
                current = None
        elif current is not None:
            current.append(line)
    return [block for block in blocks if "rawe BTL" in block]


def assert_one_message(result, *words):
    """Assert that exactly one message of the rawe BTL was shown, and that it has all the words."""
    messages = help_messages(result)
    assert len(messages) == 1, f"{len(messages)} messages of the rawe BTL\n{show(result)}"
    for word in words:
        assert word in messages[0], f"{word!r} is not in this message:\n{messages[0]}"


# ---- running jobs ----


def assert_failure(result):
    """Assert that the job failed by itself, before its timeout, and left no processes behind."""
    assert_clean_end(result)
    assert result.returncode != 0, show(result)


# The start of a program that makes frames; receivers drop those with a wrong checksum.
SEAL = f"""
import sys
sys.path.insert(0, {str(HERE.parent)!r})
from rawelab.capture import crc32c, seal
"""
# The start of a program that runs on a host as root: `frame` is a frame that the job has sent from
# this host, and `ours` is a packet socket.
HEAR = """
import os, signal, socket, struct, sys
ours = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ours.bind(("eth0", 3))
me = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
while True:
    frame = ours.recv(2000)
    if frame[6:12] == me and frame[12:14] == bytes([0x88, 0xB5]) and frame[14] & 15 in (1, 2, 3):
        break
"""


class Job:
    """A running mpirun whose output is read as it arrives."""

    def __init__(self, lab, arguments, build=None, **options):
        self.lab = lab
        options = {"build": build or lab.build, **launch.PIPES, **options}
        self.process = lab.start_mpirun(arguments, **options)
        self.output, self.errors = [], []
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=one, daemon=True)
            for one in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._news:
                lines.append(line)
                self._news.notify_all()

    def said(self):
        """Return the job's output so far, for use as an assertion's message."""
        return "".join(self.output + self.errors)

    def told_pids(self):
        """Return the process ids that the job's ranks have printed."""
        found = re.findall(r"rank (\d+) pid (\d+)", "".join(self.output))
        return {int(rank): int(pid) for rank, pid in found}

    def wait_for(self, text, count=1):
        """Wait until `count` lines of the output contain `text`."""
        self.wait_until(lambda lines: sum(text in line for line in lines) >= count, f"{text!r}")

    def wait_until(self, condition, what):
        """Wait until a condition, named `what`, holds for the lines of the output."""
        deadline = time.monotonic() + HANG_SECONDS
        with self._news:
            while not condition(self.output):
                left = deadline - time.monotonic()
                assert left > 0, f"no {what} within {HANG_SECONDS} s\n{self.said()}"
                assert self._readers[0].is_alive(), f"ended without {what}\n{self.said()}"
                self._news.wait(min(left, 0.5))

    def finish(self, timeout=HANG_SECONDS):
        """Wait until mpirun ends, or kill it after `timeout`; return its MpiResult."""
        timed_out = False
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.lab.kill_processes()
            self.process.wait()
        for reader in self._readers:
            reader.join(HANG_SECONDS)
        leftover = launch.settle(self.lab)
        status = launch.TIMEOUT_STATUS if timed_out else launch.exit_status(self.process.returncode)
        return launch.MpiResult(
            status, "".join(self.output), "".join(self.errors), timed_out, leftover
        )


class EndlessJob(Job):
    """An endless job over rawe whose ranks have exchanged messages."""

    def __init__(self, lab, exchange, ranks=4, arguments=(), salt=0):
        super().__init__(lab, ["-np", ranks, *RAWE, *arguments, exchange, "rounds", -1, salt])
        self.wait_for("works", ranks)
        self.pids = self.told_pids()

    def end(self):
        """Wait until the job fails, leaving nothing behind; return its MpiResult."""
        result = self.finish()
        assert_failure(result)
        shared = [file.name for file in Path("/dev/shm").iterdir() if self.lab.name in file.name]
        assert not shared
        return result


class UntilJob(Job):
    """A job whose ranks exchange messages until end() creates a file."""

    def __init__(
        self, lab, exchange, *words, ranks=2, btls=RAWE, build=None, place=None, **options
    ):
        self.end_file = Path(place or lab.directory) / "end"
        words = ["-np", ranks, *btls, *words, exchange, "until", self.end_file]
        super().__init__(lab, words, build, **options)
        self.wait_for("works", ranks)

    def end(self):
        """End the job, which must succeed; return its MpiResult."""
        self.end_file.touch()
        result = self.finish()
        assert_success(result)
        return result


# ---- users without privileges ----

NOBODY = 65534
COMPONENT_SOURCES = ROOT / "opal/mca/btl/rawe"


def as_user(user, *groups):
    """Return a command with which root becomes this user, with these groups (the first primary)."""
    others = f"--groups={','.join(map(str, groups[1:]))}" if groups[1:] else "--clear-groups"
    return ("setpriv", f"--reuid={user}", f"--regid={groups[0]}", others, "--inh-caps=-all")


USER = as_user(NOBODY, NOBODY)


@contextmanager
def public_place(build, verify):
    """A directory readable by every user, with components, program and a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="rawe-place-", dir="/tmp"))
    try:
        for libs in (launch.COMPONENT, launch.COLLECTIVES):
            (directory / libs).mkdir(parents=True)
            for component in (build / libs).glob("mca_*.so"):
                shutil.copy(component, directory / libs)
        shutil.copy(verify, directory)
        for path in (directory, *directory.rglob("*")):
            path.chmod(0o755)
        (directory / "tmp").mkdir()
        (directory / "tmp").chmod(0o1777)
        yield directory
    finally:
        shutil.rmtree(directory)


def put_program(place, program):
    """Copy a program to a public directory; return its path there."""
    copy = place / program.name
    shutil.copy(program, copy)
    copy.chmod(0o755)
    return copy


def give_capability(program):
    """Let nobody's group run a program with CAP_NET_RAW, as described in doc/security.md."""
    shutil.chown(program, "root", NOBODY)
    program.chmod(0o750)
    done = subprocess.run(["setcap", "cap_net_raw=ep", program], check=False)
    if done.returncode != 0:
        pytest.skip("this machine does not let a file have capabilities")


RAISE = ("--inh-caps", "+net_raw", "--ambient-caps", "+net_raw")


def put_starter(place):
    """Copy the starter program of doc/security.md to a public directory; return its command."""
    starter = place / "rawe-setpriv"
    shutil.copy(shutil.which("setpriv"), starter)
    give_capability(starter)
    return (starter, *RAISE)


def write_agent(place, *command):
    """Write the program that mpirun calls instead of ssh, so that `command`, such as setpriv, runs
    the daemons and ranks; return the variables that name it."""
    agent = place / "agent"
    agent.write_text(
        f'#!/bin/sh\nhost=$1\nshift\nexec "$RAWE_LAB_DIR/enter-host" "rawe-$host" "$host" '
        f'"$RAWE_LAB_DIR/hosts" {" ".join(map(str, command))} sh -c "$*"\n',
        encoding="utf-8",
    )
    agent.chmod(0o755)
    return {name: str(agent) for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")}


def build_helper(directory, *more):
    """Build rawe-socket-helper with its access list, `helper.conf`, in this directory."""
    program = directory / "rawe-socket-helper"
    names = ("packet/rawe_filter", "sys/rawe_shared")
    sources = [COMPONENT_SOURCES / f"linux/{name}.c" for name in names]
    command = ["cc", "-std=gnu11", "-O2", f"-I{COMPONENT_SOURCES}"]
    command += [f'-DRAWE_HELPER_LIST="{directory}/helper.conf"', "-o", program]
    subprocess.run([*command, ROOT / "tools/rawe-socket-helper.c", *sources, *more], check=True)
    return program


def variables(place, **others):
    """Return the environment of a user's job, which writes only inside the public directory."""
    names = ("HOME", "TMPDIR", "OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
    return {**{name: str(place / "tmp") for name in names}, **others}


def run_as_user(lab, place, *starter, user=USER, **others):
    """Run two ranks on one host, which communicate over lo."""
    program = [place / "rawe-verify", "--quick", "--scale", "0.1", "--only", "pt2pt"]
    return lab.mpirun(
        ["-np", 2, *RAWE, *starter, *program],
        timeout=HANG_SECONDS,
        build=place,
        prefix=user,
        variables=variables(place, **others),
    )
