# SPDX-License-Identifier: BSD-3-Clause
"""Tests of session.py and cli.py with an invented driver and places without mpirun: failures,
interruption, resuming."""

import contextlib
import errno
import os
from pathlib import Path

import pytest
from fakes import Place, execute, options_of, transport_of

from benchlib import BenchError, cli, session
from benchlib.driver import Case, Driver, Run
from benchlib.places import Outcome
from benchlib.session import Journal
from benchlib.transports import RAW, arguments, order
from rawelab import LabError

CASE = Case("speed", "", 2, 2, "Speed")


class Toy(Driver):
    """Reads a number."""

    def plan(self, options, interface):
        return [
            Run(number, name, case, ((*arguments(name), "toy"),))
            for case in options.cases
            for number in range(1, options.rounds + 1)
            for name in order(options.transports, number)
        ]

    def read(self, run, outcome, earlier):
        if not outcome.output.strip():
            raise BenchError("the output holds no values")
        return float(outcome.output)


def run(options, answer, directory):
    options.cases = [CASE]
    return execute(Toy(), options, answer, directory)


def good(words):
    return Outcome(0, "2\n" if transport_of(words) == "rawe" else "4\n", "", 0.1)


def values(record, transport):
    return [one.result for one in record.done if one.run.transport == transport]


def test_execute__a_transport_that_fails_twice_is_left_out(tmp_path):
    def answer(words):
        if transport_of(words) == "rawe":
            return Outcome(1, "", "------\nno route\n[h:1] *** MPI_ERR_INTERN\n", 0.1)
        return good(words)

    record, place = run(options_of(rounds=4), answer, tmp_path)
    assert len(record.failures) == session.GIVE_UP_AFTER
    assert len(place.asked) == 4 + session.GIVE_UP_AFTER
    failure = record.failures[0]
    assert failure.failure == "mpirun ended with status 1"
    assert failure.last_lines == ["no route"]
    assert "MPI_ERR_INTERN" in Path(failure.raw).read_text(encoding="utf-8")
    assert failure.command == f"mpirun {RAW} toy"
    assert values(record, "tcp") == [4.0] * 4
    (first, _) = record.problems()
    assert "Speed, 2 ranks on 2 hosts, round 1, rawe: mpirun ended" in first and "no route" in first


def stops_at(number):
    """Return an mpirun that Ctrl-C interrupts in the run of that number, and its calls."""
    calls = []

    def answer(words):
        calls.append(words)
        if len(calls) == number:
            raise KeyboardInterrupt
        return good(words)

    return answer, calls


def test_execute__an_interrupted_session_continues_where_it_was(tmp_path):
    answer, calls = stops_at(4)
    record, _ = run(options_of(rounds=3), answer, tmp_path)
    assert record.interrupted and (len(record.done), record.planned) == (3, 6)
    assert (values(record, "tcp"), values(record, "rawe")) == ([4.0], [2.0, 2.0])
    record, place = run(options_of(rounds=3), good, tmp_path)
    assert len(place.asked) == 3 and place.asked[0] == calls[3]
    assert (values(record, "tcp"), values(record, "rawe")) == ([4.0] * 3, [2.0] * 3)


def test_replay__failures_are_remembered(tmp_path):
    def answer(_):
        return Outcome(1, "", "no route\n", 0.1)

    options = options_of(transports=["rawe"], rounds=1)
    first, _ = run(options, answer, tmp_path)
    again, place = run(options, answer, tmp_path)
    assert not place.asked
    assert again.failures == first.failures
    assert again.failures[0].last_lines == ["no route"]


def test_pin__another_plan_is_refused(tmp_path):
    run(options_of(), good, tmp_path)
    with pytest.raises(BenchError, match="begun with other runs"):
        run(options_of(transports=["tcp"]), good, tmp_path)


def test_create__does_not_overwrite_results(tmp_path):
    Journal(tmp_path / "a").create({"argv": ["--quick"]})
    assert Journal(tmp_path / "a").setup() == {"argv": ["--quick"]}
    with pytest.raises(BenchError, match="another comparison"):
        Journal(tmp_path / "a").create({})
    with pytest.raises(BenchError, match="no comparison"):
        Journal(tmp_path).setup()


def test_entries__a_line_that_a_crash_cut_off_does_not_count(tmp_path):
    run(options_of(rounds=3), good, tmp_path)
    file = tmp_path / "runs.jsonl"
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    record, place = run(options_of(rounds=3), good, tmp_path)
    assert len(place.asked) == 1 and len(record.done) == 6
    record, place = run(options_of(rounds=3), good, tmp_path)
    assert not place.asked and len(record.done) == 6, "the run made again was not kept"


def test_pin__a_full_disk_leaves_what_is_needed_to_continue(tmp_path, monkeypatch):
    def fill(path, text, **_):
        with open(path, "w", encoding="utf-8"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    journal = Journal(tmp_path)
    journal.create({"argv": ["--quick"]})
    runs = Toy().plan(options_of(cases=[CASE]), None)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fill)
        with pytest.raises(OSError):
            journal.pin(runs)
    assert journal.setup()["argv"] == ["--quick"]
    journal.pin(runs)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fill)
        journal.pin(runs)
    assert journal.setup()["argv"] == ["--quick"]


def test_outcome__is_read_back_as_it_was_and_raw_is_for_people(tmp_path):
    journal = Journal(tmp_path / "a")
    journal.create({})
    kept = Outcome(
        1, "no newline", "b\n", 2.5, False, ["mpirun a", "mpirun b"], {"y": "", "x": "1"}
    )
    journal.add(0, Run(1, "tcp", CASE, ()), kept)
    found, raw = journal.outcomes()[0]
    assert found == kept
    text = raw.read_text(encoding="utf-8")
    assert text.startswith(
        "$ mpirun a\n$ mpirun b\nno newline\n--- standard error\nb\n--- file y\n"
    )


class World:
    """Records the hosts brought up, and the runs."""

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
    """Call cli._measure() in a directory. Returns the Record of three rounds."""
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
    """A function that runs compare with everything prepared, and returns the status and the output.
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
    """Return a function that raises this error."""

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
