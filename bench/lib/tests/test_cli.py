# SPDX-License-Identifier: BSD-3-Clause
"""Tests of cli.py's rounds with a made-up driver, places without mpirun, and a made-up clock."""

import contextlib
import errno
import os
from types import SimpleNamespace

import pytest
from fakes import Place, options_of, transport_of

from benchlib import cli, session
from benchlib.driver import Driver
from benchlib.journal import Journal
from benchlib.places import Outcome
from benchlib.plan import Case, Run
from benchlib.transports import arguments, order
from rawelab import LabError

RUN_SECONDS = 10.0
ORDER = (("tcp", "rawe"), ("rawe", "tcp"))


class Toy(Driver):
    """Reads a number on two hosts and on four; narrow once there are `enough` rounds."""

    def __init__(self, enough):
        self.enough = enough

    def plan(self, options, interface):
        return [
            Run(number, name, case, ((*arguments(name), "toy"),))
            for case in options.cases
            for number in range(1, options.rounds + 1)
            for name in order(options.transports, number)
        ]

    def read(self, run, outcome, earlier):
        return float(outcome.output)

    def wide(self, done, about):
        assert (about["transports"], about["base"]) == (["tcp", "rawe"], "tcp")
        return [] if max(one.run.round for one in done) >= self.enough else ["Toy at 1 KiB"]


class World:
    """Runs take RUN_SECONDS; notes which hosts were brought up, and what ran."""

    def __init__(self, stop_at=0):
        self.now, self.entered, self.asked, self.stop_at = 0.0, [], [], stop_at

    def answer(self, words):
        if self.stop_at == len(self.asked) + 1:
            raise cli.interrupts.Interrupted(2)
        self.asked.append(transport_of(words))
        self.now += RUN_SECONDS
        return Outcome(0, "1\n", "", RUN_SECONDS)

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


def measure(monkeypatch, directory, world, enough, hosts=(2,), **changes):
    """cli._measure() in a directory; options and Record."""
    cases = [Case("toy", "", number, number, "Toy") for number in hosts]
    options = options_of(**{"cases": cases, "minutes": None, **changes})
    monkeypatch.setattr(cli, "place_of", world.place_of)
    monkeypatch.setattr(cli, "time", SimpleNamespace(monotonic=lambda: world.now))
    journal, record = Journal(directory), session.Record()
    if not (directory / "setup.json").exists():
        journal.create({})
    cli._measure(Toy(enough), options, journal, record)
    return options, record


def test_measure__without_minutes_makes_all_rounds(monkeypatch, tmp_path):
    options, record = measure(monkeypatch, tmp_path, World(), 9, rounds=3)
    assert options.rounds == 3 and [one.run.round for one in record.done] == [1, 1, 2, 2, 3, 3]


def test_measure__on_other_hosts_after_all_rounds_on_the_first(monkeypatch, tmp_path):
    world = World()
    measure(monkeypatch, tmp_path, world, 9, hosts=(2, 4), rounds=3)
    assert world.entered == [2, 4]


@pytest.mark.parametrize(
    "enough, minutes, least, rounds",
    [
        (7, 100, 5, 7),  # until intervals are narrow
        (1, 100, 5, 5),  # but not before there are rounds enough for an interval
        (99, 2, 5, 6),  # six rounds of 20 s in 2 min
        (99, 2.2, 5, 6),  # a seventh would not end in time
        (99, 0.1, 5, 1),  # one round at least
    ],
)
def test_measure__minutes_end_when_narrow_or_over(
    monkeypatch, tmp_path, enough, minutes, least, rounds
):
    world = World()
    changes = {"rounds": least, "minutes": minutes}
    options, record = measure(monkeypatch, tmp_path, world, enough, **changes)
    assert options.rounds == rounds == max(one.run.round for one in record.done)
    assert len(record.done) == record.planned == 2 * rounds
    assert world.entered == [2], "hosts are brought up once"
    assert world.asked == [name for one in range(rounds) for name in ORDER[one % 2]]


def test_measure__minutes_continue_where_they_were_interrupted(monkeypatch, tmp_path):
    changes = {"rounds": 5, "minutes": 100}
    _, record = measure(monkeypatch, tmp_path, World(stop_at=10), 6, **changes)
    assert record.interrupted and len(record.done) == 9
    world = World()
    options, record = measure(monkeypatch, tmp_path, world, 6, **changes)
    assert options.rounds == 6 and len(record.done) == 12 and len(world.asked) == 3


def test_measure__minutes_count_what_was_measured_before(monkeypatch, tmp_path):
    changes = {"rounds": 5, "minutes": 2}
    measure(monkeypatch, tmp_path, World(stop_at=10), 99, **changes)
    options, _ = measure(monkeypatch, tmp_path, World(), 99, **changes)
    assert options.rounds == 6


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
        status = cli.main(Ready(9), list(argv) or ["--output", str(tmp_path / "out")])
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
    assert cli.main(Ready(9), ["--output", str(tmp_path / "out")]) == 2
    assert "need root" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_width_text__names_what_is_not_narrow():
    assert "every interval is within 5%" in cli.width_text([], 7)
    lines = cli.width_text(["Toy: 1 KiB", "Toy: 4 KiB"], 7).splitlines()
    assert lines[1:] == ["  Toy: 1 KiB", "  Toy: 4 KiB"]
