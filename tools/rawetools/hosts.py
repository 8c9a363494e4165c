# SPDX-License-Identifier: BSD-3-Clause
"""Runs rawe-setup on several hosts, by a remote shell, and tests the paths between them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations

from . import system

RSH = "ssh -o BatchMode=yes"  # asks for no password: several run at a time
RSH_FAILED = 255  # exit status of ssh
NOT_FOUND = 127  # exit status of a shell
WRONG_USAGE = 2  # exit status of rawe-setup
PARALLEL = 8  # remote shells at a time; by default sshd refuses some of more than ten
HOST_SECONDS = 300  # limit for each host
PING_SECONDS = 60
JOB_SECONDS = 60
PAIRS_HOSTS = 8  # with more hosts, not each pair is tried over UDP
UDP_REMEDY = (
    "let UDP ports 32768 to 60767 pass in the firewalls of both hosts and between them, and have "
    "no addresses translated (NAT)"
)
PING_KEY = 0x72617765  # the first pair's; each has its own, so that only its listener answers
# Programs that measure half a round trip of 8 bytes, and where they print it, in microseconds.
PING_PONGS = {
    "IMB-MPI1": (("PingPong", "-msglog", "3:3"), r"^ +8 +\d+ +([\d.]+)"),
    "rawe-imb": (("PingPong", "-msglog", "3:3"), r"^ +8 +\d+ +([\d.]+)"),
    "osu_latency": (("-m", "8:8"), r"^8 +([\d.]+)"),
}
LOCAL = "localhost"
LOCAL_USE = "used between ranks of this host"  # in rawe-info's output
# Popen's options to read all output of a program.
OUTPUT = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
NOTHING_CHANGED = "Nothing has been changed"  # rawe-setup prints it if it only shows


class Failure(Exception):
    """Something could not be done; the text says what to do."""


@dataclass
class Remote:
    """A host of the host file, and the last run of rawe-setup there."""

    name: str
    status: int = None
    lines: list = field(default_factory=list)  # of its output
    trouble: list = field(default_factory=list)  # what to do about pings that failed
    detours: list = field(default_factory=list)  # where jobs use UDP, because only it passes
    listening: threading.Lock = field(default_factory=threading.Lock)  # one UDP port for all

    def interfaces(self, udp):
        """Return the names of the interfaces it would use for raw frames, or for UDP."""
        kind = "(?:raw frames, and )?UDP" if udp else "raw frames"
        pattern = rf"^\[ok\] +interface (\S+): {kind}\b"
        return re.findall(pattern, "\n".join(self.lines), re.MULTILINE)

    def unchanged(self):
        """Return True if it only showed what it would change."""
        return any(line.startswith(NOTHING_CHANGED) for line in self.lines)

    def judge(self, options):
        """Return the result, and what to do."""
        if self.status == NOT_FOUND:
            return "no rawe-setup", "install all of rawe there (make install), and Python 3"
        if self.status == RSH_FAILED:
            return "not reached", f"see why `{options.rsh} {self.name} true` fails"
        if self.status == WRONG_USAGE:
            return "another release", "install this release of rawe there"
        if self.status < 0:
            return "no end", f"ended after {HOST_SECONDS} s: run rawe-setup there by hand"
        remedies = [line.rpartition(": ")[2] for line in self.lines if line.startswith("[fail] ")]
        if self.status != 0:
            # It may not come last: ssh passes standard output and errors on separately.
            errors = [line for line in self.lines if line.startswith("rawe-setup: ")]
            remedies = remedies or errors or self.lines[-1:]
        remedies += self.trouble
        if remedies or self.status != 0:
            return "failed", "; ".join(dict.fromkeys(remedies))
        if self.unchanged():
            return "not changed", "--yes does it"
        return "ok", "; ".join(self.detours)


def read_hosts(path):
    """Return the hosts of an mpirun host file: the first word of each line, each host once."""
    lines = [line.partition("#")[0].split() for line in path.read_text("utf-8").splitlines()]
    names = list(dict.fromkeys(line[0] for line in lines if line))
    if not names:
        raise Failure(f"{path} names no host")
    for name in names:
        if name.startswith("-"):
            raise Failure(f"{path}: {name} is no host, but an option")
    return names


def remote_shell(options, name, script):
    """Return the command that runs a shell script on a host, with this process's parameters."""
    here = shlex.quote(system.program_folder())
    settings = [f"export PATH={here}:$PATH"]
    settings += [
        f"export {variable}={shlex.quote(value)}"
        for variable, value in os.environ.items()
        if re.fullmatch(r"OMPI_MCA_\w+", variable)
    ]
    # The user's own shell may not be a POSIX shell.
    return [*shlex.split(options.rsh), name, f"sh -c {shlex.quote('; '.join([*settings, script]))}"]


def say(name, text):
    """Print a text that other threads do not interrupt, with a name before each line."""
    sys.stdout.write("".join(f"{name}: {line}\n" for line in text.splitlines()))
    sys.stdout.flush()


@contextmanager
def started(argv, stdin):
    """Start a remote shell, which is ended after HOST_SECONDS: its host may have gone away."""
    with subprocess.Popen(argv, stdin=stdin, **OUTPUT) as process:
        timer = threading.Timer(HOST_SECONDS, process.kill)
        timer.start()
        try:
            yield process
            process.wait()
        finally:
            timer.cancel()


def run_there(options, remote, *words):
    """Run rawe-setup on a host, showing its output."""
    words = ["--no-ping-pong", "--group", options.group, *words]
    words += ["--rights", options.rights] if options.rights else []
    words += ["--undo"] if options.undo else []
    words += ["--dry-run"] if options.dry_run else []
    argv = remote_shell(options, remote.name, f"exec rawe-setup {shlex.join(words)}")
    remote.lines = []
    with started(argv, subprocess.DEVNULL) as process:
        for line in process.stdout:
            remote.lines.append(line.rstrip())
            say(remote.name, line)
    remote.status = process.returncode


def in_parallel(function, items):
    """Call a function with each item, several at a time; return the results in order."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(function, items))


def ask(options, key, asker, interface, address, udp):
    """Return the status and output of a rawe-ping from an interface of a host to an address."""
    words = ["rawe-ping", "-i", interface, "-k", f"{key:x}", "-c", "5", "-w", "2000", address]
    words += ["--udp"] if udp else []
    argv = remote_shell(options, asker.name, f"exec {shlex.join(words)}")
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, timeout=PING_SECONDS, check=False, **OUTPUT
        )
    except subprocess.TimeoutExpired:
        return 1, f"no end within {PING_SECONDS} s"
    return done.returncode, done.stdout


def ping(options, key, udp, asker, interface, answerer, other):
    """Let one host's interface ask another's, and print the result. Return it if it is bad."""
    listen = shlex.join(["-i", other, "-k", f"{key:x}", "-s", str(PING_SECONDS)])
    listen += " --udp" if udp else ""
    # A remote shell passes no signals on, but the end of its input, which ends the listener.
    watch = "exec 3<&0; { cat <&3; kill $$; } > /dev/null 2>&1 &"
    argv = remote_shell(options, answerer.name, f"{watch} exec rawe-ping --listen {listen}")
    name = f"{asker.name} {interface} to {answerer.name} {other}"
    status, said = 2, ""
    with answerer.listening, started(argv, subprocess.PIPE) as listener:
        for line in listener.stdout:
            if line.startswith(f"listening on {other},"):  # ssh may show a banner
                status, said = ask(options, key, asker, interface, line.split()[-1], udp)
                break
            said += line  # why it cannot listen
        listener.stdin.close()
        rest = listener.stdout.read()
    if listener.returncode < 0:
        said += f"{answerer.name}: no end within {HOST_SECONDS} s"
    if status == 0:
        mtu = re.search(r"MTU (\d+) passes", said).group(1)
        median = re.search(r"small frames.* median ([\d.]+)", said).group(1)
        kind = "UDP passes" if udp else "raw frames pass"
        say(name, f"{kind}, MTU {mtu}, round trip {median} us")
        return ""
    said += rest if "(NAT)" in rest else ""
    said = said or f"{answerer.name} does not listen"
    say(name, said)
    return said


def partners(ours, others):
    """Return pairs of interfaces: those with the same name, and the rest in their order."""
    ours_alone = [name for name in ours if name not in others]
    others_alone = [name for name in others if name not in ours]
    return [(name, name) for name in others if name in ours] + [*zip(ours_alone, others_alone)]


def ping_all(options, remotes):
    """Let hosts ping each other; note what fails, and what passes only over UDP.

    What reaches one host of a segment reaches all: for raw frames the first host and each of the
    others ask each other. Over UDP all pairs do, unless there are many hosts.
    """
    udp = options.rights == "none"
    able = [remote for remote in remotes if remote.interfaces(udp)]
    every = udp and len(able) <= PAIRS_HOSTS
    pairs = [
        (one, ours, remote, other)
        for one, remote in combinations(able, 2)
        if every or one is able[0]
        for ours, other in partners(one.interfaces(udp), remote.interfaces(udp))
    ]

    def ask_both(key, over_udp, one, ours, remote, other):
        # Each needs frames in both directions, so a second failure would add nothing.
        said = ping(options, key, over_udp, one, ours, remote, other)
        return said or ping(options, key, over_udp, remote, other, one, ours)

    def both_ways(numbered):
        number, (one, ours, remote, other) = numbered
        key = PING_KEY + number
        said = ask_both(key, udp, one, ours, remote, other)
        ends = f"between {one.name} {ours} and {remote.name} {other}"
        silent = "NO ANSWER" in said
        able_too = not udp and ours in one.interfaces(True) and other in remote.interfaces(True)
        if silent and able_too and not ask_both(key, True, one, ours, remote, other):
            remote.detours.append(f"raw frames do not cross {ends}: jobs use UDP there")
        elif udp and silent:
            remote.trouble += [f"UDP does not cross {ends}", UDP_REMEDY]
        elif said:
            what = f"see above what to check {ends}"
            remote.trouble.append(f"{what}, or exclude these (OMPI_MCA_btl_rawe_if_exclude)")

    in_parallel(both_ways, enumerate(pairs))
    for remote in remotes:  # the remedy for all its pairs comes last
        remote.trouble.sort(key=lambda text: text == UDP_REMEDY)


def measure(options, hosts, program, btl):
    """Return the time that a ping-pong over a BTL takes, or why there is none."""
    words, pattern = PING_PONGS[program]
    argv = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    if options.hosts:
        # The host file names the users, which --host may not.
        names = [host.rpartition("@")[2] for host in hosts]
        argv += ["--hostfile", str(options.hosts), "--host", ",".join(names), "--map-by", "node"]
    else:
        argv += ["--host", f"{LOCAL}:2"]
    argv += ["-np", "2", "--mca", "btl", f"{btl},self"]
    argv += ["--mca", "btl_rawe_kind", "udp"] if options.rights == "none" else []
    agents = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
    variables = {name: options.rsh for name in agents if options.rsh != RSH}
    try:
        done = subprocess.run(
            [*argv, shutil.which(program), *words],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {JOB_SECONDS} s"
    time = re.search(pattern, done.stdout, re.MULTILINE)
    if done.returncode == 0 and time:
        return f"{float(time.group(1)):.1f} us"
    sys.stdout.write(done.stderr)
    return "failed, see above"


def ping_pong(options, hosts):
    """Print the times of a ping-pong between two hosts, or ranks of this one, unless it is not
    wanted. Return False if rawe's failed."""
    if options.no_ping_pong:
        return True
    program = next((name for name in PING_PONGS if shutil.which(name)), None)
    if program is None or shutil.which("mpirun") is None:
        print(f"No ping-pong: mpirun, or {' or '.join(PING_PONGS)}, is not on PATH.")
        return True
    times = [(btl, measure(options, hosts, program, btl)) for btl in ("tcp", "rawe")]
    shown = ", ".join(f"{btl} {time}" for btl, time in times)
    where = f"between {' and '.join(hosts)}" if options.hosts else "between two ranks of this host"
    print(f"Half a round trip of 8 bytes {where}, by {program}: {shown}")
    return times[1][1].endswith("us")


def show_table(rows):
    """Print rows of words in columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip())


def run_on_all(options):
    """Do what the command line says on all hosts of the host file; return the exit status."""
    remotes = [Remote(name) for name in read_hosts(options.hosts)]
    in_parallel(lambda one: run_there(options, one, *(["--yes"] if options.yes else [])), remotes)
    shown = [remote for remote in remotes if remote.unchanged()]
    if shown and not (options.dry_run or options.yes) and sys.stdin.isatty():
        if input(f"Do this on {len(shown)} hosts? [y/N] ").lower() in ("y", "yes"):
            in_parallel(lambda one: run_there(options, one, "--yes"), shown)
    done = not any(remote.unchanged() for remote in remotes)
    if done and not options.undo:
        ping_all(options, remotes)
    rows = [(remote.name, *remote.judge(options)) for remote in remotes]
    print()
    show_table([("host", "result", "what to do"), *rows])
    good = all(result in ("ok", "not changed") for _, result, _ in rows)
    ready = [name for name, result, _ in rows if result == "ok"]
    if done and not options.undo and len(ready) > 1:
        good &= ping_pong(options, ready[:2])
    return 0 if good else 1
