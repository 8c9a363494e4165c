# SPDX-License-Identifier: BSD-3-Clause
"""The report of a comparison: its facts beside the CSV files, and the page made of both."""

import json
from pathlib import Path

from . import chart
from .error import BenchError
from .page import Page

ABOUT = "about.json"
NO_PLOTS = "There are no plots: install Debian's python3-matplotlib."
SPREAD_MAX = 0.3  # on a quiet machine a typical value stays below that


def save_about(directory, about):
    """Keep what the CSV files do not hold: facts, problems, the command."""
    text = json.dumps(about, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (Path(directory) / ABOUT).write_text(text, encoding="utf-8")


def load_about(directory):
    """What save_about() kept."""
    try:
        return json.loads((Path(directory) / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(
            f"{directory} holds no finished comparison ({error}); name a folder that a compare "
            "wrote, or a reference run below results/"
        ) from error


def spread_text(spread):
    """The spread in words."""
    return f"a typical value differs by {spread:.0%} between rounds"


def page_of(driver, data, about):
    """The report as a Page."""
    page = Page(driver.title(data, about), contents=driver.contents)
    if about["interrupted"]:
        page.text(f"**{about['interrupted']}**")
    facts = list(about["facts"])
    spread = driver.spread(data)
    if spread is not None:
        facts.append(("Spread", spread_text(spread)))
    page.facts(facts)
    page.text(driver.lead(data, about))
    problems = about["problems"] + ([] if chart.available() else [NO_PLOTS])
    if problems:
        page.heading("What went wrong")
        page.bullets(problems)
    driver.body(page, data, about)
    page.heading("Repeating it")
    page.code(about["command"])
    return page


def write(driver, source, about, target):
    """Make report.html, report.md and the plots of a folder's CSV files; the files' names."""
    return page_of(driver, driver.load(source, about), about).write(target)
