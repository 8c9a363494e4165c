# SPDX-License-Identifier: BSD-3-Clause
"""rawe-top shows the counters of running processes to their user and to root."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from conftest import (
    HANG_SECONDS,
    NOBODY,
    USER,
    EndlessJob,
    UntilJob,
    as_user,
    build_helper,
    give_capability,
    public_place,
    put_program,
    variables,
)
from test_counters import ENGINE, OTHERS

TOP = Path(__file__).resolve().parents[3] / "tools/rawe-top"
BY_TURNS = ("--map-by", "node")  # neighbors in the ring are on different hosts
SOON = ("--interval", "0.3")
HUGE = "9" * 400  # overflows a double


def look(lab, status=0, host=0, prefix=()):
    """Return its JSON output on a host, or its error message."""
    done = lab.run(host, [*prefix, TOP, "--json", *SOON], timeout=HANG_SECONDS)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def await_looks(lab, condition, prefix=()):
    """Run it until a condition holds for its output; return that output."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition(shown := look(lab, prefix=prefix)):
        assert time.monotonic() < deadline, shown
    return shown


def states(shown):
    """Return the states of all processes, sorted."""
    return sorted(one["state"] for one in shown["processes"])


def rank_of(shown, state):
    """Return the rank of the only process in this state."""
    (rank,) = (one["rank"] for one in shown["processes"] if one["state"] == state)
    return rank


def of(shown, name="eth0"):
    """Return the entries of an interface, in the order of the ranks."""
    return [
        one
        for process in shown["processes"]
        for one in process["interfaces"]
        if one["name"] == name
    ]


def moves(shown, name):
    """Return true if a counter grows in both processes."""
    return [one["per_second"][name] > 0 for one in of(shown)] == [True, True]


def test_json_shows_the_ranks_of_this_host(make_lab, exchange):
    lab = make_lab(hosts=2)
    job = EndlessJob(lab, exchange, ranks=4, arguments=BY_TURNS)
    first = await_looks(lab, lambda seen: moves(seen, "messages_sent"))
    assert first["host"] == lab.hosts[0].name and first["others"] == 0
    assert [(one["rank"], one["pid"]) for one in first["processes"]] == [
        (rank, job.pids[rank]) for rank in (0, 2)
    ]
    for process in first["processes"]:
        assert (process["state"], process["user"]) == ("ok", "root")
        assert process["command"] == exchange.name
    for one in of(first):
        names = set(one["counters"]) | set(one["watermarks"])
        assert (set(ENGINE) | OTHERS) <= names and "frames_unacked_most" in one["watermarks"]
        assert set(one["per_second"]) == set(one["counters"])
        assert one["counters"]["frames_resent"] <= one["counters"]["frames_sent"]
        trips = one["round_trips"]
        assert trips["count"] > 0 and 0 < trips["half_below_us"] <= trips["99_percent_below_us"]
    other = look(lab, host=1)
    assert [one["pid"] for one in other["processes"]] == [job.pids[rank] for rank in (1, 3)]

    lab.set_loss(5)
    second = await_looks(lab, lambda seen: moves(seen, "frames_resent"))
    for before, now in zip(of(first), of(second)):
        assert all(now["counters"][name] >= n for name, n in before["counters"].items())
    os.kill(job.pids[0], signal.SIGKILL)
    job.end()


def test_stopped_and_dead_processes(make_lab, exchange):
    lab = make_lab(hosts=1)
    job = EndlessJob(lab, exchange, ranks=2)
    os.kill(job.pids[1], signal.SIGSTOP)
    # On a busy machine, a process that answers late is also shown as silent.
    await_looks(lab, lambda seen: states(seen) == ["ok", "silent"] and rank_of(seen, "ok") == 0)
    os.kill(job.pids[1], signal.SIGCONT)
    await_looks(lab, lambda seen: states(seen) == ["ok", "ok"])
    os.kill(job.pids[0], signal.SIGKILL)
    job.end()
    assert "no process uses rawe" in look(lab, status=1)


def test_processes_are_shown_to_their_user_and_root(make_lab, build, verify, exchange):
    with public_place(build, verify) as place:
        helper = build_helper(place)
        give_capability(helper)
        (place / "helper.conf").write_text(f"group {NOBODY}\ninterface *\n", encoding="utf-8")
        program = put_program(place, exchange)
        lab = make_lab(hosts=1)
        environment = variables(place, OMPI_MCA_btl_rawe_helper=str(helper))
        options = {"build": place, "prefix": USER, "variables": environment}
        job = UntilJob(lab, program, place=place / "tmp", **options)
        for prefix in (USER, ()):
            shown = await_looks(lab, lambda seen: states(seen) == ["ok", "ok"], prefix)
            assert {one["user"] for one in shown["processes"]} == {"nobody"}
            assert shown["others"] == 0
        somebody = as_user(NOBODY - 1, NOBODY - 1)
        assert "2 processes of other users" in look(lab, status=1, prefix=somebody)
        job.end()


def hear_ctrl_c():
    """Reset SIGINT, which processes inherit as ignored from a shell's background job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """rawe-top on its own terminal."""

    def __init__(self, lab):
        self.ours, self.its = pty.openpty()
        self.settings = termios.tcgetattr(self.its)
        self.shown = ""
        self.process = subprocess.Popen(
            lab.host_command(0, [TOP, *SOON]),
            stdin=self.its,
            stdout=self.its,
            stderr=self.its,
            start_new_session=True,
            preexec_fn=hear_ctrl_c,
        )

    def read(self):
        """Read its output, waiting for a moment."""
        if select.select([self.ours], [], [], 0.1)[0]:
            self.shown += os.read(self.ours, 65536).decode()

    def wait_for(self, text):
        """Wait until its output contains this text."""
        deadline = time.monotonic() + HANG_SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline and self.process.poll() is None, self.shown
            self.read()

    def end(self):
        """Wait for its end, and assert that it restored the terminal; return its exit status."""
        deadline = time.monotonic() + HANG_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self.read()
        self.read()
        assert termios.tcgetattr(self.its) == self.settings
        assert self.shown.endswith("\033[?25h\033[?1049l")
        os.close(self.ours)
        os.close(self.its)
        return self.process.returncode


@pytest.fixture(name="lab")
def lab_with_a_job(make_lab, exchange):
    """A host with two running ranks."""
    lab = make_lab(hosts=1)
    job = UntilJob(lab, exchange)
    yield lab
    job.end()


@pytest.mark.parametrize("how", ["q", "Ctrl-C"])
def test_the_table_is_renewed_until_the_user_ends_it(lab, how):
    terminal = Terminal(lab)
    while terminal.shown.count("MB/s out") < 3:
        terminal.wait_for("MB/s out")
        terminal.read()
    assert re.search(r"\d+ root +exchange +0 lo +\d+\.\d\d ", terminal.shown), terminal.shown
    if how == "q":
        os.write(terminal.ours, b"q")
    else:
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0


def first_table(lab, *prefix):
    """Run it with a pipe that is closed after a table; return that table's two lines."""
    argv = lab.host_command(0, [*prefix, TOP, *SOON])
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True) as process:
        head, row = process.stdout.readline(), process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    return head, row


def test_without_a_terminal_it_writes_tables_while_somebody_reads(lab):
    head, row = first_table(lab)
    assert "MB/s out" in head and " exchange " in row and "\033" not in head + row


@pytest.mark.parametrize("words", [["--interval", "0"], ["--interval", "x"], ["eth0"]], ids=str)
def test_wrong_use(words):
    done = subprocess.run([TOP, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage: rawe-top" in done.stderr


@contextlib.contextmanager
def pretender(lab, answer, others=0):
    """A process that poses as a rank and gives this answer. It also listens under `others` more
    names, and does not answer there."""
    script = (
        "import socket, sys\n"
        "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:\n"
        "    listener.bind('\\0rawe-top-0123456789abcdef')\n"
        "    listener.listen()\n"
        "    silent = []\n"
        "    for number in range(int(sys.argv[2])):\n"
        "        silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))\n"
        "        silent[-1].bind(f'\\0rawe-top-1{number:015x}')\n"
        "        silent[-1].listen()\n"
        "    print(flush=True)\n"
        "    while True:\n"
        "        tool = listener.accept()[0]\n"
        "        tool.send(sys.argv[1].encode('latin-1'))\n"
        "        tool.close()\n"
    )
    argv = lab.host_command(0, ["python3", "-c", script, answer, others])
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "answer, state, names",
    [
        ("rawe-top 2\nrank 1\n", "other version", []),
        ("rawe-top 1\nbusy\n", "busy", []),
        ("rawe-top 1\nrank x\ncounter a 1\ninterface \033[2J\ncounter b 1\n", "ok", []),
        ("rawe-top 1\ninterface eth0\ncounter a -1\ncounter \033c 1\nround_trips 1\n", "ok", [{}]),
        ("rawe-top 1\ninterface eth0\ncounter ok 5\n\n \nmost\n\xff\n", "ok", [{"ok": 5}]),
        (f"rawe-top 1\nrank {'9' * 5000}\n", "ok", []),
        (f"rawe-top 1\ninterface a\ncounter b {HUGE}\nround_trips {HUGE} 1\n", "ok", [{}]),
    ],
    ids=["version", "busy", "escape", "numbers", "remains", "longer than Python reads", "float"],
)
def test_what_makes_no_sense_is_left_out(make_lab, answer, state, names):
    lab = make_lab(hosts=1)
    with pretender(lab, answer) as process:
        (one,) = await_looks(lab, lambda seen: states(seen) != ["silent"])["processes"]
    assert (one["state"], one["rank"]) == (state, None)
    assert one["pid"] == process.pid
    assert [interface["counters"] for interface in one["interfaces"]] == names


def test_more_names_than_descriptors_do_not_end_it(make_lab):
    lab = make_lab(hosts=1)
    with pretender(lab, "rawe-top 1\nrank 7\n", others=60) as process:
        shown = look(lab, prefix=("prlimit", "--nofile=40"))["processes"]
    assert len(shown) == 61
    assert [one["rank"] for one in shown if one["state"] == "ok"] == [7]
    assert {one["pid"] for one in shown if one["state"] == "ok"} == {process.pid}


def test_names_that_the_terminal_cannot_show(make_lab):
    lab = make_lab(hosts=1)
    with pretender(lab, "rawe-top 1\ninterface \xff\ncounter frames_sent 5\n"):
        head, row = first_table(lab, "env", "PYTHONIOENCODING=ascii")
    assert "IFACE" in head and " ? " in row
