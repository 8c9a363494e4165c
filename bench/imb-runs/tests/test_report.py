# SPDX-License-Identifier: BSD-3-Clause
"""Tests of summary.py, report.py and plot.py on a small made-up session."""

import csv

import pytest

from benchlib import chart
from imbruns import plot, report, session, shaping, summary
from imbruns.output import Sample


@pytest.fixture(name="record")
def fixture_record():
    made = session.Record(planned=12, finished=12)
    for number, factor in ((1, 1.0), (2, 1.2), (3, 0.9)):
        for peer, one, large in (("tcp", 4.0, 100.0), ("rawe", 2.0, 50.0), ("baseline", 1.0, 10.0)):
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


def test_tables__medians_ratios_and_baseline(record):
    table = summary.tables(record, PEERS, "tcp")[0]
    assert (table.benchmark, table.unit, table.lower_is_better) == ("PingPong", "µs", True)
    row = table.rows[0]
    assert row.size == 1 and row.medians == {"tcp": 4.0, "rawe": 2.0} and row.baseline == 1.0
    assert row.ratios == {"rawe": 0.5} and row.to_baseline == {"tcp": 4.0, "rawe": 2.0}
    assert table.mean_ratio("rawe") == pytest.approx(0.5)


def test_tables__uniband_is_rate_when_small_and_bandwidth_when_large(record):
    found = summary.tables(record, PEERS, "tcp")
    found = [table for table in found if table.benchmark == "Uniband"]
    assert {(table.metric, table.rows[0].size) for table in found} == {
        ("messages_per_s", 64), ("mbytes_per_s", 4096),
    }
    assert all(table.mean_ratio("rawe") == pytest.approx(4.0) for table in found)
    assert not any(table.has_baseline for table in found)


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
    assert summary.reading(table, "rawe") == (
        "rawe takes 0.50 of tcp's time at 1 B and 0.50 at 64 KiB; 0.50 over 2 sizes "
        "(geometric mean). It is faster at every size."
    )


def table_of(ratios, metric="time_us", benchmark="PingPong"):
    """A Table with these ratios of rawe, {size: ratio}."""
    rows = [
        summary.Row(size, {"tcp": 1.0, "rawe": value}, ratios={"rawe": value})
        for size, value in ratios.items()
    ]
    return summary.Table(benchmark, 2, metric, ["tcp", "rawe"], "tcp", rows)


def test_reading__tells_where_it_is_slower():
    ratios = {0: 9.0, 1: 0.41, 1024: 0.5, 4096: 1.2, 8192: 1.5, 16384: 1.1, 32768: 0.9, 65536: 1.3}
    assert summary.reading(table_of(ratios), "rawe") == (
        "rawe takes 0.41 of tcp's time at 1 B and 1.30 at 64 KiB; 0.90 over 7 sizes (geometric "
        "mean). It is slower at 4 KiB to 16 KiB and 64 KiB (ratio 1.50 at 8 KiB)."
    )


def test_reading__of_rates_more_is_faster():
    text = summary.reading(table_of({1: 2.0, 64: 0.8}, "messages_per_s", "Uniband"), "rawe")
    assert "reaches 2.00 of tcp's rate at 1 B" in text
    assert text.endswith("It is slower at 64 B (ratio 0.80).")


def test_reading__slower_everywhere_and_nothing_to_say():
    assert summary.reading(table_of({1: 2.0, 64: 1.8}), "rawe").endswith("slower at every size.")
    assert summary.reading(table_of({1: 1.001, 64: 0.999}), "rawe").endswith("(geometric mean).")
    assert summary.reading(table_of({}), "rawe") is None
    barrier = summary.reading(table_of({0: 0.4}, benchmark="Barrier"), "rawe")
    assert barrier == "rawe takes 0.40 of tcp's time."


def test_spans__neighbours_are_joined():
    rows = table_of(dict.fromkeys((1, 2, 4, 1024, 2048), 1.0)).rows
    found = summary.spans(rows, lambda row: row.size in (1, 2, 1024))
    assert found == ["1 B to 2 B", "1 KiB"]
    assert summary.listed(["a"]) == "a" and summary.listed(["a", "b", "c"]) == "a, b and c"


def test_is_shown__no_block_for_each_rank_is_no_communication():
    assert not summary.is_shown("Reduce_scatter_block", 8, 16, "time_us")
    assert summary.is_shown("Reduce_scatter_block", 8, 32, "time_us")


def test_is_shown__bandwidths_of_mpbench():
    assert summary.is_shown("MpBandwidth", 2, 64, "mbytes_per_s")
    assert not summary.is_shown("MpBandwidth", 2, 64, "time_us")


def test_allowed__full_frames_less_the_headers():
    assert shaping.bare_mbytes_per_s(10**9, 1500) == pytest.approx(125 * 1500 / 1514)
    assert shaping.payload_bytes("tcp", 1500, True) == 1448
    assert shaping.payload_bytes("rawe", 1500, False) == 1448
    assert shaping.payload_bytes("rawe", 1500, True) == 1424
    assert shaping.allowed_mbytes_per_s("vader", 10**9, 1500, True) is None


def test_shares__of_the_largest_messages(record):
    found = summary.tables(record, PEERS, "tcp")
    lines = shaping.shares(found, 10**10, 1500, False)
    assert [(line.peer, line.size) for line in lines] == [("tcp", 4096), ("rawe", 4096)]
    assert lines[0].reached == pytest.approx(819.2)
    assert lines[0].cells()[-1] == f"{819.2 / (1250 * 1448 / 1514):.3f}"
    assert "819.20 MB/s with 4 KiB" in lines[0].sentence()


def test_terminal_table__one_line_a_size_with_ratio_and_baseline(record):
    lines = report.terminal_table(summary.tables(record, PEERS, "tcp")[0]).splitlines()
    assert lines[1].split() == ["size", "tcp", "rawe", "rawe/tcp", "baseline", "rawe/baseline"]
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
    assert (one["ratio_to_tcp"], one["ratio_to_baseline"]) == ("0.5000", "2.0000")


def test_write_page__holds_tables_failures_and_the_command(record, tmp_path):
    run = session.Run(2, "rawe", "latency", ("-np", "2"))
    record.failures.append(session.Failure(run, "mpirun ended with status 1", ["why"], "again", "raw"))
    record.unavailable["ucx"] = "no component"
    found = summary.tables(record, PEERS, "tcp")
    facts = {"date": "2024-01-01 12:00", "table": [("MTU", "1500 bytes")]}
    images = [("plot.png", "Plot")]
    names = report.write_page(tmp_path, record, found, facts, images, "compare --quick")
    assert names == ["report.html", "report.md"]
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "faster at every size" in page and "no component" in page
    if chart.available():
        assert page.count("<svg") == 2  # PingPong and its ratio; the others have a single size
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
