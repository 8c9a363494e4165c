# SPDX-License-Identifier: BSD-3-Clause
"""Tests of mutants.py: which mutants a source yields."""

from pathlib import Path

import mutants
import pytest

SOURCE = Path("source.c")


def mutated(*lines):
    """Return the mutants of lines in the body of a function."""
    text = "int count = 1;\n\nstatic void f(int a)\n{\n" + "".join(f"    {one}\n" for one in lines)
    return [mutants.squeeze(one.new) for one in mutants.mutants_of(SOURCE, text + "}\n")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b;", ["return a <= b;"]),
        ("return a >= b;", ["return a > b;"]),
        ("return a == b;", ["return a != b;"]),
        ("return a + b - c;", ["return a - b - c;", "return a + b + c;"]),
        ("return a && b || c;", ["return a || b || c;", "return a && b && c;"]),
        ("return true;", ["return false;"]),
        ("return 1u;", ["return 0u;"]),
        ("a->x = b;", [""]),
        ("*a = f(b);", [""]),
        ("f(a, b);", [""]),
        ("a->count++;", ["a->count += 2;", ""]),
        ("a -= b;", ["a += b;", ""]),
        ("if (f(a)) {", ["if (!(f(a))) {", "if (true) {"]),
        ("while (f(a)) {", ["while (!(f(a))) {"]),
    ],
)
def test_operators(line, expected):
    assert sorted(mutated(line)) == sorted(expected)


@pytest.mark.parametrize(
    "line",
    [
        "/* a < b; */",
        "assert(a < b);",
        "counters->frames_sent++;",
        "engine->counters.frames_sent += a;",
        "rawe_histogram_add(&engine->round_trips, a);",
        'say("a < b || c");',
        "uint32_t a = b;",
        "struct rawe_conn *conn = f(a);",
        "uint8_t bytes[16];",
        "return a->b;",
        "break;",
    ],
)
def test_left_alone(line):
    assert mutated(line) == ([""] if line.startswith("say") else [])


def test_a_change_over_several_lines_keeps_the_rest():
    source = "static void f(void)\n{\n    if (a &&\n        b) {\n        g();\n    }\n}\n"
    made = list(mutants.mutants_of(SOURCE, source))
    assert [one.line for one in made] == [3, 3, 3, 5]
    negated = next(one for one in made if "!(" in one.new)
    assert negated.text == source.replace("a &&\n        b", "!(a &&\n        b)")


def test_a_seed_decides_what_is_drawn():
    first, again, other = (mutants.draw(seed, ["rawe_timer.c"]) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({one.line for one in first}) == len(first)
