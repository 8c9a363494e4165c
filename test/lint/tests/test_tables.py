# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.tables: the data read from the sources, and detection of a stale page."""

import shutil

import pytest

from rawelint import tables, tree

PARAMETERS = r"""
#define MCA_BTL_RAWE_NUMBER_LIST(X)                               \
    X(ethertype, 0x88B5, 0x0600, 0xFFFF, "", "", 4,               \
      "EtherType of all frames")                                  \
    X(ring_bytes, 1 << 24, 1 << 18, 1 << 30, "bytes", "", 4,      \
      "Memory, (all) " /* of the ring */                          \
      "of it")                                                    \
    X(delay_us, 50, 0, 1 << 20, "microseconds", ", 0: never", 8,  \
      "How long")                                                 \
    X(window, 512, 16, 1024, "frames", ", a power of two", 6,     \
      "Window | size")

#define MCA_BTL_RAWE_FLAG_LIST(X)                                 \
    X(stats, false, 3, "Report")                                  \
    X(loopback, true, 3, "Same host")

#define MCA_BTL_RAWE_TEXT_LIST(X)                                 \
    X(include, NULL, 1, "Interfaces")                             \
    X(helper, HELPER, 5, "A program")
"""
HEADER = """
#define RAWE_COUNTER_LIST(X)  \\
    X(sent,    "frames sent") \\
    X(dropped, "frames "      \\
               "dropped")
"""
GLUE = """
static const struct metric metrics[] = {
    {"link_sent", "frames handed to the kernel", COUNT(link.frames_sent)},
    {"most", "memory in use, "
     "at most", MOST(most)},
};
"""


def test_parameters__numbers():
    rows = {row.name: row for row in tables.parameters(PARAMETERS)}
    assert (rows["ethertype"].default, rows["ethertype"].limits) == ("0x88B5", "0x0600 to 0xFFFF")
    assert (rows["ring_bytes"].default, rows["ring_bytes"].limits) == (
        "16777216",
        "256 KiB to 1 GiB",
    )
    assert rows["ring_bytes"].sentence == "Memory, (all) of it"
    assert rows["delay_us"].limits == "0 to 1048576 µs; 0: never"
    assert rows["window"].limits == "16 to 1024 frames, a power of two"


def test_parameters__flags_and_texts():
    rows = {row.name: row for row in tables.parameters(PARAMETERS)}
    assert (rows["stats"].default, rows["loopback"].default) == ("false", "true")
    assert (rows["include"].default, rows["include"].sentence) == ("empty", "Interfaces")
    assert rows["helper"].default == "set by `configure`"


@pytest.mark.parametrize(
    ("old", "new"), [("NUMBER", "OTHER"), ("1 << 24", "SIZE"), ("50,", "FIFTY,")]
)
def test_parameters__what_cannot_be_read_is_refused(old, new):
    with pytest.raises(tables.TablesError):
        tables.parameters(PARAMETERS.replace(old, new))


def test_counters__of_engine_and_glue():
    assert tables.counters(HEADER, GLUE) == [
        ("sent", "frames sent"),
        ("dropped", "frames dropped"),
        ("link_sent", "frames handed to the kernel"),
        ("most", "memory in use, at most"),
    ]


@pytest.mark.parametrize(("header", "glue"), [("", GLUE), (HEADER, "")])
def test_counters__missing_list_is_refused(header, glue):
    with pytest.raises(tables.TablesError):
        tables.counters(header, glue)


@pytest.fixture
def copy(tmp_path):
    """The pages and the sources of their tables in a separate folder, in agreement."""
    shutil.copytree(tree.ROOT / tables.GLUE, tmp_path / tables.GLUE)
    for page in tables.PAGES.values():
        (tmp_path / page).parent.mkdir(exist_ok=True)
        shutil.copy(tree.ROOT / page, tmp_path / page)
    tables.write(tmp_path)
    assert tables.check(tmp_path) == []
    return tmp_path


def test_check__parameter_that_changed(copy):
    file = copy / tables.PARAMETERS
    text = file.read_text()
    file.write_text(text.replace("window_frames, 512,", "window_frames, 256,"))
    (problem,) = tables.check(copy)
    assert "| 256 |" in problem
    tables.write(copy)
    assert tables.check(copy) == []


def test_check__counter_that_is_new(copy):
    file = copy / tables.COUNTERS
    file.write_text(file.read_text().replace("LIST(X)", 'LIST(X) X(one_more, "of them")', 1))
    (problem,) = tables.check(copy)
    assert "`one_more` | of them" in problem


@pytest.mark.parametrize(
    ("page", "row", "edited"),
    [
        ("doc/parameters.md", "| `btl_rawe_stats` | false |", "| `btl_rawe_stats` | true |"),
        ("doc/counters.md", "| `acks_received` | ack", "| `acks_received` | no ack"),
    ],
)
def test_check__edited_by_hand(copy, page, row, edited):
    file = copy / page
    text = file.read_text()
    assert row in text
    file.write_text(text.replace(row, edited))
    (problem,) = tables.check(copy)
    assert problem.startswith(f"{page}:") and row in problem
    tables.write(copy)
    assert file.read_text() == text


def test_check__marks_are_lost(copy):
    (copy / tables.PAGES["counters"]).write_text("# Counters\n")
    (problem,) = tables.check(copy)
    assert "doc/counters.md has lost its marks" in problem
