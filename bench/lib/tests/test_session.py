# SPDX-License-Identifier: BSD-3-Clause
"""Tests of session.py and journal.py with a made-up driver: failures, interruption, resuming."""

import errno
import os
from pathlib import Path

import pytest
from fakes import execute, options_of, transport_of

from benchlib import BenchError, session
from benchlib.driver import Driver
from benchlib.journal import Journal
from benchlib.places import Outcome
from benchlib.program import Case, Run
from benchlib.transports import arguments, order

CASE = Case("speed", "", 2, 2, "Speed")


class Toy(Driver):
    """Reads a number."""

    def plan(self, options, interface):
        return [
            Run(number, name, CASE, ((*arguments(name), "toy"),))
            for number in range(1, options.rounds + 1)
            for name in order(options.transports, number)
        ]

    def read(self, run, outcome, earlier):
        if not outcome.output.strip():
            raise BenchError("the output holds no values")
        return float(outcome.output)


def run(options, answer, directory):
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
    assert failure.command == "mpirun --mca pml ob1 --mca btl rawe,self toy"
    assert values(record, "tcp") == [4.0] * 4
    (first, _) = record.problems()
    assert "Speed, 2 ranks on 2 hosts, round 1, rawe: mpirun ended" in first and "no route" in first


def stops_at(number):
    """Answers until the run of that number, which Ctrl-C interrupts."""
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
    runs = Toy().plan(options_of(), None)
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


@pytest.mark.parametrize("output", ["", "1\n2\n", "no newline at its end"])
@pytest.mark.parametrize("errors", ["", "a\n", "b"])
@pytest.mark.parametrize("files", [{}, {"x.txt": "kept\n", "y": ""}])
def test_outcome__is_read_back_as_it_was(tmp_path, output, errors, files):
    journal = Journal(tmp_path / "a")
    journal.create({})
    kept = Outcome(1, output, errors, 2.5, False, ("mpirun a", "mpirun b"), files)
    journal.add(0, Run(1, "tcp", CASE, ()), kept)
    found, raw = journal.outcome(journal.entries()[0])
    assert (found.output.strip(), found.errors.strip()) == (output.strip(), errors.strip())
    assert (found.commands, found.files) == (kept.commands, files)
    assert raw.read_text(encoding="utf-8").startswith("$ mpirun a\n$ mpirun b\n")
