# SPDX-License-Identifier: BSD-3-Clause
"""Tests of page.py and chart.py: both forms hold the same, and the HTML needs nothing else."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from benchlib import chart
from benchlib import page as pages
from benchlib.chart import BarChart, Line, LineChart
from benchlib.page import Page, anchor

VOID = {"meta", "br", "hr", "img", "link", "input"}
pytestmark = pytest.mark.skipif(not pages.html_available(), reason="no python3-markdown")


class Checker(HTMLParser):
    """Collects ids, references and text; fails on tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href", "src"):
                self.links.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


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
    for name in ("One", "Two", "Two", "Four", "Five"):
        made.heading(name)
        made.text(f"About **{name}**.")
    made.table(["size", "tcp|x"], [["1 B", "4.00"]])
    made.bullets(["first", "second"])
    made.code("a < b\nc")
    return made


def test_anchor__as_links_in_markdown_expect_it():
    assert anchor("PingPong: half, 2 ranks") == "pingpong-half-2-ranks"


def test_html__is_well_formed_unique_and_complete(page):
    page.charts([(lines(), None), (lines("Other"), None)])
    found = Checker(page.html())
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links} <= set(found.ids)
    text = " ".join(found.words)
    for part in ("Linux <6.1>", "code <x>", "4.00", "second", "a < b", "PingPong", "time in µs"):
        assert part in text


def test_html__refers_to_nothing_outside(page):
    page.charts([(lines(), "lines.svg")])
    assert all(link.startswith("#") for link in Checker(page.html()).links)
    assert not re.search(r"@import|url\((?!#)|<script|<link", page.html())


def test_markdown__holds_the_same(page):
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


def test_write__html_markdown_and_images(page, tmp_path):
    pytest.importorskip("matplotlib")
    bars = BarChart("Speed", "ratio", ["LU"], {"tcp": [1.0], "rawe": [None]}, reference=1.0)
    page.charts([(lines(), "lines.svg"), (bars, None)])
    page.panels([lines(), lines("Other")], "both.svg", "Both")
    assert page.write(tmp_path) == ["report.html", "report.md", "lines.svg", "both.svg"]
    for name, title in (("lines.svg", "PingPong"), ("both.svg", "Other")):
        root = ElementTree.parse(tmp_path / name).getroot()
        assert title in "".join(root.itertext())
    assert "![PingPong](lines.svg)\n\n![Both](both.svg)" in (tmp_path / "report.md").read_text(
        encoding="utf-8"
    )


def test_svg__is_xml_with_a_title_in_the_colours_of_the_page():
    pytest.importorskip("matplotlib")
    text = chart.svg(lines(), "a")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img" and root.get("aria-label") == "PingPong"
    assert "currentColor" in text and chart.INK not in text
    assert "4 KiB" in "".join(root.itertext())


def test_svg__names_differ_between_charts_of_a_page():
    pytest.importorskip("matplotlib")
    ids = [set(re.findall(r' id="([^"]+)"', chart.svg(lines(), name))) for name in ("a", "b")]
    assert ids[0] and not ids[0] & ids[1]


def test_svg__a_chart_without_points_is_drawn_all_the_same():
    pytest.importorskip("matplotlib")
    empty = LineChart("Nothing", "µs", [Line("tcp", "btl/tcp", [(0, 1.0)])])
    assert "Nothing" in chart.svg(empty, "a")


def test_page__without_matplotlib_there_are_no_charts(page, monkeypatch):
    monkeypatch.setattr(chart, "available", lambda: False)
    page.panels([lines()], "both.svg", "Both")
    page.charts([(lines(), "lines.svg")])
    assert "<svg" not in page.html() and ".svg" not in page.markdown()


def test_write__without_python_markdown_there_is_markdown(page, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "markdown", None)
    assert not pages.html_available() and page.write(tmp_path) == ["report.md"]


def test_size_text__binary_units():
    assert [chart.size_text(size) for size in (0, 1000, 1024, 65536, 4 << 20)] == [
        "0 B",
        "1000 B",
        "1 KiB",
        "64 KiB",
        "4 MiB",
    ]
