# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tables.py, and of the library's tables and report of message sizes, on a
small made-up comparison."""

import csv

import pytest

from benchlib import page, report, summary
from benchlib.program import Case, Run
from benchlib.session import Done, Record
from benchlib.transports import order
from imbruns import benchmarks
from imbruns.benchmarks import METRICS
from imbruns.driver import ImbDriver
from imbruns.output import Sample

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
    """What a transport gives in a round."""
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
def fixture_done():
    case = Case("latency", "", 2, 2)
    return [
        Done(Run(number, name, case, ()), 1.0, list(samples_of(name, factor)))
        for number, factor in ((1, 1.0), (2, 1.2), (3, 0.9))
        for name in (*order(TRANSPORTS, number), "baseline")
    ]


@pytest.fixture(name="found")
def fixture_found(done):
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
