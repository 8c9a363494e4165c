# SPDX-License-Identifier: BSD-3-Clause
"""Tests of summary.py, report.py and plot.py on a small made-up session."""

import csv

import pytest

from imbruns import plot, report, session, summary
from imbruns.output import Sample


@pytest.fixture(name="record")
def fixture_record():
    made = session.Record(rounds_done=3)
    for number, factor in ((1, 1.0), (2, 1.2), (3, 0.9)):
        for peer, one, large in (("tcp", 4.0, 100.0), ("rawe", 2.0, 50.0), ("floor", 1.0, 10.0)):
            for size, value in ((1, one), (65536, large)):
                sample = Sample("PingPong", 2, size, "time_us", value * factor, 1000)
                made.samples.append((number, peer, sample))
        for peer, rate in (("tcp", 200e3), ("rawe", 800e3)):
            for size in (64, 4096):
                figures = {"messages_per_s": rate, "mbytes_per_s": rate * size / 1e6}
                for metric, value in figures.items():
                    sample = Sample("Uniband", 2, size, metric, value * factor, 10)
                    made.samples.append((number, peer, sample))
            made.samples.append((number, peer, Sample("Barrier", 2, 0, "time_us", 8.0, 10)))
            made.samples.append((number, peer, Sample("Bcast", 2, 0, "time_us", 0.03, 10)))
    return made


PEERS = ["tcp", "rawe"]


def test_tables__medians_ratios_and_floor(record):
    table = summary.tables(record, PEERS, "tcp")[0]
    assert (table.benchmark, table.unit, table.lower_is_better) == ("PingPong", "µs", True)
    row = table.rows[0]
    assert row.size == 1 and row.medians == {"tcp": 4.0, "rawe": 2.0} and row.floor == 1.0
    assert row.ratios == {"rawe": 0.5} and row.to_floor == {"tcp": 4.0, "rawe": 2.0}
    assert table.mean_ratio("rawe") == pytest.approx(0.5)


def test_tables__uniband_is_rate_when_small_and_bandwidth_when_large(record):
    found = summary.tables(record, PEERS, "tcp")
    found = [table for table in found if table.benchmark == "Uniband"]
    assert {(table.metric, table.rows[0].size) for table in found} == {
        ("messages_per_s", 64), ("mbytes_per_s", 4096),
    }
    assert all(table.mean_ratio("rawe") == pytest.approx(4.0) for table in found)
    assert not any(table.has_floor for table in found)


def test_tables__collectives_of_no_bytes_are_left_out_but_barrier_stays(record):
    names = [table.benchmark for table in summary.tables(record, PEERS, "tcp")]
    assert "Bcast" not in names and "Barrier" in names


def test_tables__no_bytes_alone_are_no_table():
    record = session.Record()
    sample = Sample("Uniband", 2, 0, "messages_per_s", 1000.0, 10)
    record.samples.append((1, "tcp", sample))
    assert summary.tables(record, ["tcp"], "tcp") == []


def test_tables__a_transport_without_figures_has_no_column(record):
    table = summary.tables(record, ["tcp", "rawe", "ucx"], "tcp")[0]
    assert table.peers == PEERS
    assert "ucx/tcp" not in report.columns(table)


def test_reading__says_how_much_and_where(record):
    table = summary.tables(record, PEERS, "tcp")[0]
    text = summary.reading(table, "rawe")
    assert "0.50 × the time of tcp" in text and "ahead at 2 of them" in text


def test_size_text__binary_units():
    assert [summary.size_text(size) for size in (0, 1000, 1024, 65536, 4 << 20)] == [
        "0 B", "1000 B", "1 KiB", "64 KiB", "4 MiB",
    ]


def test_terminal_table__one_line_a_size_with_ratio_and_floor(record):
    lines = report.terminal_table(summary.tables(record, PEERS, "tcp")[0]).splitlines()
    assert lines[1].split() == ["size", "tcp", "rawe", "rawe/tcp", "floor", "rawe/floor"]
    assert lines[2].split() == ["1", "B", "4.00", "2.00", "0.50", "1.00", "2.00"]
    assert lines[-1].split() == ["geometric", "mean", "0.50"]


def test_write_csv__every_sample_and_the_medians(record, tmp_path):
    report.write_csv(tmp_path, record, PEERS, "tcp")
    samples = list(csv.DictReader(open(tmp_path / "samples.csv", encoding="utf-8")))
    assert len(samples) == len(record.samples)
    medians = list(csv.DictReader(open(tmp_path / "medians.csv", encoding="utf-8")))
    found = {(row["benchmark"], row["bytes"], row["metric"], row["transport"]): row
             for row in medians}
    one = found["PingPong", "1", "time_us", "rawe"]
    assert (one["median"], one["min"], one["max"], one["rounds"]) == ("2", "1.8", "2.4", "3")
    assert (one["ratio_to_tcp"], one["ratio_to_floor"]) == ("0.5000", "2.0000")


def test_write_markdown__holds_tables_failures_and_the_command(record, tmp_path):
    run = session.Run(2, "rawe", "latency", ("-np", "2"))
    record.failures.append(session.Failure(run, "mpirun ended with status 1", ["why"], "again", "raw"))
    record.unavailable["ucx"] = "no component"
    found = summary.tables(record, PEERS, "tcp")
    facts = {"date": "2024-01-01 12:00", "table": [("MTU", "1500 bytes")]}
    report.write_markdown(tmp_path, record, found, facts, [("plot.png", "Plot")], "compare --quick")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    for part in ("| MTU | 1500 bytes |", "| 1 B | 4.00 | 2.00 | 0.50 | 1.00 | 2.00 |", "why",
                 "again", "**ucx** was not measured", "![Plot](plot.png)", "compare --quick"):
        assert part in text


def test_series__leaves_out_what_a_log_axis_cannot_show(record):
    assert plot.series(record, "tcp", "Bcast", 2, "time_us") == []
    assert plot.series(record, "rawe", "PingPong", 2, "time_us") == [(1, 2.0), (65536, 50.0)]


def test_draw__writes_an_image(record, tmp_path):
    pytest.importorskip("matplotlib")
    images = plot.draw(record, PEERS, tmp_path, "test")
    assert [name for name, _ in images] == ["plot.png", "collectives.png"]
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
