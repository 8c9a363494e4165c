# SPDX-License-Identifier: BSD-3-Clause
"""Commands inside a virtual machine, as seen by the host."""

import json
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from rawelab.command import LabError

sys.path.append(str(Path(__file__).resolve().parents[1] / "guest"))

import channel  # noqa: E402  (the path has to be set first)


@dataclass
class Result:
    """The outcome of a command."""

    returncode: int
    output: str
    errors: str


class Job:
    """A command that was started in a machine."""

    def __init__(self, agent, number, name):
        self._agent = agent
        self._number = number
        self._name = name
        self._pieces = {channel.OUT: [], channel.ERR: []}
        self._end = None
        self._changed = threading.Condition()

    def take(self, kind, payload):
        """Take a message of this job; a kind of None means that the machine has ended."""
        with self._changed:
            if kind in self._pieces:
                self._pieces[kind].append(payload)
            elif self._end is None:
                gone = {"error": "the machine has gone"}
                self._end = json.loads(payload) if kind == channel.EXIT else gone
            self._changed.notify_all()

    def _text(self, kind):
        return b"".join(self._pieces[kind]).decode(errors="replace")

    @property
    def output(self):
        """The command's standard output so far."""
        with self._changed:
            return self._text(channel.OUT)

    @property
    def errors(self):
        """The command's standard error so far."""
        with self._changed:
            return self._text(channel.ERR)

    @property
    def ended(self):
        """True once the command has ended."""
        return self._end is not None

    def wait_for(self, text, seconds):
        """Wait until it has written a text; raise LabError if it ends first or takes longer."""
        with self._changed:
            self._changed.wait_for(
                lambda: text in self._text(channel.OUT) or self._end is not None, seconds
            )
            if text not in self._text(channel.OUT):
                raise LabError(
                    f"{self._name}: no {text!r} within {seconds} seconds; it wrote:\n"
                    f"{self._text(channel.OUT)}{self._text(channel.ERR)}"
                )

    def signal(self, number):
        """Signal the command's process group."""
        self._agent.send(self._number, channel.SIGNAL, bytes([number]))

    def wait(self, seconds):
        """Return the command's Result, or None if it does not end in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None, seconds)
            if self._end is None:
                return None
            if "error" in self._end:
                raise LabError(f"{self._name}: {self._end['error']}")
            return Result(self._end["status"], self._text(channel.OUT), self._text(channel.ERR))


class Agent:
    """The agent of a machine, over the socket of its virtio port."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._lock = threading.Lock()
        self._jobs = {}
        threading.Thread(target=self._receive, daemon=True).start()

    def close(self):
        """End the connection; running jobs are lost."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # QEMU has closed it
        self._socket.close()

    def send(self, job, kind, payload):
        """Send a message."""
        with self._lock:
            try:
                self._socket.sendall(channel.encode(job, kind, payload))
            except OSError as error:
                raise LabError(f"the machine does not answer: {error}") from error

    def start(self, argv, environment, directory):
        """Start a command; return its Job."""
        argv = [str(word) for word in argv]
        number = len(self._jobs) + 1
        job = self._jobs[number] = Job(self, number, " ".join(argv))
        message = {"argv": argv, "env": environment, "cwd": str(directory)}
        self.send(number, channel.START, message)
        return job

    def _receive(self):
        while True:
            try:
                message = channel.read(self._socket.recv)
            except OSError:
                message = None
            if message is None:
                break
            number, kind, payload = message
            self._jobs[number].take(kind, payload)
        for job in list(self._jobs.values()):
            job.take(None, None)
