# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the driver of imb-runs: its options, suites and runs; and its tables and report, made of
a small invented comparison."""

import csv

import pytest

from benchlib import BenchError, Rejected, page, report, summary
from benchlib import cli as command_line
from benchlib.driver import Case, Run
from benchlib.places import Outcome
from benchlib.session import Done, Record
from benchlib.transports import COMPONENT, order
from imbruns import driver as benchmarks
from imbruns.driver import IMB_SECONDS, METRICS, ImbDriver
from imbruns.output import Sample

PROGRAMS = {"own": "/b/rawe-imb", "imb": "/b/rawe-imb", "pingpong": "/b/pp", "stream": "/b/st"}
PINGPONG = """# Benchmarking PingPong
# #processes = 2
       #bytes #repetitions      t[usec]   Mbytes/sec defects
            1         1000         4.00         0.24       {}
"""


def parse(*argv):
    return command_line.parse(ImbDriver(), argv)


def plan(*argv, interface=None, **programs):
    """Return the Runs of a command line; one round is the default."""
    driver = ImbDriver()
    driver.programs = {**PROGRAMS, **programs}
    return driver.plan(command_line.parse(driver, ["--rounds", "1", *argv]), interface)


def words_of(run):
    (words,) = run.commands
    return list(words)


def test_parse__defaults():
    found = parse()
    assert found.groups == [(2, 2)] and found.timeout == 180.0
    assert found.baseline and (found.time, found.iterations) == (0.02, 1000)


def test_parse__hosts_give_the_ranks():
    assert parse("--hosts", "4").groups == [(4, 4)]
    assert parse("--hosts", "16", "--suite", "collectives").groups == [(16, 16)]
    assert parse("--suite", "collectives").groups == [(4, 4)]
    assert parse("--hosts", "4", "--np", "8").groups == [(8, 4)]
    assert parse("--transports", "vader", "--hosts", "1", "--np", "2").groups == [(2, 1)]


def test_parse__several_numbers_of_ranks_on_up_to_four_hosts():
    groups = parse("--np", "2,4,8").groups
    assert groups == [(2, 2), (4, 4), (8, 4)]
    assert parse("--suite", "all").groups == groups


def test_parse__hostfile_counts_its_lines(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("a slots=1\n# b\n\nc\nd\n", encoding="utf-8")
    assert parse("--hostfile", str(file)).groups == [(3, 0)]
    assert parse("--hostfile", str(file), "--suite", "all").groups == [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--benchmarks", "pong"], "pong is no benchmark"),
        (["--msglog", "9:3"], "is not LOW:HIGH"),
        (["--np", "1"], "no partner"),
        (["--receive-buffers", "1"], "not a number from 2 to 4096"),
        (["--np", "2", "--hosts", "4"], "idle"),
    ],
)
def test_parse__refuses_with_a_reason(argv, complaint, capsys):
    with pytest.raises(SystemExit):
        parse(*argv)
    assert complaint in capsys.readouterr().err


def test_plan__collectives_run_without_multicast_too():
    runs = plan("--suite", "collectives")
    assert [run.transport for run in runs] == ["tcp", "unicast", "rawe"]
    assert ["^rawe" in words_of(run) for run in runs] == [False, True, False]
    one = plan("--suite", "collectives", "--transports", "rawe")
    assert [run.transport for run in one] == ["rawe"]
    assert parse("--benchmarks", "Bcast").transports == ["tcp", "rawe"]


def test_plan__both_builds_take_turns_and_run_the_same_program(tmp_path):
    component = tmp_path / COMPONENT
    component.parent.mkdir(parents=True)
    component.touch()
    argv = ["--suite", "change", "--against", str(tmp_path), "--rounds", "2", "--no-baseline"]
    runs = plan(*argv)
    assert [run.transport for run in runs] == ["old", "rawe"] * 5 + ["rawe", "old"] * 5
    for run in runs:
        words = words_of(run)
        assert "/b/rawe-imb" in words
        assert any(str(tmp_path) in word for word in words) == (run.transport == "old")


def test_plan__real_imb_does_not_get_benchmarks_that_only_rawe_imb_has():
    by_program = {"/i/IMB-MPI1": [], "/b/rawe-imb": []}
    for run in plan("--transports", "tcp", "--no-baseline", imb="/i/IMB-MPI1"):
        words = words_of(run)
        program = next(word for word in words if word in by_program)
        by_program[program] += [word for word in words if word in benchmarks.BENCHMARKS]
    assert by_program["/b/rawe-imb"] == ["Isend"]
    assert "PingPong" in by_program["/i/IMB-MPI1"] and "Isend" not in by_program["/i/IMB-MPI1"]


def test_plan__real_imb_has_the_time_for_all_sizes_and_no_check():
    given, checks = {}, {}
    for run in plan("--no-baseline", "--time", "0.1", "--check", imb="/i/IMB-MPI1"):
        words = words_of(run)
        real = "/i/IMB-MPI1" in words
        given.setdefault(real, set()).add(float(words[words.index("-time") + 1]))
        checks.setdefault(real, set()).add("-check" in words)
    assert given == {True: {IMB_SECONDS}, False: {0.1}}
    assert checks == {True: {False}, False: {True}}


def test_plan__receive_buffers_add_the_cold_streams():
    argv = ["--suite", "bandwidth", "--transports", "tcp", "--no-baseline", "--rounds", "1"]
    streams, latency = (words_of(run) for run in plan(*argv, "--receive-buffers", "32"))
    assert streams[-4:] == ["Uniband", "UnibandCold", "Biband", "BibandCold"]
    assert streams[streams.index("-receive_buffers") + 1] == "32"
    assert "-receive_buffers" not in latency
    streams, latency = (words_of(run) for run in plan(*argv))
    assert streams[-2:] == ["Uniband", "Biband"] and "-receive_buffers" not in streams


def test_plan__interface_reaches_every_program():
    runs = plan("--benchmarks", "PingPong", interface="eth7")
    assert [run.transport for run in runs] == ["baseline", "baseline", "tcp", "rawe"]
    assert all("eth7" in words_of(run) for run in runs)


def test_plan__a_starter_stands_in_front_of_every_program(tmp_path):
    (tmp_path / "hosts").write_text("a\nb\n", encoding="utf-8")
    argv = ["--hostfile", str(tmp_path / "hosts"), "--starter", "setpriv --x"]
    for run in plan("--benchmarks", "PingPong", *argv):
        words = words_of(run)
        at = words.index("setpriv")
        assert words[at + 1] == "--x" and words[at + 2] in PROGRAMS.values()


def test_plan__what_takes_two_ranks_is_measured_in_the_first_group_only():
    runs = plan("--np", "2,4", "--benchmarks", "PingPong,Bcast")
    found = [(run.case.ranks, run.transport, words_of(run)[-1]) for run in runs]
    assert [one for one in found if one[1] != "baseline"] == [
        (2, "tcp", "PingPong"),
        (2, "rawe", "PingPong"),
        (2, "tcp", "Bcast"),
        (2, "rawe", "Bcast"),
        (4, "tcp", "Bcast"),
        (4, "rawe", "Bcast"),
    ]
    assert {run.case.hosts for run in runs if run.transport == "baseline"} == {2}
    four = next(run for run in runs if run.case.ranks == 4)
    assert words_of(four)[:2] == ["-np", "4"] and "-npmin 4" in " ".join(words_of(four))


def test_read__values_wrong_contents_and_nothing():
    run = plan("--benchmarks", "PingPong", "--no-baseline")[0]

    def read(text):
        return ImbDriver().read(run, Outcome(0, text, "", 0.1), [])

    (time, rate) = read(PINGPONG.format(0))
    assert (time.metric, time.value, rate.metric) == ("time_us", 4.0, "mbytes_per_s")
    with pytest.raises(Rejected, match="7 bytes arrived wrong"):
        read(PINGPONG.format(7))
    with pytest.raises(BenchError, match="holds no values"):
        read("mpirun: no")


@pytest.mark.parametrize("suite", benchmarks.SUITES)
def test_parts__every_suite_names_known_benchmarks(suite):
    for part in benchmarks.parts_of(suite):
        assert set(part.benchmarks) <= set(benchmarks.BENCHMARKS)
        assert 0 <= part.low <= part.high <= 30


TRANSPORTS = ["tcp", "rawe"]
ABOUT = {
    "base": "tcp",
    "command": "compare --quick",
    "date": "2024-01-01 12:00",
    "driver": "imb-runs",
    "facts": [["MTU", "1500 bytes"]],
    "interrupted": "",
    "problems": ["**ucx** was not measured: no component."],
    "shape": {"mtu": None, "rate": None},
    "transports": TRANSPORTS,
}


def samples_of(transport, factor):
    """Yield the Samples of a transport in a round."""
    one, large = {"tcp": (4.0, 100.0), "rawe": (2.0, 50.0), "baseline": (1.0, 10.0)}[transport]
    for size, value in ((1, one), (65536, large)):
        way = "tcp-gso" if transport == "baseline" else ""
        yield Sample("PingPong", 2, size, "time_us", value * factor, 1000, way)
    if transport == "baseline":
        return
    rate = 200e3 if transport == "tcp" else 800e3
    for size in (64, 4096):
        for metric, value in (("messages_per_s", rate), ("mbytes_per_s", rate * size / 1e6)):
            yield Sample("Uniband", 2, size, metric, value * factor, 10)
    yield Sample("Barrier", 2, 0, "time_us", 8.0, 10)
    yield Sample("Bcast", 2, 0, "time_us", 0.03, 10)


@pytest.fixture(name="done")
def _done():
    case = Case("latency", "", 2, 2)
    return [
        Done(Run(number, name, case, ()), 1.0, list(samples_of(name, factor)))
        for number, factor in ((1, 1.0), (2, 1.2), (3, 0.9))
        for name in (*order(TRANSPORTS, number), "baseline")
    ]


@pytest.fixture(name="found")
def _found(done):
    return ImbDriver().tables(ImbDriver().medians(done, TRANSPORTS), ABOUT)


def test_tables__medians_ratios_and_baseline(found):
    table = found[0]
    assert (table.title[:8], table.unit, table.lower_is_better) == ("PingPong", "µs", True)
    row = table.rows[0]
    medians = {name: row.median(name) for name in row.found}
    assert row.size == 1 and medians == {"tcp": 4.0, "rawe": 2.0, "baseline": 1.0}
    assert row.ratio("rawe") == 0.5 and summary.ratio(row.found, "tcp", "baseline") == 4.0
    assert table.mean_ratio("rawe") == pytest.approx(0.5)


def test_tables__uniband_is_rate_when_small_and_bandwidth_when_large(found):
    streams = [table for table in found if table.title.startswith("Uniband")]
    assert {(table.unit, table.rows[0].size) for table in streams} == {
        ("messages/s", 64),
        ("MB/s", 4096),
    }
    assert all(table.mean_ratio("rawe") == pytest.approx(4.0) for table in streams)
    assert not any(table.has_baseline for table in streams)


def test_tables__a_transport_without_values_has_no_column(done):
    about = {**ABOUT, "transports": ["tcp", "rawe", "ucx"]}
    table, *_ = ImbDriver().tables(ImbDriver().medians(done, about["transports"]), about)
    assert table.transports == TRANSPORTS
    assert "ucx/tcp" not in report.columns(table)


@pytest.mark.parametrize(
    "benchmark, ranks, size, metric, shown",
    [
        ("Reduce_scatter_block", 8, 16, "time_us", False),  # no block for each rank
        ("Reduce_scatter_block", 8, 32, "time_us", True),
        ("MpBandwidth", 2, 64, "mbytes_per_s", True),
        ("MpBandwidth", 2, 64, "time_us", False),
    ],
)
def test_is_shown__what_is_communication(benchmark, ranks, size, metric, shown):
    assert benchmarks.is_shown(summary.Key(benchmark, size, ranks, 2, METRICS[metric])) == shown


def test_terminal_table__one_line_a_size_with_ratio_and_baseline(found):
    _, heads, first, *_, last = report.terminal_table(found[0]).splitlines()
    assert heads.split() == ["size", "tcp", "rawe", "rawe/tcp", "baseline", "rawe/baseline", "way"]
    assert first.split() == ["1", "B", "4", "2", "0.50", "(0.38-0.67)", "1", "2.00", "tcp-gso"]
    assert last.split() == ["geometric", "mean", "0.50"]
    barrier = next(table for table in found if table.title.startswith("Barrier"))
    *_, row = report.terminal_table(barrier).splitlines()
    assert row.split() == ["8", "8", "~1.00", "(1.00-1.00)"]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_write_csv__every_sample_and_the_medians(done, tmp_path):
    ImbDriver().write_csv(tmp_path, Record(done), ABOUT)
    samples = rows_of(tmp_path / "samples.csv")
    mine = [row for row in samples if (row["size"], row["transport"]) == ("1", "rawe")]
    assert [[row[f"round_{number}"] for number in (1, 2, 3)] for row in mine] == [
        ["2", "2.4", "1.8"]
    ]
    found = {(row["benchmark"], row["size"]): row for row in rows_of(tmp_path / "medians.csv")}
    one = found["PingPong", "1"]
    assert (one["ranks"], one["hosts"], one["metric"]) == ("2", "2", "time_us")
    assert (one["unit"], one["better"], one["way"]) == ("µs", "lower", "tcp-gso")
    assert [one[f"rawe{what}"] for what in summary.OF_MEDIAN] == [
        *("2", "1.8", "2.4", "3"),
        *("0.375", "0.666667"),
    ]


def test_load__is_what_was_written(done, found, tmp_path):
    ImbDriver().write_csv(tmp_path, Record(done), ABOUT)
    loaded = ImbDriver().load(tmp_path, ABOUT)
    texts = [[report.terminal_table(table) for table in several] for several in (loaded, found)]
    assert texts[0] == texts[1]
    # (max - min) / median is the same for all but Barrier, whose rounds are equal.
    assert report.spread_of(loaded) == pytest.approx(0.3)


def test_report__holds_tables_problems_and_the_command(done, tmp_path):
    driver = ImbDriver()
    driver.write_csv(tmp_path, Record(done), ABOUT)
    names = report.write(driver, tmp_path, ABOUT, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "In µs; ratios: below 1 is faster." in text
    assert "no component" in text
    if page.plots_available():
        assert names == ["report.md", "plot.svg"]
        assert "](plot.svg)" in text
    for part in (
        "| MTU | 1500 bytes |",
        "| 1 B | 4 | 2 | 0.50 (0.38-0.67) | 1 | 2.00 | tcp-gso |",
        "**ucx** was not measured",
        "compare --quick",
    ):
        assert part in text
