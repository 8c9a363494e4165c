# SPDX-License-Identifier: BSD-3-Clause
"""Tests of page.py."""

from xml.etree import ElementTree

import pytest

from benchlib.page import Line, LineChart, Page, anchor


def lines(title="PingPong"):
    points = [(1, 4.0), (1024, 5.0), (1 << 20, 400.0)]
    return LineChart(
        title,
        "time in µs",
        [Line("tcp", "btl/tcp", points), Line("baseline", "baseline", points[:2], dashed=True)],
    )


@pytest.fixture(name="page")
def fixture_page():
    made = Page("rawe & tcp", "A lead with `code <x>`.")
    made.facts([("Kernel", "Linux <6.1>")])
    for name in ("One", "Two"):
        made.heading(name)
        made.text(f"About **{name}**.")
    made.table(["size", "tcp|x"], [["1 B", "4.00"]])
    made.bullets(["first", "second"])
    made.code("a < b\nc")
    return made


def test_anchor__as_links_in_markdown_expect_it():
    assert anchor("PingPong: half, 2 ranks") == "pingpong-half-2-ranks"


def test_markdown__holds_what_was_added(page):
    text = page.markdown()
    for part in (
        "# rawe & tcp\n",
        "| Kernel | Linux <6.1> |",
        "## Two",
        "| size | tcp\\|x |",
        "| --- | ---: |",
        "- second",
        "    a < b",
    ):
        assert part in text


def test_write__markdown_and_images(page, tmp_path):
    pytest.importorskip("matplotlib")
    empty = LineChart("Nothing", "µs", [Line("tcp", "btl/tcp", [(0, 1.0)])])
    page.charts([lines("Speed")], "speed.svg", "Speed")
    page.charts([lines(), lines("Other"), empty], "all.svg", "All")
    assert page.write(tmp_path) == ["report.md", "speed.svg", "all.svg"]
    for name, titles in (("speed.svg", ("Speed",)), ("all.svg", ("Other", "Nothing", "4 KiB"))):
        text = "".join(ElementTree.parse(tmp_path / name).getroot().itertext())
        assert all(title in text for title in titles)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "![Speed](speed.svg)\n\n![All](all.svg)" in text
