# SPDX-License-Identifier: BSD-3-Clause
"""A small plot in characters: ratios with their intervals, one line each, on a logarithmic axis."""

import locale
import math
import sys
from dataclasses import dataclass

ASCII, FANCY = "o-||", "●─│┊"  # the ratio, its interval, the interval's ends, the line at 1
WIDTH_MOST = 100  # columns
WIDTH_LEAST = 20  # of the axis


@dataclass
class Plot:
    """A title, and (label, ratio, interval or None) of each line."""

    title: str
    lines: list


def is_utf8():
    """Whether the terminal shows more than ASCII."""
    codes = sys.stdout.encoding or "", locale.nl_langinfo(locale.CODESET)
    return all(code.lower().replace("-", "") == "utf8" for code in codes)


def text(plot, columns, fancy):
    """The plot as text, at most as wide as the terminal where that has some room."""
    dot, bar, end, one = FANCY if fancy else ASCII
    left = max(len(label) for label, *_ in plot.lines) + 4
    width = max(min(columns, WIDTH_MOST) - left - 1, WIDTH_LEAST)
    ranges = [doubt or (ratio, ratio) for _, ratio, doubt in plot.lines]
    low = min(1.0, *(ends[0] for ends in ranges)) / 1.05
    high = max(1.0, *(ends[1] for ends in ranges)) * 1.05

    def at(ratio):
        return round(math.log(ratio / low) / math.log(high / low) * (width - 1))

    found = [f"  {plot.title}"]
    for (label, ratio, _), ends in zip(plot.lines, ranges, strict=True):
        cells = [" "] * width
        cells[at(1)] = one
        first, last = at(ends[0]), at(ends[1])
        cells[first : last + 1] = bar * (last + 1 - first)
        cells[first] = cells[last] = end
        cells[at(ratio)] = dot
        found.append(f"  {label:>{left - 4}}  {''.join(cells)}".rstrip())
    found.append(" " * left + _axis(low, high, at(1), width))
    return "\n".join(found)


def _axis(low, high, one_at, width):
    """The ends of the axis and 1; an end too close to 1 is left out."""
    ends = f"{low:.2f}", f"{high:.2f}"
    cells = list(ends[0] + " " * (width - len("".join(ends))) + ends[1])
    if one_at <= len(ends[0]):
        cells[: len(ends[0])] = " " * len(ends[0])
    if one_at >= width - len(ends[1]) - 1:
        cells[width - len(ends[1]) :] = " " * len(ends[1])
    cells[one_at] = "1"
    return "".join(cells).rstrip()
