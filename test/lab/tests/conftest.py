# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the lab's tests: options, labs, programs, assertions."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import rawelab  # noqa: E402  (the path has to be set first)
from rawelab import launch  # noqa: E402

ETHERTYPE = 0x88B5
RAWE = ("--mca", "btl", "rawe,self")
# Groups of rawe-verify that fail in Open MPI over any BTL: 4.1 cannot spawn over several hosts
# ("PML modex not found"), and PRRTE of 5.0.7 sometimes corrupts its memory when jobs connect ("PMIX
# ERROR ... pmix_server_dyn.c", then "double free" of prterun).
BEYOND_OPEN_MPI = "spawn" if launch.open_mpi()[0] < 5 else "spawn,connect"
HANG_SECONDS = 300  # ten times what anything here takes, unless the machine is very busy


def thorough(*values):
    """Return values of a parametrized test that --brief leaves out."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def pytest_addoption(parser):
    """The options that test/run passes on."""
    parser.addoption("--build", default=str(HERE.parents[2] / "build"), help="build directory")
    parser.addoption("--instrumented", help="build directory of a component with a sanitizer")
    parser.addoption("--long", action="store_true", help="also long tests")
    parser.addoption("--brief", action="store_true", help="no thorough tests")


def pytest_configure(config):
    """Register the marks; let SIGTERM end the run as Ctrl-C does, so that labs are removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.addinivalue_line("markers", "long: runs only with --long")
    config.addinivalue_line("markers", "thorough: does not run with --brief")
    config.addinivalue_line("markers", "instrumented: runs with --instrumented, nothing else does")


def pytest_collection_modifyitems(config, items):
    """Deselect tests that were not requested, instead of counting them as skipped."""
    instrumented = config.getoption("--instrumented") is not None

    def is_wanted(item):
        return (
            (config.getoption("--long") or not item.get_closest_marker("long"))
            and not (config.getoption("--brief") and item.get_closest_marker("thorough"))
            and instrumented == (item.get_closest_marker("instrumented") is not None)
        )

    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = [item for item in items if is_wanted(item)]


@pytest.fixture
def make_lab(request):
    """A function that brings up a lab; the lab is removed after the test."""
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


@pytest.fixture(scope="session")
def verify(request):
    """The path of rawe-verify, the MPI program that checks every byte."""
    program = Path(request.config.getoption("--build")) / "test/lab/verify/rawe-verify"
    assert program.exists(), f"{program} is missing: build first, test/run does"
    return program


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
away, bursts, contacts, endless, leaves, lives, numbered, pulled, shrinks, survivors = map(
    compiled,
    (
        "away",
        "bursts",
        "contacts",
        "endless",
        "leaves",
        "lives",
        "numbered",
        "pulled",
        "shrinks",
        "survivors",
    ),
)


def wait_until(condition, what):
    """Wait until a condition, named `what`, holds; fail if it never does."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {HANG_SECONDS} s"
        time.sleep(0.05)


def show(result):
    """Return the output of a run of mpirun for the message of an assertion."""
    return f"status {result.returncode}\n{result.output[-4000:]}\n{result.errors[-4000:]}"


def assert_clean_end(result):
    """The run ended without being stopped and left no process."""
    assert not result.timed_out, f"hung\n{show(result)}"
    assert not result.leftover, f"processes {result.leftover} stayed\n{show(result)}"


def assert_success(result):
    """The run succeeded, and left no process."""
    assert_clean_end(result)
    assert result.returncode == 0, show(result)


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
    """Exactly one message of the rawe BTL was shown, and it contains all the words."""
    messages = help_messages(result)
    assert len(messages) == 1, f"{len(messages)} messages of the rawe BTL\n{show(result)}"
    for word in words:
        assert word in messages[0], f"{word!r} is not in this message:\n{messages[0]}"
