# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the check that each part of a connection has one writer, with mutants of core."""

import shutil

import pytest

from rawelint import layers, tree, writers


@pytest.fixture
def mutant(tmp_path):
    """A function: the problems of the component after a change of one file."""
    shutil.copytree(tree.ROOT / layers.COMPONENT / "core", tmp_path / layers.COMPONENT / "core")

    def run(path, old, new):
        file = tmp_path / layers.COMPONENT / "core" / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        return writers.check(tmp_path)

    return run


def test_check__the_component_has_one_writer_a_part():
    assert writers.check() == []


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("conn/rawe_conn_receive.c", "conn->tx.peer_credit = 1;", "which rawe_conn_control writes"),
        (
            "conn/rawe_conn_receive.c",
            "conn->path.liveness.asked_ns = 1;",
            "which rawe_liveness writes",
        ),
        ("conn/rawe_conn_receive.c", "conn->path.batches_lost++;", "which rawe_conn_batch writes"),
        ("conn/rawe_conn_receive.c", "++conn->path.eth_header[3];", "which rawe_conn_path writes"),
        ("conn/rawe_conn_receive.c", "conn->rx.sliced = NULL;", "which rawe_reassembly writes"),
        (
            "conn/rawe_conn_send.c",
            "struct rawe_recvwin *window = &conn->rx.window; window->ack_now |= true;",
            "which rawe_recvwin writes",
        ),
        (
            "conn/rawe_conn_send.c",
            "struct rawe_conn_path *path = &conn->path; path->batch = 0;",
            "which rawe_conn_batch writes",
        ),
        ("rawe_engine.c", "conn->end.lost = true;", "which rawe_conn_finalize writes"),
    ],
)
def test_check__a_second_writer_is_found(mutant, path, text, reason):
    head = "void rawe_mutant(struct rawe_conn *conn);\n"
    body = f"void rawe_mutant(struct rawe_conn *conn)\n{{\n    {text}\n}}\n"
    problems = mutant(path, "#include", "#include <stdint.h>\n" + head + body + "#include")
    assert len(problems) == 1 and path in problems[0] and reason in problems[0], problems


def test_check__a_field_of_no_part_is_found(mutant):
    problems = mutant(
        writers.STATE.removeprefix("core/"),
        "    /* rawe_conn.c:",
        "    int stray;\n    /* rawe_conn.c:",
    )
    assert len(problems) == 1 and "stray stands in no part" in problems[0], problems
