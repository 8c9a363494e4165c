# SPDX-License-Identifier: BSD-3-Clause
"""Tests of appruns' plan, runner, records, summary and report with a made-up mpirun."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from appruns import options, plan, report, runner, summary
from appruns.app import App, AppError, Check, Figure, Result
from appruns.progress import Progress
from appruns.records import Records, Run

CASE = plan.Case("toy", "quick", 2, 2)


class Toy(App):
    """Prints a speed, a result, and whether it is right."""

    name = "toy"
    title = "Toy"
    figures = (Figure("speed", "speed", "op/s", True), Figure("seconds", "time", "s", False))
    sizes = {"quick": 1, "full": 2}
    keeps = ("out.txt",)

    def find(self, _programs):
        return "toy"

    def prepare(self, directory, case):
        (directory / "in.txt").write_text(case.key)

    def commands(self, program, case):
        return [[program, "check"], [program, "run"]]

    def read(self, output, files, case):
        words = output.split()
        if len(words) < 3:
            raise AppError("the output has no speed")
        speed, energy, right = words[:3]
        return Result(
            {"speed": float(speed), "seconds": 1.0 / float(speed)},
            [Check("right", right == "yes", right)],
            {"energy": float(energy)},
        )


@dataclass
class Outcome:
    output: str
    errors: str = ""
    status: int = 0
    timed_out: bool = False
    seconds: float = 0.5


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


def over(arguments):
    """The transport a command line asks for."""
    return arguments[arguments.index("btl") + 1].split(",")[0]


def answering(speeds, energy="-1.5", right="yes"):
    """A place where the last command of each run prints its transport's speed."""
    return FakePlace(
        lambda words, *_: Outcome(
            f"{speeds[over(words)]} {energy} {right}\n" if words[-1] == "run" else ""
        )
    )


@dataclass
class Settings:
    programs: Path
    timeout: float = 5.0


@pytest.fixture(name="setting")
def _setting(tmp_path, monkeypatch):
    monkeypatch.setitem(plan.APPS, "toy", Toy())
    records = Records(tmp_path / "out")
    records.create({"rounds": 2})
    stream = io.StringIO()
    return records, Settings(tmp_path), Progress(4, stream), stream


def test_run_case__alternates_and_records(setting):
    records, settings, progress, stream = setting
    place = answering({"tcp": 200.0, "rawe": 300.0})
    runner.run_case(place, CASE, ["tcp", "rawe"], 2, settings, records, progress)
    asked = [over(words) for words in place.asked if words[-1] == "run"]
    assert asked == ["tcp", "rawe", "rawe", "tcp"]
    runs = records.runs()
    assert [run.figures["speed"] for run in runs] == [200.0, 300.0, 300.0, 200.0]
    assert all(run.seconds == 1.0 and not run.failure for run in runs)  # of both commands
    assert stream.getvalue().count("checks passed") == 4
    assert not (records.directory / "work").exists()


def test_run_case__each_run_has_a_directory_with_its_input(setting):
    records, settings, progress, _ = setting
    seen = []

    def answer(words, *_):
        directory = Path(words[words.index("--wdir") + 1])
        seen.append((directory / "in.txt").read_text())
        (directory / "out.txt").write_text("kept")
        return Outcome("1 1 yes\n")

    runner.run_case(FakePlace(answer), CASE, ["tcp"], 1, settings, records, progress)
    assert seen == [CASE.key] * 2
    raw = (records.directory / "raw" / "toy.quick.2x2.tcp.round1.txt").read_text()
    assert "--- out.txt\nkept" in raw and raw.startswith("$ mpirun")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome("9 1 no\n"), "right: no"),
        (Outcome(""), "no speed"),
        (Outcome("9 1 yes\n", "mpirun was unable to launch\n", 1), "unable to launch"),
        (Outcome("", "", 124, True), "not finished after 5 s"),
    ],
)
def test_run_case__a_run_that_fails_is_kept_and_has_no_figures(setting, outcome, reason):
    records, settings, progress, stream = setting
    runner.run_case(
        FakePlace(lambda *_: outcome), CASE, ["tcp"], 1, settings, records, progress
    )
    (run,) = records.runs()
    assert reason in run.failure and run.figures == {}
    assert "FAILED" in stream.getvalue() and "its output:" in stream.getvalue()
    assert (records.directory / "raw" / f"{run.name}.txt").exists()


def test_run_case__a_failed_command_is_the_last_of_its_run(setting):
    records, settings, progress, _ = setting
    place = FakePlace(lambda *_: Outcome("", "no\n", 1))
    runner.run_case(place, CASE, ["tcp"], 1, settings, records, progress)
    assert [words[-1] for words in place.asked] == ["check"]


def test_run_case__a_result_that_differs_between_transports_does_not_count(setting):
    records, settings, progress, _ = setting

    def answer(words, *_):
        return Outcome("9 {} yes\n".format("-1.5" if over(words) == "tcp" else "-1.50001"))

    runner.run_case(FakePlace(answer), CASE, ["tcp", "rawe"], 1, settings, records, progress)
    first, second = records.runs()
    assert first.failure == ""
    assert "energy is -1.50001, in an earlier run -1.5" in second.failure


def test_run_case__goes_on_where_it_was_interrupted(setting):
    records, settings, progress, _ = setting
    place = answering({"tcp": 1.0, "rawe": 2.0})
    count = []

    def stops(words, *rest):
        count.append(words)
        if len(count) > 4:
            raise KeyboardInterrupt
        return place.answer(words, *rest)

    with pytest.raises(KeyboardInterrupt):
        runner.run_case(
            FakePlace(stops), CASE, ["tcp", "rawe"], 2, settings, records, progress
        )
    assert not (records.directory / "work").exists()
    runner.run_case(place, CASE, ["tcp", "rawe"], 2, settings, records, progress)
    assert [(run.peer, run.round) for run in records.runs()] == [
        ("tcp", 1),
        ("rawe", 1),
        ("rawe", 2),
        ("tcp", 2),
    ]


def test_arguments_of__threads_of_libraries_are_off_and_hosts_shared_by_ranks_use_memory(setting):
    place = answering({})
    words = runner.arguments_of(Toy(), CASE, "rawe", ["toy"], Path("/x"), place)
    assert "OPENBLAS_NUM_THREADS=1" in words and "rawe,self" in words
    crowded = plan.Case("toy", "quick", 4, 2)
    words = runner.arguments_of(Toy(), crowded, "rawe", ["toy"], Path("/x"), place)
    assert "rawe,vader,self" in words


def runs_of(peer, speeds, failures=0, ranks=2):
    """Runs with these speeds, and failed ones."""
    made = [
        Run("toy", "quick", ranks, ranks, peer, n + 1, 2.0, {"speed": s, "seconds": 1 / s})
        for n, s in enumerate(speeds)
    ]
    lost = [Run("toy", "quick", ranks, ranks, peer, 8 + n, failure="x: y") for n in range(failures)]
    return made + lost


def test_condense__gain_is_above_one_when_better(setting):
    runs = runs_of("tcp", [100.0, 120.0, 90.0]) + runs_of("rawe", [150.0, 151.0, 900.0], 1)
    (one,) = summary.condense(runs, [CASE], ["tcp", "rawe"])
    speed, seconds, whole = one.rows
    assert speed.medians == {"tcp": 100.0, "rawe": 151.0}
    assert speed.gain("rawe", "tcp") == pytest.approx(1.51)
    assert seconds.ratio("rawe", "tcp") == pytest.approx(1 / 1.51)
    assert seconds.gain("rawe", "tcp") == pytest.approx(1.51)
    assert whole.gain("rawe", "tcp") == 1.0
    assert (one.good, one.failed) == ({"tcp": 3, "rawe": 3}, {"tcp": 0, "rawe": 1})
    assert "+51.0 %" in one.reading("rawe", "tcp") and "better" in one.reading("rawe", "tcp")
    assert "worse" in one.reading("tcp", "rawe")


def test_condense__without_a_good_run_there_is_no_gain(setting):
    runs = runs_of("tcp", [100.0]) + runs_of("rawe", [], 2)
    (one,) = summary.condense(runs, [CASE], ["tcp", "rawe"])
    assert one.rows[0].gain("rawe", "tcp") is None
    assert "no comparison" in one.reading("rawe", "tcp")


def test_scaling__speed_up_over_the_fewest_ranks(setting):
    cases = [plan.Case("toy", "quick", ranks, ranks) for ranks in (4, 1)]
    runs = runs_of("tcp", [100.0], ranks=1) + runs_of("tcp", [300.0], ranks=4)
    found = summary.scaling(summary.condense(runs, cases, ["tcp"]), "toy", ["tcp"])
    assert [(case.ranks, values["tcp"]) for case, values in found] == [
        (1, (1.0, 1.0)),
        (4, (3.0, 0.75)),
    ]
    assert summary.scaling(summary.condense(runs, cases[:1], ["tcp"]), "toy", ["tcp"]) is None


@pytest.mark.parametrize("rawe", [[150.0], []])
def test_write_all__files_hold_the_figures_and_the_failures(setting, tmp_path, rawe):
    runs = runs_of("tcp", [100.0]) + runs_of("rawe", rawe, 0 if rawe else 1)
    peers = ["tcp", "rawe"]
    comparisons = summary.condense(runs, [CASE], peers)
    failures = [run for run in runs if run.failure]
    names, _ = report.write_all(
        tmp_path, runs, comparisons, peers, "tcp", [("MTU", "1500")], failures, "compare -x"
    )
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    with open(tmp_path / "summary.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == "speed"]
    assert [row["transport"] for row in rows] == peers
    assert rows[1]["gain_over_tcp"] == ("1.5" if rawe else "")
    assert rows[1]["failed_runs"] == ("0" if rawe else "1")
    with open(tmp_path / "runs.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert ("x: y" in [row["failure"] for row in found]) == (not rawe)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "1500" in text and "compare -x" in text
        assert ("x: y" in text) == (not rawe)


def test_records__give_back_what_was_added(tmp_path):
    records = Records(tmp_path / "a")
    records.create({"peers": ["tcp"]})
    runs = runs_of("tcp", [1.5], 1)
    for run in runs:
        records.add(run)
    assert records.runs() == runs
    assert records.setup() == {"peers": ["tcp"]}


def test_make__leaves_out_what_cannot_run():
    cases, left_out = plan.make(["netpipe", "hpcc"], "quick", [1, 2, 4], None)
    assert [(case.app, case.ranks, case.hosts) for case in cases] == [
        ("netpipe", 2, 2),
        ("hpcc", 2, 2),
        ("hpcc", 4, 4),
    ]
    assert len(left_out) == 3
    with pytest.raises(AppError, match="nothing to run"):
        plan.make(["netpipe"], "quick", [3], None)


@pytest.mark.parametrize("size", ["quick", "full"])
def test_make__the_usual_cases_can_all_run(size):
    cases, left_out = plan.make(list(plan.RANKS[size]), size, None, None)
    assert not left_out and {case.app for case in cases} == set(plan.APPS)


def test_make__a_hostfile_decides_about_hosts():
    cases, _ = plan.make(["lammps"], "full", [8], None, virtual=False)
    assert cases == [plan.Case("lammps", "full", 8, 0)]


def test_parse__contradictions_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        options.parse(["--hostfile", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        options.parse(["--apps", "doom"])
    assert "doom is no application" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        options.parse(["--interface", "eth1"])
    assert "--hostfile" in capsys.readouterr().err


def test_progress__tells_how_long_it_will_take():
    now = [0.0]
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = Progress(3, stream, lambda: now[0])
    progress.begin("first")
    assert progress.left() is None
    now[0] = 10.0
    progress.end("first done")
    progress.begin("second")
    now[0] = 14.0
    assert progress.left() == 16.0
    progress.tick()
    assert "[2/3] second 0:04, about 0:16 left" in stream.getvalue()
