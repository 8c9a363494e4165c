# SPDX-License-Identifier: BSD-3-Clause
"""Tests of claims, headline table, pages and reference runs: pages agree with the files they are
made from."""

import json
import re
from pathlib import Path

import pytest
from test_tools import script

from benchlib import reference, report, results, summary
from benchlib.summary import Metric

ROOT = Path(__file__).resolve().parents[3]
METRICS = {
    one.key: one
    for one in (
        Metric("time_us", "", "µs", False),
        Metric("mbytes_per_s", "", "MB/s", True),
        Metric("mops", "", "Mop/s", True),
        Metric("seconds", "", "s", False),
        Metric("computing", "", "us", False),
        Metric("median", "", "us", False),
        Metric("p90", "", "us", False),
    )
}


def median(value, doubt=None):
    return summary.Median(5, value, value, value, doubt)


def medians(run, part, lines, hosts=2):
    """Keep medians of a part: lines (benchmark, ranks, size, metric, tcp, rawe), each with the
    interval of rawe's ratio behind it, or one without width."""
    found = {}
    for benchmark, ranks, size, metric, tcp, rawe, *doubt in lines:
        key = summary.Key(benchmark, size, ranks, hosts, METRICS[metric])
        found[key] = {"tcp": median(tcp)}
        if rawe is not None:
            found[key]["rawe"] = median(rawe, doubt[0] if doubt else (rawe / tcp, rawe / tcp))
    about = {"command": "c --rounds 7", "date": run.date}
    run.index["parts"][part] = {**about, "medians": reference.rows_of(found)}


def made(directory, date, processor, plot=False):
    """A reference run without parts."""
    directory.mkdir(parents=True)
    if plot:
        (directory / reference.PLOT).touch()
    machine = [["Processor", f"{processor}, 2 cores"]]
    index = {"date": date, "machine": machine, "commit": "abc", "parts": {}}
    return reference.Reference(directory, index)


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """A made-up reference run."""
    run = made(tmp_path / "results" / "2030-01-02", "2030-01-02", "P", plot=True)
    lines = [("PingPong", 2, 1, "time_us", 4.0, 1.6), ("PingPong", 2, 1024, "time_us", 5.0, 2.5)]
    lines += [
        (name, 4, 1 << power, "time_us", 10.0, 4.0)
        for name in results.FOUR
        for power in range(2, 17)
    ]
    for size, tcp, rawe in ((64, 10.0, 80.0), (1024, 100.0, 900.0), (4096, 400.0, 1000.0)):
        lines.append(("Uniband", 2, size, "mbytes_per_s", tcp, rawe))
    medians(run, "imb", lines)
    lines = [("LU", 4, "W", "mops", 1000, 1093), ("LU", 4, "W", "seconds", 5, 4)]
    lines += [("SP", 4, "W", "mops", 1000, 900), ("SP", 4, "S", "mops", 1000, None)]
    medians(run, "nas", lines, hosts=4)
    reference.save(run.directory, run.index)
    (newest,) = reference.newest(tmp_path / "results")
    return newest


@pytest.fixture(name="intel")
def fixture_intel(tmp_path):
    """Another one, on an Intel processor, over the wiring cut."""
    directory = tmp_path / "results" / "2030-01-03-intel"
    run = made(directory, "2030-01-03", "Intel(R) Xeon(R) Processor")
    lines = [("PingPong", 2, 1, "time_us", 4.0, 5.0)]
    lines += [
        (name, 2, 256 << 10, "mbytes_per_s", 1000.0, rate)
        for name, rate in (("Uniband", 1500.0), ("UnibandCold", 700.0))
    ]
    medians(run, "cut", lines)
    lines = [("sender", 2, 1 << 20, "computing", 40000.0, 1000.0)]
    medians(run, "overlap", lines)
    reference.save(directory, run.index)
    return run


def test_headline__shows_losses_beside_gains(run):
    rows = [*results.patterns(run, "whole", 1500), *results.programs(run)]
    found = {row.title: row for row in rows}
    assert found["1 B, half round trip"].cells() == ["4 µs", "1.6 µs", "2.50", "better"]
    assert found["LU W, 4 ranks on 4 hosts"].cells()[2:] == ["1.09", "better"]
    assert found["SP W, 4 ranks on 4 hosts"].cells()[2:] == ["0.90", "**worse**"]
    assert not results.patterns(run, "cut", 1500)
    assert "SP S, 4 ranks on 4 hosts" not in found


@pytest.mark.parametrize(
    "rawe, doubt, mark, verdict",
    [
        (10.4, (0.9, 1.2), "~0.96", "no difference shown"),
        (12.5, (1.1, 1.3), "**0.80**", "**worse**"),
        (5.0, (0.4, 0.6), "2.00", "better"),
        (5.0, None, "~2.00", "no difference shown"),
    ],
)
def test_headline__an_interval_with_1_is_no_difference(run, rawe, doubt, mark, verdict):
    line = ("PingPong", 2, 1, "time_us", 10.0, rawe, doubt)
    medians(run, "cut", [line])
    (found,) = results.patterns(run, "cut", 1500)
    assert (found.mark(), found.verdict) == (mark, verdict)


def test_program_lines__makers_side_by_side(run, intel):
    medians(intel, "nas", [("SP", 4, "W", "mops", 1000, 1200)], hosts=4)
    found = {line[0]: line[1:] for line in results.program_lines([run, intel])}
    assert found["SP W, 4 ranks on 4 hosts"] == ["**0.90**", "1.20"]
    assert found["LU W, 4 ranks on 4 hosts"] == ["1.09", ""]


def test_worst__names_the_slowest_first(run, intel):
    assert results.worst(intel) == (
        "Intel: 2 of 4 workloads are slower than over btl/tcp, the worst: 256 KiB, stream, cold, "
        "cut (**0.70**); 1 B, half round trip, cut (**0.80**)."
    )
    del run.index["parts"]["nas"]
    assert results.worst(run).startswith("P: none of ")


def test_results_page__holds_headline_claims_machine_and_files(run):
    text = results.results_page([run])
    for part in (
        "| Sarda 2003, half the time: 1 B, half round trip | 4 µs | 1.6 µs | 2.50 | better |",
        "faster collectives: 64 B, Alltoall | 10 µs | 4 µs | 2.50 | better |",
        "so far there is a run on P's only",
        "P, 2 cores",
        "../results/2030-01-02/reference.json",
        "Not measured yet.",
        f"`{' '.join(reference.PARTS['imb'])}`",
        "| imb | 2030-01-02 |",
    ):
        assert part in text


def test_results_page__shows_makers_side_by_side_and_cut_first(run, intel):
    text = results.results_page([intel, run])
    assert "run on" not in text.partition("## Latency")[0]
    assert text.index("### cut, MTU 1500") < text.index("### whole, MTU 1500")
    assert "| workload | Intel: tcp | rawe | times better |" in text
    assert "| 256 KiB, stream, cold | 1,000 MB/s | 700 MB/s | 0.70 | **worse** |" in text
    # Both in one table, where both have the part.
    medians(run, "cut", [("PingPong", 2, 1, "time_us", 8.0, 2.0)])
    line = "| 1 B, half round trip | 4 µs | 5 µs | 0.80 | **worse** | 8 µs | 2 µs | 4.00 | better |"
    assert line in results.results_page([intel, run])


def test_results_page__has_the_tables_without_a_comparison(run):
    run.index["parts"]["many-ranks"] = {"table": [["ranks a host", "half round trip"], [1, 1.8]]}
    run.index["parts"]["others"] = {"table": [["", "rawe", "MPICH"], ["1 B", 1.7, 3.9]]}
    assert "| ranks a host | half round trip |" in results.results_page([run])
    for text in (results.results_page([run]), results.readme_block([run])):
        assert "| 1 B | 1.7 | 3.9 |" in text


def test_readme__only_the_block_between_the_marks_changes(run):
    before = f"a\n{results.BEGIN}\nold 0.11 ×\n{results.END}\nb\n"
    after = results.readme(before, [run])
    assert after.startswith("a\n") and after.endswith("\nb\n")
    assert "| SP W, 4 ranks on 4 hosts | **0.90** |" in after and "0.11" not in after
    assert results.readme(after, [run]) == after


def test_readme__shows_the_plots_that_there_are(run, intel):
    block = results.readme_block([intel, run])
    assert re.findall(r"!\[.*\]\((.*)\)", block) == ["results/2030-01-02/plot.svg"]
    assert "`cut`, MTU 1500, P" in block


def test_stale__finds_a_value_that_was_changed_by_hand(run, tmp_path):
    (tmp_path / "doc").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}\n", encoding="utf-8")
    for path, text in results.stale(tmp_path, [run]).items():
        path.write_text(text, encoding="utf-8")
    assert not results.stale(tmp_path, [run])
    readme.write_text(readme.read_text(encoding="utf-8").replace("1.09", "3.50"), encoding="utf-8")
    assert list(results.stale(tmp_path, [run])) == [readme]


def test_newest__the_last_day_of_each_maker(run, intel, tmp_path):
    (tmp_path / "results" / "2031-01-01").mkdir()
    older = {**intel.index, "date": "2029-01-01"}
    (tmp_path / "results" / "2029-01-01-intel").mkdir()
    reference.save(tmp_path / "results" / "2029-01-01-intel", older)
    found = reference.newest(tmp_path / "results")
    assert [one.directory for one in found] == [intel.directory, run.directory]
    assert [one.maker for one in found] == ["Intel", "P"]
    assert reference.newest(tmp_path / "none") == []


def test_condense__keeps_what_pages_show(run):
    lines = [("PingPong", 2, 1 << power, "time_us", 4.0, 2.0) for power in range(11)]
    medians(run, "cut", lines)
    medians(run, "rate-1gbit", lines)
    before = results.results_page([run])
    results.condense(run)
    kept = reference.load(run.directory)
    assert results.results_page([kept]) == before
    assert [key.size for key in kept.medians("cut")] == [1, 1024]
    assert [key.size for key in kept.medians("rate-1gbit")] == [1, 4, 16, 64, 256, 1024]


@pytest.mark.parametrize("kept", reference.newest(), ids=lambda one: one.maker)
def test_results__hold_known_parts_and_nothing_beside_index_and_plot(kept):
    assert {path.name for path in kept.directory.iterdir()} == {reference.INDEX, reference.PLOT}
    assert set(kept.index["parts"]) <= set(reference.PARTS)


def test_publish__every_part_is_a_command_of_this_checkout():
    assert all((ROOT / command[0]).exists() for command in reference.PARTS.values())


def test_publish__keeps_values_and_continues_where_it_was(tmp_path, monkeypatch):
    publish = script("publish")
    calls = []

    def call(words):
        """A driver that writes its values, and fails at its first call for memory."""
        calls.append(words)
        if words[0].endswith("memory") and len(calls) == 2:
            return 2
        work = Path(words[words.index("--output") + 1])
        work.mkdir(parents=True)
        for name in ("instructions.csv", "memory.csv", "report.md"):
            (work / name).write_text("a,b\n", encoding="utf-8")
        return 0

    monkeypatch.setattr(publish, "call", call)
    monkeypatch.setattr(publish, "commit", lambda: "abc")
    monkeypatch.setattr(publish.places, "machine", lambda: [("Processor", "P")])
    argv = ["--parts", "instructions,memory", "--output", str(tmp_path / "kept")]
    argv += ["--build", str(tmp_path / "build")]
    assert publish.main(argv) == 2
    index = json.loads((tmp_path / "kept" / reference.INDEX).read_text(encoding="utf-8"))
    assert list(index["parts"]) == ["instructions"]
    assert publish.main(argv) == 0
    assert [Path(words[0]).name for words in calls] == ["instructions", "memory", "memory"]
    kept = reference.load(tmp_path / "kept")
    assert kept.part("memory")["table"] == [["a", "b"]]


def test_publish__keeps_medians_problems_and_a_plot(tmp_path, monkeypatch):
    publish = script("publish")
    key = summary.Key("PingPong", 1, 2, 2, METRICS["time_us"])

    def call(words):
        work = Path(words[words.index("--output") + 1])
        work.mkdir(parents=True)
        summary.write_medians(work / "medians.csv", {key: {"tcp": median(2.0)}})
        (work / "plot.svg").write_text("<svg/>", encoding="utf-8")
        report.save_about(work, {"problems": ["no end"]})
        return 1

    monkeypatch.setattr(publish, "call", call)
    argv = ["--parts", "cut", "--output", str(tmp_path / "kept"), "--build", str(tmp_path)]
    assert publish.main(argv) == 0
    run = reference.load(tmp_path / "kept")
    assert run.medians("cut") == {key: {"tcp": median(2.0)}}
    assert run.part("cut")["problems"] == 1
    assert (run.directory / "plot.svg").read_text(encoding="utf-8") == "<svg/>"


def test_publish__comparisons_get_rounds_or_go_on(tmp_path):
    publish = script("publish")
    options = publish.parse(["--output", str(tmp_path), "--build", str(tmp_path), "--rounds", "9"])
    assert publish.command("seeds", tmp_path / "w", options)[1:] == [
        "--suite", "seeds", "--build", str(tmp_path), "--output", str(tmp_path / "w"),
        "--rounds", "9",
    ]  # fmt: skip
    (tmp_path / "setup.json").touch()
    assert publish.command("seeds", tmp_path, options)[1:] == ["--resume", str(tmp_path)]
    assert "--rounds" in publish.command("many-ranks", tmp_path / "w", options)
    assert "--rounds" not in publish.command("memory", tmp_path / "w", options)


def test_loss__is_shown_beside_lossless_values_even_where_tcp_did_not_end(run):
    assert not results.claimed(run, results.LOSS), "nothing was measured"
    for percent, tcp_us, rawe_us in ((0, 4, 2), (1, 800, 6)):
        medians(run, f"loss-{percent}", [("PingPong", 2, 1, "time_us", tcp_us, rawe_us)])
    # btl/tcp is left out after it hung twice.
    (*_, found) = run.part("loss-1")["medians"][0]
    del found["tcp"]
    assert [(line.title, line.cells()) for line in results.claimed(run, results.LOSS)] == [
        ("0 % loss: 1 B, half round trip", ["4 µs", "2 µs", "2.00", "better"]),
        ("1 % loss: 1 B, half round trip", ["-", "6 µs", "-", "tcp did not end"]),
    ]


def test_patterns__programs_first_with_their_slow_tenth(run):
    lines = [("exchange", 2, 262144, metric, 4.0, 3.0) for metric in ("median", "p90")]
    medians(run, "programs", lines)
    title = "256 KiB, exchange after computing"
    found = [line.title for line in results.patterns(run, "whole", 1500)]
    assert found[:2] == [title, f"{title}, 90th percentile"]
