# SPDX-License-Identifier: BSD-3-Clause
"""Tests of summary.py, report.py and shaping.py on a small made-up comparison."""

import csv

import pytest

from benchlib import chart
from benchlib import report as reports
from benchlib.plan import Case, Run
from benchlib.session import Done, Record
from benchlib.transports import order
from imbruns import report, shaping, summary
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


@pytest.fixture(name="data")
def fixture_data(done):
    return summary.Tables(summary.medians_of(done, TRANSPORTS), ABOUT)


def test_tables__medians_ratios_and_baseline(data):
    table = data.tables[0]
    assert (table.benchmark, table.unit, table.lower_is_better) == ("PingPong", "µs", True)
    row = table.rows[0]
    assert row.size == 1 and row.medians == {"tcp": 4.0, "rawe": 2.0} and row.baseline == 1.0
    assert row.ratios == {"rawe": 0.5} and row.to_baseline == {"tcp": 4.0, "rawe": 2.0}
    assert table.mean_ratio("rawe") == pytest.approx(0.5)


def test_tables__uniband_is_rate_when_small_and_bandwidth_when_large(data):
    found = [table for table in data.tables if table.benchmark == "Uniband"]
    assert {(table.metric, table.rows[0].size) for table in found} == {
        ("messages_per_s", 64),
        ("mbytes_per_s", 4096),
    }
    assert all(table.mean_ratio("rawe") == pytest.approx(4.0) for table in found)
    assert not any(table.has_baseline for table in found)


def test_tables__collectives_of_no_bytes_are_left_out_but_barrier_stays(data):
    names = [table.benchmark for table in data.tables]
    assert "Bcast" not in names and "Barrier" in names


def test_tables__no_bytes_alone_are_no_table():
    sample = Sample("Uniband", 2, 0, "messages_per_s", 1000.0, 10)
    done = [Done(Run(1, "tcp", Case("rate", "", 2, 2), ()), 1.0, [sample])]
    about = {"transports": ["tcp"], "base": "tcp"}
    assert summary.Tables(summary.medians_of(done, ["tcp"]), about).tables == []


def test_tables__a_transport_without_values_has_no_column(done):
    about = {**ABOUT, "transports": ["tcp", "rawe", "ucx"]}
    medians = summary.medians_of(done, about["transports"])
    table = summary.Tables(medians, about).tables[0]
    assert table.transports == TRANSPORTS
    assert "ucx/tcp" not in report.columns(table)


def test_reading__says_how_much_and_where(data):
    assert summary.reading(data.tables[0], "rawe") == (
        "rawe takes 0.50 of tcp's time at 1 B and 0.50 at 64 KiB; 0.50 over 2 sizes "
        "(geometric mean). It is faster at every size."
    )


def table_of(ratios, metric="time_us", benchmark="PingPong", doubt=0.01):
    """A Table with these ratios of rawe, {size: ratio}, and intervals of `doubt` on both sides."""
    rows = [
        summary.Row(
            size,
            {"tcp": 1.0, "rawe": value},
            ratios={"rawe": value},
            intervals={("rawe", "tcp"): (value - doubt, value + doubt)},
        )
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
    assert summary.reading(table_of({1: 1.001, 64: 0.999}), "rawe").endswith(
        "(geometric mean). No difference shown at 1 B to 64 B."
    )
    assert summary.reading(table_of({}), "rawe") is None
    barrier = summary.reading(table_of({0: 0.4}, benchmark="Barrier"), "rawe")
    assert barrier == "rawe takes 0.40 of tcp's time."
    barrier = summary.reading(table_of({0: 1.0}, benchmark="Barrier"), "rawe")
    assert barrier == "rawe takes 1.00 of tcp's time: no difference shown."


def test_reading__a_doubtful_loss_is_none():
    ratios = {1: 0.5, 64: 1.2, 4096: 1.6}
    text = summary.reading(table_of(ratios, doubt=0.3), "rawe")
    assert text.endswith("It is slower at 4 KiB (ratio 1.60). No difference shown at 64 B.")


def test_wide_sizes__half_the_interval_is_more_than_5_percent():
    table = table_of({1: 0.5, 64: 0.4, 1024: 2.0}, doubt=0.024)
    assert summary.wide_sizes(table, "rawe") == "64 B"
    assert summary.wide_sizes(table_of({1: 0.5}), "rawe") is None
    assert summary.wide_sizes(table_of({0: 0.5}, benchmark="Barrier", doubt=0.2), "rawe") == ""
    table.rows[2].intervals.clear()
    assert summary.wide_sizes(table, "rawe") == "64 B to 1 KiB"


def test_spans__neighbours_are_joined():
    rows = table_of(dict.fromkeys((1, 2, 4, 1024, 2048), 1.0)).rows
    found = summary.spans(rows, lambda row: row.size in (1, 2, 1024))
    assert found == ["1 B to 2 B", "1 KiB"]
    assert summary.listed(["a"]) == "a" and summary.listed(["a", "b", "c"]) == "a, b and c"


def test_is_shown__no_block_for_each_rank_is_no_communication():
    assert not summary.is_shown(summary.Key("Reduce_scatter_block", 8, 16, "time_us"))
    assert summary.is_shown(summary.Key("Reduce_scatter_block", 8, 32, "time_us"))


def test_is_shown__bandwidths_of_mpbench():
    assert summary.is_shown(summary.Key("MpBandwidth", 2, 64, "mbytes_per_s"))
    assert not summary.is_shown(summary.Key("MpBandwidth", 2, 64, "time_us"))


def test_allowed__full_frames_less_the_headers():
    assert shaping.bare_mbytes_per_s(10**9, 1500) == pytest.approx(125 * 1500 / 1514)
    assert shaping.payload_bytes("tcp", 1500, True) == 1448
    assert shaping.payload_bytes("rawe", 1500, False) == 1448
    assert shaping.payload_bytes("rawe", 1500, True) == 1416
    assert shaping.allowed_mbytes_per_s("vader", 10**9, 1500, True) is None


def test_shares__of_the_largest_messages(data):
    lines = shaping.shares(data.tables, 10**10, 1500, False)
    assert [(line.transport, line.size) for line in lines] == [("tcp", 4096), ("rawe", 4096)]
    assert lines[0].reached == pytest.approx(819.2)
    assert lines[0].cells()[-1] == f"{819.2 / (1250 * 1448 / 1514):.3f}"
    assert "819.20 MB/s with 4 KiB" in lines[0].sentence()


def test_shares__only_on_a_shaped_line(data):
    assert report.shares(data.tables, ABOUT) == []
    shaped = {**ABOUT, "shape": {"rate": "10gbit", "nic": "plain"}}
    assert len(report.shares(data.tables, shaped)) == 2


def test_terminal_table__one_line_a_size_with_ratio_and_baseline(data):
    lines = report.terminal_table(data.tables[0]).splitlines()
    assert lines[1].split() == ["size", "tcp", "rawe", "rawe/tcp", "baseline", "rawe/baseline"] + [
        "way"
    ]
    assert lines[2].split() == [
        *("1", "B", "4.00", "2.00", "0.50", "(0.38-0.67)", "1.00", "2.00", "(1.50-2.67)", "tcp-gso")
    ]
    assert lines[-1].split() == ["geometric", "mean", "0.50"]
    barrier = next(table for table in data.tables if table.benchmark == "Barrier")
    *_, row, last = report.terminal_table(barrier).splitlines()
    assert row.split() == ["8.00", "8.00", "~1.00", "(1.00-1.00)"]
    assert last.strip() == "rawe/tcp: no difference shown"


def test_plots__first_table_of_times_with_its_intervals(data):
    (plot,) = report.plots(data.tables)
    assert plot.title == "PingPong: half the round trip, 2 ranks: rawe/tcp, below 1 is faster"
    assert [(label, ratio) for label, ratio, _ in plot.lines] == [("1 B", 0.5), ("64 KiB", 0.5)]
    assert plot.lines[0][2] == pytest.approx((0.375, 2 / 3))


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_write_csv__every_sample_and_the_medians(done, tmp_path):
    record = Record(done)
    ImbDriver().write_csv(tmp_path, record, ABOUT)
    assert len(rows_of(tmp_path / "samples.csv")) == sum(len(one.result) for one in done)
    found = {
        (row["benchmark"], row["bytes"], row["metric"], row["transport"]): row
        for row in rows_of(tmp_path / "medians.csv")
    }
    one = found["PingPong", "1", "time_us", "rawe"]
    assert (one["median"], one["min"], one["max"], one["rounds"]) == ("2", "1.8", "2.4", "3")
    assert (one["ratio_to_tcp"], one["ratio_to_baseline"]) == ("0.5000", "2.0000")
    assert (one["ratio_low"], one["ratio_high"]) == ("0.375", "0.666667")
    assert (one["baseline_ratio_low"], one["baseline_ratio_high"]) == ("1.5", "2.66667")


def test_write_csv__and_title_name_the_wiring(done, data, tmp_path):
    cut = {**ABOUT, "shape": {"mtu": None, "nic": "cut"}}
    driver = ImbDriver()
    driver.write_csv(tmp_path, Record(done), cut)
    for file in ("samples.csv", "medians.csv"):
        assert {row["nic"] for row in rows_of(tmp_path / file)} == {"cut"}
    assert "--nic cut" in driver.title(data, cut)
    assert driver.texts(data, cut)[0].startswith("NICs: the sender cuts")
    driver.write_csv(tmp_path, Record(done), ABOUT)
    assert {row["nic"] for row in rows_of(tmp_path / "medians.csv")} == {""}
    assert "--nic" not in driver.title(data, ABOUT)


def test_load__is_what_was_written(done, data, tmp_path):
    ImbDriver().write_csv(tmp_path, Record(done), ABOUT)
    loaded = ImbDriver().load(tmp_path, ABOUT)
    assert list(loaded.medians) == list(data.medians)
    texts = [[report.terminal_table(table) for table in one.tables] for one in (loaded, data)]
    assert texts[0] == texts[1]
    # (max - min) / median is the same for all but Barrier, whose rounds are equal.
    assert loaded.spread() == pytest.approx(0.3)


def test_load__a_file_without_intervals_has_those_of_its_ranges(done, tmp_path):
    ImbDriver().write_csv(tmp_path, Record(done), ABOUT)
    lines = [line.split(",")[:-4] for line in open(tmp_path / "medians.csv", encoding="utf-8")]
    text = "".join(",".join(line) + "\n" for line in lines)
    (tmp_path / "medians.csv").write_text(text, encoding="utf-8")
    row = ImbDriver().load(tmp_path, ABOUT).tables[0].rows[0]
    assert row.intervals["rawe", "tcp"] == pytest.approx((1.8 / 4.8, 2.4 / 3.6))
    assert row.intervals["rawe", "baseline"] == pytest.approx((1.8 / 1.2, 2.4 / 0.9))


def test_report__holds_tables_problems_and_the_command(done, tmp_path):
    driver = ImbDriver()
    driver.write_csv(tmp_path, Record(done), ABOUT)
    names = reports.write(driver, tmp_path, ABOUT, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "faster at every size" in page and "no component" in page
    if chart.available():
        assert names == ["report.html", "report.md", "plot.svg"]
        assert page.count("<svg") == 2  # PingPong and its ratio; the others have a single size
        assert "](plot.svg)" in text
    for part in (
        "| MTU | 1500 bytes |",
        "| 1 B | 4.00 | 2.00 | 0.50 (0.38-0.67) | 1.00 | 2.00 (1.50-2.67) | tcp-gso |",
        "**ucx** was not measured",
        "compare --quick",
    ):
        assert part in text


def test_points__without_what_a_log_axis_cannot_show(data):
    assert data.points("tcp", "Bcast", 2, "time_us") == []
    assert data.points("rawe", "PingPong", 2, "time_us") == [(1, 2.0), (65536, 50.0)]


def test_panels__of_benchmarks_with_several_sizes(data):
    assert report.panels(data) == [("PingPong", 2, "time_us"), ("Uniband", 2, "mbytes_per_s")]
    drawn = report.panel_chart(data, "PingPong", 2, "time_us")
    assert [(line.key, line.dashed) for line in drawn.lines] == [
        ("tcp", False),
        ("rawe", False),
        ("baseline", True),
    ]
