# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.c_source: what is found in C, and what must not be mistaken for it."""

from rawelint import c_source


def test_includes__both_forms_with_their_lines():
    source = '#include <time.h>\n\n#  include "rawe_a.h"\n'
    assert c_source.includes(source) == [(1, "time.h", False), (3, "rawe_a.h", True)]


def test_includes__not_in_comments():
    assert c_source.includes("/*\n#include <a.h>\n*/\n// #include <b.h>\n") == []


def test_includes__behind_a_literal_that_looks_like_a_comment():
    source = 'const char *url = "http://x";\n#include <a.h>\n'
    assert c_source.includes(source) == [(2, "a.h", False)]


def test_functions__those_for_others_with_their_lines():
    source = (
        "int first(int a)\n{\n    if (a) {\n        return inner(a);\n    }\n    return 0;\n}\n"
        "static void hidden(void)\n{\n}\n"
        "_Noreturn void third(const char *format, ...)\n{\n}\n"
    )
    assert c_source.functions(source) == {"first": 1, "third": 11}


def test_functions__attributes_and_several_lines():
    source = (
        "__attribute__((cold)) struct a *\n    build(struct b (*callback)(void),\n  int c)\n{\n}\n"
    )
    assert c_source.functions(source) == {"build": 2}


def test_functions__neither_declarations_nor_data_nor_macros():
    source = (
        "int declared(int a);\n"
        "struct s {\n    int (*callback)(void);\n};\n"
        "const struct s table[] = {{NULL}, {make(1)}};\n"
        "#define BODY(x) void made_##x(void) {\n"
        "#define LONG(x) \\\n    void long_##x(void) {\n"
        "typedef int (*type)(void);\n"
    )
    assert c_source.functions(source) == {}


def test_names__code_and_macros_but_neither_comments_nor_literals():
    source = '/* remark */\n#define USE called(1)\nconst char *s = "quoted"; int x = 3;\n'
    names = c_source.names(source)
    assert names["called"] == 2
    assert names["x"] == 3
    assert "remark" not in names
    assert "quoted" not in names
