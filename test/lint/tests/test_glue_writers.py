# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the check of the glue's shared structs, with mutants of the glue."""

import shutil

import pytest

from rawelint import glue_writers, layers, tree


@pytest.fixture
def mutant(tmp_path):
    """A function: the problems of the glue after a change of one file."""
    for folder in (layers.COMPONENT, glue_writers.COLL):
        (tmp_path / folder).mkdir(parents=True)
        for file in (tree.ROOT / folder).glob("*.[ch]"):
            shutil.copy(file, tmp_path / folder)

    def run(path, old, new, folder=layers.COMPONENT):
        file = tmp_path / folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        return glue_writers.check(tmp_path)

    return run


def test_check__the_glue_keeps_its_rules():
    assert glue_writers.check() == []


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
def test_check__a_second_writer_is_found(mutant, text):
    body = f"static void mutant(void)\n{{\n    {text}\n}}\n"
    problems = mutant("btl_rawe_rma.c", "#include", body + "#include")
    assert len(problems) == 1 and "btl_rawe_rma.c:4: changes" in problems[0], problems


def test_check__a_second_writer_of_a_collective_is_found(mutant):
    body = "static void mutant(mca_coll_rawe_module_t *module)\n{\n    module->hosts = NULL;\n}\n"
    problems = mutant("coll_rawe_component.c", "#include", body + "#include", glue_writers.COLL)
    assert len(problems) == 1 and "changes hosts of mca_coll_rawe_module" in problems[0], problems


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    bool progressing;", "    atomic_bool progressing;", "progressing must be atomic"),
        ("    atomic_bool shared;", "    bool shared;", "shared must be atomic"),
        (": service */", ": whoever */", "stands in no part whose rule is one of"),
    ],
)
def test_check__a_broken_rule_is_found(mutant, old, new, reason):
    problems = mutant("btl_rawe_module.h", old, new)
    assert problems and all(reason in problem for problem in problems), problems
