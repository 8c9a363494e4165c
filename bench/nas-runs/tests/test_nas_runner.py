# SPDX-License-Identifier: BSD-3-Clause
"""Tests of nasruns.runner, records, summary and report with a made-up mpirun."""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchlib import rounds
from benchlib.folder import FolderError
from nasruns import plan, programs, report, runner, summary
from nasruns.records import Records, Run

CASE = plan.Case("LU", "S", 2, 2)
OUTPUT = """ LU Benchmark Completed.
 Class           = S
 Iterations      = 50
 Time in seconds = {seconds}
 Total processes = {processes}
 Mop/s total     = {mops}
 Verification    = {verification}
 MPI share (%)   = 25.0
"""


@dataclass
class Outcome:
    output: str
    errors: str = ""
    status: int = 0
    timed_out: bool = False


class FakePlace:
    """Answers what the function given to it says; keeps what it was asked."""

    interface = None

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def run(self, arguments, timeout, tick):
        self.asked.append(arguments)
        return self.answer(arguments, timeout, tick)

    def command(self, arguments):
        return "mpirun " + " ".join(arguments)


def good(mops=100.0, verification="SUCCESSFUL", processes=2):
    return Outcome(
        OUTPUT.format(seconds=1.5, mops=mops, verification=verification, processes=processes)
    )


def over(arguments):
    """The transport a command line asks for."""
    return arguments[arguments.index("btl") + 1].split(",")[0]


@dataclass
class Options:
    program_directory: Path
    timeout: float = 5.0


@pytest.fixture(name="setting")
def _setting(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "choose", lambda *_: programs.Program(("rawe-lu", "S")))
    records = Records(tmp_path / "out")
    records.create({"rounds": 2})
    return records, Options(tmp_path)


def test_command__ranks_of_one_host_share_memory():
    program = programs.Program(("prog", "S"))
    alone = runner.command(CASE, "tcp", program)
    assert alone[:2] == ["-np", "2"]
    assert alone[-2:] == ["prog", "S"]
    assert "tcp,self" in alone
    assert "rawe,vader,self" in runner.command(CASE, "rawe", program, None, True)
    assert "vader,self" in runner.command(CASE, "vader", program, None, True)


def test_command__npb_gets_the_library_that_measures_the_share():
    program = programs.Program(("lu.S.x",), Path("/somewhere/lib.so"), "NPB")
    words = runner.command(CASE, "tcp", program)
    assert words[-3:] == ["-x", "LD_PRELOAD=/somewhere/lib.so", "lu.S.x"]


def test_measure__a_verified_run():
    place = FakePlace(lambda *_: good(250.0))
    run, _ = runner.measure(place, CASE, "tcp", 1, ["x"], 5.0)
    assert (run.failure, run.mops, run.seconds, run.mpi_share) == ("", 250.0, 1.5, 25.0)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (good(verification="UNSUCCESSFUL"), "UNSUCCESSFUL"),
        (good(processes=1), "1 ranks"),
        (Outcome("", "mpirun was unable to launch\n", 1), "unable to launch"),
        (Outcome("", "", 124, True), "not finished after 5 s"),
        (Outcome(good().output, "", 139), "status 139"),
    ],
)
def test_measure__what_went_wrong_is_told_and_has_no_figures(outcome, reason):
    run, _ = runner.measure(FakePlace(lambda *_: outcome), CASE, "tcp", 1, ["x"], 5.0)
    assert reason in run.failure
    assert run.mops is None


def test_run_case__alternates_and_records(setting):
    records, options = setting
    place = FakePlace(lambda arguments, *_: good(300.0 if over(arguments) == "rawe" else 200.0))
    runner.run_case(place, CASE, ["tcp", "rawe"], 2, options, records, lambda _: None)
    assert [over(words) for words in place.asked] == ["tcp", "rawe", "rawe", "tcp"]
    assert [(run.peer, run.round) for run in records.runs()] == [
        ("tcp", 1),
        ("rawe", 1),
        ("rawe", 2),
        ("tcp", 2),
    ]


def test_run_case__goes_on_where_it_was_interrupted(setting):
    records, options = setting
    answers = iter([good(), good()])

    def interrupted(*_):
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        runner.run_case(
            FakePlace(interrupted), CASE, ["tcp", "rawe"], 2, options, records, lambda _: None
        )
    place = FakePlace(lambda *_: good())
    runner.run_case(place, CASE, ["tcp", "rawe"], 2, options, records, lambda _: None)
    assert [over(words) for words in place.asked] == ["rawe", "tcp"]
    assert not rounds.missing(CASE, ["tcp", "rawe"], 2, records.runs())


def test_run_case__keeps_the_output_of_a_failed_run(setting):
    records, options = setting
    said = []
    place = FakePlace(lambda *_: Outcome("", "no such interface\n", 1))
    runner.run_case(place, CASE, ["tcp"], 1, options, records, said.append)
    logs = list(records.directory.glob("*.log"))
    assert len(logs) == 1
    assert "no such interface" in logs[0].read_text()
    assert any("FAILED" in line for line in said)


def test_records__give_back_what_was_added(tmp_path):
    records = Records(tmp_path / "a")
    records.create({"peers": ["tcp"]})
    runs = [
        Run("LU", "S", 2, 2, "tcp", 1, 1.5, 200.0, 25.0, 1100, 1552000, "SUCCESSFUL"),
        Run("SP", "W", 4, 0, "rawe", 2, failure='status 1: it said "no", twice'),
    ]
    for run in runs:
        records.add(run)
    assert records.runs() == runs
    assert records.setup() == {"peers": ["tcp"]}


def test_records__are_not_overwritten(setting):
    records, _ = setting
    with pytest.raises(FolderError, match="another comparison"):
        records.create({})


def test_setup__of_a_folder_without_one_is_an_error(tmp_path):
    with pytest.raises(FolderError, match="no comparison"):
        Records(tmp_path).setup()


def runs_of(peer, values, failures=0):
    runs = [
        Run("LU", "S", 2, 2, peer, n + 1, 1.0, value, 20.0, 1100, 1552000, "SUCCESSFUL")
        for n, value in enumerate(values)
    ]
    runs += [Run("LU", "S", 2, 2, peer, 9 + n, failure="lost") for n in range(failures)]
    return runs


def test_condense__medians_and_ratio_leave_failures_out():
    runs = runs_of("tcp", [100.0, 120.0, 90.0]) + runs_of("rawe", [150.0, 151.0, 900.0], 1)
    (one,) = summary.condense(runs, [CASE], ["tcp", "rawe"])
    assert one.figures["tcp"].mops == 100.0
    assert one.figures["rawe"].mops == 151.0
    assert (one.figures["rawe"].good, one.figures["rawe"].failed) == (3, 1)
    assert one.ratio("rawe", "tcp") == pytest.approx(1.51)
    assert "51.0 % more" in one.reading("rawe", "tcp")
    assert "33.8 % fewer" in one.reading("tcp", "rawe")


def test_condense__a_transport_without_a_verified_run_has_no_ratio():
    runs = runs_of("tcp", [100.0]) + runs_of("rawe", [], 2)
    (one,) = summary.condense(runs, [CASE], ["tcp", "rawe"])
    assert one.ratio("rawe", "tcp") is None
    assert "no comparison" in one.reading("rawe", "tcp")


@pytest.mark.parametrize("rawe", [[150.0], []])
def test_write_all__files_hold_the_figures(tmp_path, rawe):
    pytest.importorskip("matplotlib")
    runs = runs_of("tcp", [100.0]) + runs_of("rawe", rawe, 0 if rawe else 1)
    comparisons = summary.condense(runs, [CASE], ["tcp", "rawe"])
    failures = [run for run in runs if run.failure]
    facts_given = [("MTU", "1500 bytes")]
    names, trouble = report.write_all(tmp_path, comparisons, "tcp", facts_given, failures)
    assert trouble is None
    assert {"report.html", "report.md", "summary.csv", "speed.png"} < set(names)
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    with open(tmp_path / "summary.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["transport"] for row in rows] == ["tcp", "rawe"]
    assert rows[1]["ratio_to_base"] == ("1.5" if rawe else "")
    text = (tmp_path / "report.md").read_text()
    assert "1500 bytes" in text
    assert ("lost" in text) == (not rawe)


def test_write_all__does_without_a_plot_where_matplotlib_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    comparisons = summary.condense(runs_of("tcp", [100.0]), [CASE], ["tcp"])
    names, trouble = report.write_all(tmp_path, comparisons, "tcp", [], [])
    assert names == ["report.html", "report.md", "summary.csv"]
    assert "python3-matplotlib" in trouble
    assert ".png" not in (tmp_path / "report.md").read_text()
