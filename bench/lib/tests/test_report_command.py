# SPDX-License-Identifier: BSD-3-Clause
"""Tests of bench/report: pages from a comparison's folder, and from what a reference run keeps."""

import pytest
from test_tools import script

from benchlib import reference

# A run may have been made of some parts only.
KEPT = max(reference.newest(), key=lambda one: len(one.index["parts"]))


@pytest.fixture(name="report")
def fixture_report():
    return script("report")


@pytest.mark.parametrize("part", ["seeds", "loss-5", "nas", "apps", "rate-1gbit"])
def test_main__a_part_of_the_reference_run(report, tmp_path, part, capsys):
    assert report.main([str(KEPT.directory / part), "--output", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    about = KEPT.about(part)
    assert about["command"] in text and all(problem in text for problem in about["problems"])
    assert dict(about["facts"])["Processor"] in text
    assert str(tmp_path / "report.html") in capsys.readouterr().out


def test_sources__every_comparison_of_the_reference_run(report):
    found = report.sources(KEPT.directory)
    assert {about["driver"] for _, about, _ in found} == {"app-runs", "imb-runs", "nas-runs"}
    for folder, _, target in found:
        assert target == reference.ROOT / "build" / "reports" / KEPT.directory.name / folder.name


@pytest.mark.parametrize("name", ["memory", "nothing"])
def test_main__what_is_no_comparison_is_an_error(report, name, capsys):
    assert report.main([str(KEPT.directory / name)]) == 2
    assert "no comparison" in capsys.readouterr().err


def test_main__a_folder_without_facts_is_an_error(report, tmp_path, capsys):
    assert report.main([str(tmp_path)]) == 2
    assert "no finished comparison" in capsys.readouterr().err
