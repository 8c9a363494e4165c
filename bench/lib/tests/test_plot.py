# SPDX-License-Identifier: BSD-3-Clause
"""Tests of plot.py."""

import io

import pytest

from benchlib import plot

PLOT = plot.Plot(
    "a title",
    [("1 B", 0.5, (0.4, 0.6)), ("1 KiB", 1.02, (0.9, 1.2)), ("4 MiB", 2.0, None)],
)


def test_text__dots_and_intervals_beside_the_line_at_1():
    title, first, second, third, axis = plot.text(PLOT, 60, False).splitlines()
    assert title.strip() == "a title"
    at = axis.index("1", axis.index("0.38") + 4)
    assert first.startswith("    1 B  ") and first.index("o") < at and first[at] == "|"
    assert second.index("|-") < at < second.rindex("-|")
    assert third[at] == "|" and third.index("o") > at and "-" not in third
    assert axis.split() == ["0.38", "1", "2.10"]


@pytest.mark.parametrize("columns, widest", [(50, 49), (80, 79), (400, plot.WIDTH_MOST - 1)])
@pytest.mark.parametrize("fancy", [False, True])
def test_text__fills_the_terminal_and_no_more(columns, widest, fancy):
    assert max(map(len, plot.text(PLOT, columns, fancy).splitlines())) == widest


def test_text__is_ascii_unless_the_terminal_shows_more():
    assert plot.text(PLOT, 60, False).isascii() and not plot.text(PLOT, 60, True).isascii()


def test_text__a_ratio_of_1_alone_has_an_axis():
    lines = plot.text(plot.Plot("x", [("1 B", 1.0, None)]), 10, False).splitlines()
    assert lines[1].split() == ["1", "B", "o"] and lines[2].split() == ["0.95", "1", "1.05"]


def test_text__an_end_of_the_axis_at_1_is_only_that():
    one = plot.Plot("x", [("1 B", 0.5, (0.4, 0.6))])
    assert plot.text(one, 60, False).splitlines()[-1].split() == ["0.38", "1"]


@pytest.mark.parametrize(
    "encoding, codeset, fancy",
    [("utf-8", "UTF-8", True), ("utf-8", "ANSI_X3.4-1968", False), ("latin-1", "UTF-8", False)],
)
def test_is_utf8__both_the_stream_and_the_locale(monkeypatch, encoding, codeset, fancy):
    monkeypatch.setattr(plot.sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    monkeypatch.setattr(plot.locale, "nl_langinfo", lambda _: codeset)
    assert plot.is_utf8() == fancy
