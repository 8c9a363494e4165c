# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the tests on virtual machines: clusters, programs, assertions."""

import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "lab")]

import rawevm  # noqa: E402  (the path has to be set first)

from rawelab import launch  # noqa: E402

RAWE = ("--mca", "btl", "rawe,self", "--mca", "btl_rawe_stats", "1")
JOB_SECONDS = 400  # a job that takes longer hangs; machines emulated on a busy host are slow
ROUND_SECONDS = 120
GROUPS = "pt2pt,outstanding,late,random"  # of rawe-verify: both directions, all sizes and lanes
NOTES = pytest.StashKey()


def pytest_addoption(parser):
    """Add the options that test/run passes on."""
    parser.addoption("--build", default=str(HERE.parents[2] / "build"), help="build directory")


def pytest_configure(config):
    """Let SIGTERM end the run as Ctrl-C does, so that machines are ended."""
    del config
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Sort the tests of a file so that those that can share machines are consecutive."""

    def shape(item):
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        kernel, nic = parameters.get("kernel", ""), parameters.get("nic", "")
        return item.path, "fresh_cluster_of" in item.fixturenames, kernel, nic

    items.sort(key=shape)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Record for the fixtures whether a test failed."""
    outcome = yield
    if call.when == "call":
        item.has_failed = outcome.get_result().failed


@pytest.fixture
def note(request):
    """A function that adds a line to the final report of the run."""

    def add(text):
        request.config.stash.setdefault(NOTES, []).append(f"{request.node.name}: {text}")

    return add


def pytest_terminal_summary(terminalreporter, config):
    """Show the lines that tests have added."""
    for line in config.stash.get(NOTES, []):
        terminalreporter.write_line(line)


class _Pool:
    """The only cluster that is up; tests that need its shape share it."""

    def __init__(self):
        self.shape = None
        self.cluster = None

    def get(self, **shape):
        """Return a cluster of this shape."""
        if self.cluster is None or self.shape != shape:
            self.drop()
            self.cluster = rawevm.Cluster(**shape).up()
            self.shape = shape
        return self.cluster

    def drop(self):
        """End the machines."""
        if self.cluster is not None:
            self.cluster.down()
        self.cluster = None


@pytest.fixture(scope="session")
def pool():
    pool = _Pool()
    yield pool
    pool.drop()


@pytest.fixture
def cluster_of(request, pool, build, verify, steady):
    """A function that returns a cluster of a shape; tests must undo their changes to machines.

    Machines of a failed test are ended. Programs are built first, because machines may not see
    files that the host changes after their start.
    """
    del build, verify, steady
    yield pool.get
    if getattr(request.node, "has_failed", True):
        pool.drop()


@pytest.fixture
def fresh_cluster_of(cluster_of, pool):
    """Like cluster_of, but for tests that do not undo their changes: it ends the machines."""
    pool.drop()
    yield cluster_of
    pool.drop()


@pytest.fixture(scope="session")
def build(request):
    """The build directory; it must hold the component."""
    directory = Path(request.config.getoption("--build")).resolve()
    launch.component_path(directory)
    return directory


@pytest.fixture(scope="session")
def verify(build):
    """The path of rawe-verify, the MPI program that checks every byte."""
    program = build / "test/lab/verify/rawe-verify"
    assert program.exists(), f"{program} is missing: build first, test/run does"
    return program


@pytest.fixture(scope="session")
def steady(tmp_path_factory):
    """The path of an endless MPI program, see steady.c."""
    program = tmp_path_factory.mktemp("steady") / "steady"
    subprocess.run(["mpicc", "-O2", "-o", program, HERE / "steady.c"], check=True)
    return program


@contextmanager
def on_all(cluster, before, after):
    """Run a script on all machines, and another one at the end."""
    for host in cluster.hosts:
        host.shell(before)
    try:
        yield
    finally:
        for host in cluster.hosts:
            host.shell(after)


def show(result):
    """Return the output of a run of mpirun for the message of an assertion."""
    return f"status {result.returncode}\n{result.output[-4000:]}\n{result.errors[-4000:]}"


def counters(result, interface):
    """Return the counters of btl_rawe_stats for an interface, summed over all ranks."""
    total = Counter()
    for line in (result.errors + result.output).splitlines():
        found = re.search(r"rawe: host \S+ rank \d+ interface (\S+): (.*)", line)
        if found and found.group(1) == interface:
            for name, value in re.findall(r"(\w+)=(\d+)", found.group(2)):
                total[name] += int(value)
    return total


def help_messages(result):
    """Return the help messages of the rawe BTL: the texts between two dashed lines."""
    blocks = re.split(r"^-{60,}$", result.errors + result.output, flags=re.MULTILINE)
    return [block for block in blocks[1::2] if "rawe BTL" in block]


def assert_exact(cluster, build, verify, ranks=2, groups=GROUPS, devices=None):
    """Run rawe-verify over rawe, which shows no help message; return its Result."""
    words = ["-np", ranks, *RAWE, verify, "--quick", *(["--only", groups] if groups else [])]
    result = cluster.finish(cluster.start_mpirun(words, build, devices), JOB_SECONDS)
    assert result.returncode == 0, show(result)
    assert "OK" in result.output, show(result)
    assert not help_messages(result), show(result)
    return result


def assert_message(result, *words):
    """Assert that exactly one message of the rawe BTL was shown, and that it has all the words."""
    messages = help_messages(result)
    assert len(messages) == 1, f"{len(messages)} messages of the rawe BTL\n{show(result)}"
    for word in words:
        assert word in messages[0], f"{word!r} is not in this message:\n{messages[0]}"


@contextmanager
def silent_kernels(cluster):
    """Assert that the kernels' own IP sends nothing through eth0 in this context.

    Batches look like IP packets, but no kernel may answer them by a reset or by ICMP.
    """
    rules = (
        "nft -f - <<'END'\n"
        "table inet silence {\n"
        "  chain output {\n"
        "    type filter hook output priority 0; policy accept;\n"
        '    oifname "eth0" counter\n'
        "  }\n"
        "}\n"
        "END"
    )
    with on_all(cluster, rules, "nft delete table inet silence"):
        yield
        for host in cluster.hosts:
            listing = host.shell("nft list table inet silence").output
            assert "packets 0 " in listing, listing


class Steady:
    """A job of steady.c over rawe."""

    def __init__(self, cluster, build, steady, ranks=2, devices=None, arguments=()):
        self.cluster = cluster
        self.end_file = f"/tmp/end-{id(self)}"
        words = ["-np", ranks, *RAWE, *arguments, steady, self.end_file]
        self.job = cluster.start_mpirun(words, build, devices)
        self.goes_on()

    @property
    def rounds(self):
        """The number of completed rounds."""
        return self.job.output.count("round ")

    def goes_on(self):
        """Wait until the job has completed some more rounds."""
        self.job.wait_for(f"round {self.rounds + 3}\n", ROUND_SECONDS)

    def end(self):
        """End the job normally; return its Result, which must be a success."""
        self.cluster.hosts[0].shell(f"touch {self.end_file}")
        result = self.cluster.finish(self.job, JOB_SECONDS)
        assert result.returncode == 0, show(result)
        return result
