# SPDX-License-Identifier: BSD-3-Clause
"""Tests of cli.py with a made-up driver and places without mpirun."""

import contextlib
import errno
import os

import pytest
from fakes import Place, options_of, transport_of

from benchlib import cli, session
from benchlib.driver import Driver
from benchlib.journal import Journal
from benchlib.places import Outcome
from benchlib.program import Case, Run
from benchlib.transports import arguments, order
from rawelab import LabError


class Toy(Driver):
    """Reads a number on two hosts and on four."""

    def plan(self, options, interface):
        return [
            Run(number, name, case, ((*arguments(name), "toy"),))
            for case in options.cases
            for number in range(1, options.rounds + 1)
            for name in order(options.transports, number)
        ]

    def read(self, run, outcome, earlier):
        return float(outcome.output)


class World:
    """Notes which hosts were brought up, and what ran."""

    def __init__(self, stop_at=0):
        self.entered, self.asked, self.stop_at = [], [], stop_at

    def answer(self, words):
        if self.stop_at == len(self.asked) + 1:
            raise cli.interrupts.Interrupted(2)
        self.asked.append(transport_of(words))
        return Outcome(0, "1\n", "", 10.0)

    def place_of(self, _, hosts):
        world = self

        class Hosts(contextlib.AbstractContextManager):
            interface = None

            def __enter__(self):
                world.entered.append(hosts)
                return Place(world.answer)

            def __exit__(self, *_):
                return None

        return Hosts()


def measure(monkeypatch, directory, world, hosts=(2,)):
    """cli._measure() in a directory; the Record of three rounds."""
    cases = [Case("toy", "", number, number, "Toy") for number in hosts]
    options = options_of(cases=cases, rounds=3)
    monkeypatch.setattr(cli, "place_of", world.place_of)
    journal, record = Journal(directory), session.Record()
    journal.create({})
    cli._measure(Toy(), options, journal, record)
    return record


@pytest.mark.parametrize("hosts", [(2,), (2, 4)])
def test_measure__brings_hosts_up_once_for_all_rounds_on_them(monkeypatch, tmp_path, hosts):
    world = World()
    record = measure(monkeypatch, tmp_path, world, hosts)
    assert [one.run.round for one in record.done] == [1, 1, 2, 2, 3, 3] * len(hosts)
    assert world.entered == list(hosts)
    assert world.asked == ["tcp", "rawe", "rawe", "tcp", "tcp", "rawe"] * len(hosts)


class Ready(Toy):
    """A Toy that needs nothing."""

    name = "toy-runs"

    def finish(self, parser, options):
        options.cases, options.left_out = [Case("toy", "", 2, 2, "Toy")], []

    def prepare(self, options, say):
        return []


@pytest.fixture(name="compare")
def _compare(monkeypatch, tmp_path, capsys):
    """Runs compare where everything is there; a function that gives the status and what was said.
    `reports` is called in place of the report."""

    def call(world, *argv, reports=lambda *_: None):
        monkeypatch.setattr(cli, "place_of", world.place_of)
        monkeypatch.setattr(cli.prepare, "make_ready", lambda *_: {})
        monkeypatch.setattr(cli.interrupts, "install", lambda: None)
        monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
        monkeypatch.setattr(cli, "_about", lambda *_: None)
        monkeypatch.setattr(cli, "_report", reports)
        status = cli.main(Ready(), list(argv) or ["--output", str(tmp_path / "out")])
        return status, capsys.readouterr()

    return call


def fails(error):
    """A function that raises this, whatever it is called with."""

    def fail(*_):
        raise error

    return fail


def test_main__a_full_disk_is_said_and_how_to_continue(compare, monkeypatch, tmp_path):
    add, added = Journal.add, []

    def fill(*arguments):
        if added:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        added.append(arguments)
        return add(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", fill)
        status, said = compare(World())
    again = f"bench/toy-runs/compare --resume {tmp_path / 'out'}"
    assert status == 2 and "compare: [Errno 28] No space left" in said.err and again in said.err
    world = World()
    status, said = compare(world, "--resume", str(tmp_path / "out"))
    assert status == 0 and len(world.asked) == 2 * 5 - 1


def test_main__hosts_that_do_not_come_up_later_keep_what_was_measured(compare, tmp_path):
    class Later(World):
        def answer(self, words):
            if len(self.asked) == 3:
                raise LabError("no host")
            return super().answer(words)

    status, said = compare(Later())
    assert status == 2 and "compare: no host" in said.err
    assert f"--resume {tmp_path / 'out'}" in said.err


def test_main__interrupted_while_it_reports(compare, tmp_path):
    status, said = compare(World(), reports=fails(cli.interrupts.Interrupted(2)))
    assert status == 130 and f"--resume {tmp_path / 'out'}" in said.err


def test_main__virtual_hosts_need_root_before_anything_is_built(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli.interrupts, "install", lambda: None)
    monkeypatch.setattr(cli.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cli.prepare, "make_ready", fails(AssertionError("it builds")))
    assert cli.main(Ready(), ["--output", str(tmp_path / "out")]) == 2
    assert "need root" in capsys.readouterr().err and not (tmp_path / "out").exists()
