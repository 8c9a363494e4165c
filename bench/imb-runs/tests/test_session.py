# SPDX-License-Identifier: BSD-3-Clause
"""Tests of session.py with a made-up place: order of runs, failures, interruption."""

from types import SimpleNamespace

import pytest

from imbruns import session, suites
from imbruns.journal import Journal
from imbruns.places import Outcome
from imbruns.prepare import PrepareError

PINGPONG = """# Benchmarking PingPong
# #processes = 2
       #bytes #repetitions      t[usec]   Mbytes/sec
            1         1000         {time}         0.24
"""
PROGRAMS = {"own": "/b/rawe-imb", "imb": "/b/rawe-imb", "pingpong": "/b/pp", "stream": "/b/st"}


class Place:
    """Answers each mpirun as a function of its arguments says."""

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def run(self, arguments, timeout, tick):
        tick()
        self.calls.append(arguments)
        return self.answer(arguments)

    @staticmethod
    def command(arguments):
        return " ".join(["mpirun", *arguments])


class Quiet:
    """A progress display that shows nothing."""

    def begin(self, index):
        pass

    tick = skip = known = lambda self, *_: None

    def end(self, index, seconds, failure):
        pass


def options_of(**changes):
    values = {
        "rounds": 3, "peers": ["tcp", "rawe"], "iterations": 100, "time": 0.1,
        "groups": [session.Group(2, 2)], "starter": [],
        "timeout": 5, "check": False, "baseline": False, "baseline_time": 0.1,
        "parts": suites.parts_of("default", ["PingPong"]),
    }
    return SimpleNamespace(**{**values, **changes})


def answer_ok(arguments):
    time = "2.00" if "rawe,self" in arguments else "4.00"
    return Outcome(0, PINGPONG.format(time=time), "", 0.1)


def execute(options, answer, directory):
    """A session in a directory: new, or what is left of the one there."""
    journal = Journal(directory)
    if not (directory / "setup.json").exists():
        journal.create({})
    runs = session.plan(options, PROGRAMS, None)
    journal.pin(runs)
    record, place = session.Record(), Place(answer)
    work = session.Session(options, runs, journal, record)
    left = work.replay(Quiet(), lambda run: place.command(run.arguments))
    try:
        work.execute(left, place, Quiet())
    except KeyboardInterrupt:
        record.interrupted = True
    return record, place


def test_plan__transports_alternate_and_change_places():
    runs = session.plan(options_of(), PROGRAMS, None)
    assert [(run.round, run.peer) for run in runs] == [
        (1, "tcp"), (1, "rawe"), (2, "rawe"), (2, "tcp"), (3, "tcp"), (3, "rawe"),
    ]


def test_plan__real_imb_does_not_get_benchmarks_that_only_ours_has():
    options = options_of(rounds=1, peers=["tcp"], parts=suites.parts_of("default", None, (0, 4)))
    runs = session.plan(options, {**PROGRAMS, "imb": "/i/IMB-MPI1"}, None)
    by_program = {"/i/IMB-MPI1": [], "/b/rawe-imb": []}
    for run in runs:
        program = next(word for word in run.arguments if word in by_program)
        by_program[program] += [word for word in run.arguments if word in suites.BENCHMARKS]
    assert by_program["/b/rawe-imb"] == ["Isend"]
    assert "PingPong" in by_program["/i/IMB-MPI1"] and "Isend" not in by_program["/i/IMB-MPI1"]


def test_plan__real_imb_has_the_time_for_all_sizes():
    options = options_of(rounds=1, peers=["tcp"], parts=suites.parts_of("default", None, (0, 4)))
    runs = session.plan(options, {**PROGRAMS, "imb": "/i/IMB-MPI1"}, None)
    given = {}
    for run in runs:
        words = list(run.arguments)
        real = "/i/IMB-MPI1" in words
        given.setdefault(real, set()).add(float(words[words.index("-time") + 1]))
    assert given == {True: {session.IMB_SECONDS}, False: {0.1}}


def test_plan__interface_reaches_every_program():
    runs = session.plan(options_of(rounds=1, baseline=True), PROGRAMS, "eth7")
    assert [run.peer for run in runs] == ["baseline", "baseline", "tcp", "rawe"]
    assert all("eth7" in run.arguments for run in runs)


def test_plan__a_starter_stands_in_front_of_every_program():
    options = options_of(rounds=1, baseline=True, starter=["setpriv", "--x"])
    for run in session.plan(options, PROGRAMS, None):
        words = list(run.arguments)
        at = words.index("setpriv")
        assert words[at + 1] == "--x" and words[at + 2] in PROGRAMS.values()


def test_plan__what_takes_two_ranks_is_measured_in_the_first_group_only():
    groups = [session.Group(2, 2), session.Group(4, 4)]
    parts = suites.parts_of("default", ["PingPong", "Bcast"])
    options = options_of(rounds=1, baseline=True, groups=groups, parts=parts)
    runs = session.plan(options, PROGRAMS, None)
    found = [(run.processes, run.peer, run.arguments[-1]) for run in runs if run.peer != "baseline"]
    assert found == [
        (2, "tcp", "PingPong"), (2, "rawe", "PingPong"), (2, "tcp", "Bcast"), (2, "rawe", "Bcast"),
        (4, "tcp", "Bcast"), (4, "rawe", "Bcast"),
    ]
    assert [session.group_of(run, groups) for run in runs if run.peer == "baseline"] == groups[:1] * 2
    four = next(run for run in runs if run.processes == 4)
    assert four.arguments[:2] == ("-np", "4") and "-npmin 4" in " ".join(four.arguments)


def test_execute__keeps_each_value(tmp_path):
    record, _ = execute(options_of(), answer_ok, tmp_path)
    assert record.values("tcp", "PingPong", 2, 1, "time_us") == [4.0, 4.0, 4.0]
    assert record.values("rawe", "PingPong", 2, 1, "time_us") == [2.0, 2.0, 2.0]
    assert record.finished == record.planned == 6 and not record.failures
    assert len(list((tmp_path / "raw").iterdir())) == 6


def test_execute__a_failing_transport_is_told_and_given_up(tmp_path):
    def answer(arguments):
        if "rawe,self" in arguments:
            return Outcome(1, "", "------\nno route\n[h:1] *** MPI_ERR_INTERN\n", 0.1)
        return answer_ok(arguments)

    record, place = execute(options_of(rounds=4), answer, tmp_path)
    assert len(record.failures) == session.GIVE_UP_AFTER
    assert len(place.calls) == 4 + session.GIVE_UP_AFTER
    failure = record.failures[0]
    assert failure.reason == "mpirun ended with status 1"
    assert failure.last_lines == ["no route"]
    assert "MPI_ERR_INTERN" in open(failure.raw, encoding="utf-8").read()
    assert failure.command.startswith("mpirun -np 2 --mca pml ob1 --mca btl rawe,self")
    assert len(record.values("tcp", "PingPong", 2, 1, "time_us")) == 4


def test_execute__a_timeout_keeps_what_was_printed(tmp_path):
    def answer(arguments):
        return Outcome(124, PINGPONG.format(time="4.00"), "", 5.0, timed_out=True)

    record, _ = execute(options_of(rounds=1), answer, tmp_path)
    assert record.failures[0].reason == "no end within 5 s (--timeout)"
    assert record.values("tcp", "PingPong", 2, 1, "time_us") == [4.0]


def test_execute__an_empty_output_is_a_failure(tmp_path):
    record, _ = execute(options_of(rounds=1), lambda _: Outcome(0, "", "", 0.1), tmp_path)
    assert {failure.reason for failure in record.failures} == {"the output holds no figures"}


def test_execute__wrong_contents_are_a_failure(tmp_path):
    bad = PINGPONG.replace("Mbytes/sec", "Mbytes/sec defects").replace("0.24", "0.24 7")
    record, _ = execute(
        options_of(rounds=1), lambda _: Outcome(3, bad.format(time="4.00"), "", 0.1), tmp_path
    )
    assert "7 bytes arrived wrong" in record.failures[0].reason
    assert not record.samples


def test_execute__interrupted_keeps_the_rounds_before(tmp_path):
    calls = []

    def answer(arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return answer_ok(arguments)

    record, _ = execute(options_of(), answer, tmp_path)
    assert record.interrupted and (record.finished, record.planned) == (3, 6)
    assert record.values("rawe", "PingPong", 2, 1, "time_us") == [2.0, 2.0]
    assert record.values("tcp", "PingPong", 2, 1, "time_us") == [4.0]


def test_execute__an_interrupted_session_goes_on_where_it_was(tmp_path):
    calls = []

    def answer(arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return answer_ok(arguments)

    execute(options_of(), answer, tmp_path)
    record, place = execute(options_of(), answer_ok, tmp_path)
    assert len(place.calls) == 3 and place.calls[0] == calls[3]
    assert record.finished == 6
    assert record.values("tcp", "PingPong", 2, 1, "time_us") == [4.0] * 3
    assert record.values("rawe", "PingPong", 2, 1, "time_us") == [2.0] * 3


def test_execute__failures_are_remembered_by_a_session_that_goes_on(tmp_path):
    def answer(arguments):
        return Outcome(1, "half an output", "no route\n", 0.1)

    first, _ = execute(options_of(peers=["rawe"], rounds=1), answer, tmp_path)
    again, place = execute(options_of(peers=["rawe"], rounds=1), answer, tmp_path)
    assert not place.calls
    assert again.failures == first.failures
    assert again.failures[0].last_lines == ["no route"]


def test_pin__another_plan_is_refused(tmp_path):
    execute(options_of(), answer_ok, tmp_path)
    with pytest.raises(PrepareError, match="begun with other runs"):
        execute(options_of(iterations=7), answer_ok, tmp_path)


def test_create__does_not_overwrite_results(tmp_path):
    execute(options_of(), answer_ok, tmp_path)
    with pytest.raises(PrepareError, match="holds results"):
        Journal(tmp_path).create({})


def test_entries__a_line_cut_off_by_a_crash_does_not_count(tmp_path):
    execute(options_of(), answer_ok, tmp_path)
    file = tmp_path / "runs.jsonl"
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    record, place = execute(options_of(), answer_ok, tmp_path)
    assert len(place.calls) == 1 and record.finished == 6


@pytest.mark.parametrize("suite", suites.SUITES)
def test_parts__every_suite_names_known_benchmarks(suite):
    for part in suites.parts_of(suite):
        assert set(part.benchmarks) <= set(suites.BENCHMARKS)
        assert 0 <= part.low <= part.high <= 30


def test_parts__chosen_benchmarks_and_sizes():
    parts = suites.parts_of("default", ["Bcast", "PingPong"], (3, 5))
    assert [(part.benchmarks, part.low, part.high) for part in parts] == [
        (("PingPong",), 3, 5), (("Bcast",), 3, 5),
    ]
