# SPDX-License-Identifier: BSD-3-Clause
"""Tests of driver.py with an invented program and mpirun, and of the report of cases."""

import csv
from pathlib import Path
from typing import ClassVar

import pytest
from fakes import execute, options_of, transport_of

from benchlib import BenchError, report
from benchlib.driver import Case, CaseDriver, Check, Program, Result, possible
from benchlib.places import Outcome
from benchlib.summary import Metric

CASE = Case("toy", "quick", 2, 2, "Toy")


class Toy(Program):
    """Prints a speed, a result, and whether it is right."""

    name = "toy"
    title = "Toy"
    metrics = (
        Metric("speed", "speed", "op/s", True),
        Metric("seconds", "time", "s", False),
        Metric("messages", "messages", "", None),
    )
    sizes: ClassVar = {"quick": 1, "full": 2}
    keeps = ("out.txt",)
    environment: ClassVar = {"THREADS": "1"}
    checked = "whether it says that it is right"

    def why_not(self, size, ranks):
        return "Toy runs on few ranks" if ranks > 4 else super().why_not(size, ranks)

    def find(self, folder, case):
        return "toy"

    def prepare(self, directory, case):
        (directory / "in.txt").write_text(case.key)

    def commands(self, found, case):
        return [[found, "check"], [found, "run"]]

    def read(self, output, files, case):
        words = output.split()
        if len(words) < 3:
            raise BenchError("the output has no speed")
        speed, energy, right = words[:3]
        return Result(
            {"speed": float(speed), "seconds": 1.0 / float(speed), "messages": 7.0},
            [Check("right", right == "yes", right)],
            {"energy": float(energy)},
        )


class ToyDriver(CaseDriver):
    """Runs the toy on two ranks, or on `cases`."""

    name = "toy-runs"
    programs: ClassVar = {"toy": Toy()}
    page_title = "Toys"
    works_in_directory = True

    def __init__(self, *cases):
        super().__init__()
        self.found = dict.fromkeys(cases or (CASE,), "toy")

    def plan(self, options, interface):
        options.cases = list(self.found)
        return super().plan(options, interface)


def answering(speeds):
    """Return an mpirun whose last command in each run prints the transport's speed."""

    def answer(words):
        line = f"{speeds[transport_of(words)]} -1.5 yes\n"
        return Outcome(0, line if words[-1] == "run" else "", "", 0.5)

    return answer


def run(answer, directory, **changes):
    return execute(ToyDriver(), options_of(**changes), answer, directory)


def test_execute__alternates_and_reads_metrics(tmp_path):
    record, place = run(answering({"tcp": 200.0, "rawe": 300.0}), tmp_path)
    asked = [transport_of(words) for words in place.asked if words[-1] == "run"]
    assert asked == ["tcp", "rawe", "rawe", "tcp"]
    assert [one.result.metrics["speed"] for one in record.done] == [200.0, 300.0, 300.0, 200.0]
    assert all(one.seconds == 1.0 and not one.failure for one in record.done)  # of both commands
    assert ToyDriver().line_of(record.done[0]) == "1.00 s, speed 200 op/s, checks passed"


def test_execute__each_run_has_a_directory_with_its_input(tmp_path):
    seen = []

    def answer(words):
        directory = Path(words[words.index("--wdir") + 1])
        seen.append((directory / "in.txt").read_text())
        (directory / "out.txt").write_text("kept")
        return Outcome(0, "1 1 yes\n", "", 0.5)

    record, _ = run(answer, tmp_path, transports=["tcp"], rounds=1)
    assert seen == [CASE.key] * 2
    text = Path(record.done[0].raw).read_text(encoding="utf-8")
    assert text.startswith("$ mpirun --wdir") and text.endswith("--- file out.txt\nkept\n")
    assert not (tmp_path / "work").exists()


def test_execute__environment_and_shared_hosts_reach_mpirun(tmp_path):
    crowded = Case("toy", "quick", 4, 2, "Toy")
    driver = ToyDriver(CASE, crowded)
    options = options_of(rounds=1, transports=["rawe"], starter=["setpriv", "--x"])
    _, place = execute(driver, options, answering({"rawe": 1.0}), tmp_path)
    first, last = " ".join(place.asked[0]), " ".join(place.asked[-1])
    assert "-x THREADS=1 setpriv --x toy check" in first
    assert "rawe,self" in first and "rawe,vader,self" in last


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome(0, "9 1 no\n", "", 0.5), "right: no"),
        (Outcome(3, "9 1 no\n", "", 0.5), "right: no"),
        (Outcome(0, "", "", 0.5), "no speed"),
        (Outcome(1, "9 1 yes\n", "mpirun was unable to launch\n", 0.5), "status 1"),
        (Outcome(124, "", "", 5.0, True), "no end within 5 s"),
    ],
)
def test_execute__a_run_that_fails_does_not_count(tmp_path, outcome, reason):
    record, place = run(lambda _: outcome, tmp_path, transports=["tcp"], rounds=1)
    (one,) = record.done
    assert reason in one.failure
    assert [words[-1] for words in place.asked] == (
        ["check"] if outcome.status else ["check", "run"]
    )
    assert ToyDriver().values(record.done) == {}


def test_read__a_result_that_differs_between_transports_does_not_count(tmp_path):
    def answer(words):
        energy = "-1.5" if transport_of(words) == "tcp" else "-1.50001"
        return Outcome(0, f"9 {energy} yes\n", "", 0.5)

    record, _ = run(answer, tmp_path, rounds=1)
    first, second = record.done
    assert first.failure == ""
    assert "energy is -1.50001, in an earlier run -1.5" in second.failure


def session(directory, tcp, rawe):
    """Run with these speeds, one for each round. Returns the Record."""
    speeds = {"tcp": list(tcp), "rawe": list(rawe)}

    def answer(words):
        if words[-1] == "check":
            return Outcome(0, "", "", 0.5)
        speed = speeds[transport_of(words)].pop(0)
        return Outcome(0, "" if speed is None else f"{speed} 1 yes\n", "", 0.5)

    return run(answer, directory, rounds=len(tcp))[0]


def about_of(record):
    return {
        "base": "tcp",
        "command": "compare -x",
        "date": "2030-01-01 12:00",
        "driver": "toy-runs",
        "facts": [["MTU", "1500"]],
        "interrupted": "",
        "problems": record.problems(),
        "transports": ["tcp", "rawe"],
    }


def table_of(directory, tcp, rawe):
    """Return the Table of runs with these speeds."""
    record, driver = session(directory, tcp, rawe), ToyDriver()
    (table,) = driver.tables(driver.medians(record.done, ["tcp", "rawe"]), about_of(record))
    return table


def test_tables__gain_is_above_one_when_better(tmp_path):
    table = table_of(tmp_path, [100.0, 120.0, 90.0, 100.0], [150.0, None, 151.0, 900.0])
    speed, seconds, messages, whole = table.rows
    assert (speed.median("tcp"), speed.median("rawe")) == (100.0, 151.0)
    assert speed.found["tcp"].spread == pytest.approx(0.3)
    assert (speed.found["tcp"].rounds, speed.found["rawe"].rounds) == (4, 3)
    assert speed.gain("rawe") == pytest.approx(1.51) == seconds.gain("rawe")
    assert seconds.ratio("rawe") == pytest.approx(1 / 1.51)
    assert messages.ratio("rawe") == 1.0 and messages.gain("rawe") is None
    assert whole.gain("rawe") == 1.0


@pytest.mark.parametrize("rawe", [[150.0, 170.0], [None, None]])
def test_report__is_made_of_the_files_alone(tmp_path, rawe):
    driver, record = ToyDriver(), session(tmp_path / "run", [100.0, 100.0], rawe)
    about = about_of(record)
    driver.write_csv(tmp_path, record, about)
    tables = driver.load(tmp_path, about)
    expected = driver.tables(driver.medians(record.done, about["transports"]), about)
    assert [(row.labels, row.key) for row in tables[0].rows] == [
        (row.labels, row.key) for row in expected[0].rows
    ]
    assert tables[0].rows[0].found == expected[0].rows[0].found
    with open(tmp_path / "samples.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "speed"]
    values = {row["transport"]: [row["round_1"], row["round_2"]] for row in rows}
    assert values["tcp"] == ["100", "100"]
    assert values.get("rawe") == (None if rawe[0] is None else ["150", "170"])
    names = report.write(driver, tmp_path, about, tmp_path)
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    for part in ("1500", "compare -x", "whether it says", "Spread"):
        assert part in text
    assert ("the output has no speed" in text) == (rawe[0] is None)
    (table,) = driver.texts(tables, about)
    assert table.splitlines()[2].split()[:6] == ["Toy,", "2", "ranks", "on", "2", "hosts"]


def test_possible__leaves_out_what_cannot_run_and_says_why():
    wanted = [("toy", "quick", 2, 2), ("toy", "quick", 8, 4), ("toy", "quick", 2, 4)]
    cases, left_out = possible(ToyDriver.programs, wanted)
    assert cases == [CASE]
    assert left_out == [
        "Toy on 8 ranks: Toy runs on few ranks",
        "Toy on 2 ranks: 4 hosts are more than 2 ranks",
    ]
    with pytest.raises(BenchError, match="nothing to run: Toy on 8 ranks"):
        possible(ToyDriver.programs, wanted[1:2])
