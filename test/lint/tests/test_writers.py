# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the check that each part of a struct has its writers, with mutants of core and glue."""

import shutil

import pytest

from rawelint import layers, tree, writers


def changed(root, path, old, new, check):
    """Return the problems after a change of one file of the copy below `root`."""
    file = root / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    return check(root)


@pytest.fixture
def mutant(tmp_path):
    """A function: the problems of the component after a change of one file of core."""
    core = f"{layers.COMPONENT}/core"
    shutil.copytree(tree.ROOT / core, tmp_path / core)
    return lambda path, *texts: changed(tmp_path, f"{core}/{path}", *texts, writers.check)


@pytest.fixture
def glue_mutant(tmp_path):
    """A function: the problems of the glue after a change of one file."""
    for folder in (layers.COMPONENT, writers.COLL):
        (tmp_path / folder).mkdir(parents=True)
        for file in (tree.ROOT / folder).glob("*.[ch]"):
            shutil.copy(file, tmp_path / folder)

    def run(path, old, new, folder=layers.COMPONENT):
        return changed(tmp_path, f"{folder}/{path}", old, new, writers.check_glue)

    return run


def test_check__the_component_keeps_its_rules():
    assert writers.check() == []
    assert writers.check_glue() == []


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("conn/rawe_conn_receive.c", "conn->tx.peer_credit = 1;", "which rawe_conn_tx writes"),
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
        ("rawe_engine.c", "conn->end.lost = true;", "which rawe_conn_end writes"),
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


@pytest.mark.parametrize(
    "text",
    [
        "mca_btl_rawe_state.lost = NULL;",
        "atomic_store(&mca_btl_rawe_state.interfaces_changed, true);",
        "struct mca_btl_rawe_state *state = NULL; ++state->deaths;",
        "mca_btl_rawe_state.modules[0]->damaged_before++;",
        "mca_btl_rawe_module_t *module = NULL; module->address.key |= 1;",
        "mca_btl_base_endpoint_t *endpoint = NULL; memcpy(endpoint->new_mac, endpoint, 6);",
    ],
)
def test_check_glue__a_second_writer_is_found(glue_mutant, text):
    body = f"static void mutant(void)\n{{\n    {text}\n}}\n"
    problems = glue_mutant("btl_rawe_help.c", "#include", body + "#include")
    assert len(problems) == 1 and "btl_rawe_help.c:4: changes" in problems[0], problems


def test_check_glue__a_second_writer_of_a_collective_is_found(glue_mutant):
    body = "static void mutant(mca_coll_rawe_module_t *module)\n{\n    module->hosts = NULL;\n}\n"
    problems = glue_mutant("coll_rawe_component.c", "#include", body + "#include", writers.COLL)
    assert len(problems) == 1 and "changes hosts of mca_coll_rawe_module" in problems[0], problems


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    bool progressing;", "    atomic_bool progressing;", "progressing must be atomic"),
        ("    atomic_bool shared;", "    bool shared;", "shared must be atomic"),
        (": service */", ": whoever */", "stands in no part whose rule is one of"),
    ],
)
def test_check_glue__a_broken_rule_is_found(glue_mutant, old, new, reason):
    problems = glue_mutant("btl_rawe_module.h", old, new)
    assert problems and all(reason in problem for problem in problems), problems
