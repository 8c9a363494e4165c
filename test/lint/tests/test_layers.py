# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.layers: components that break one rule each."""

import pytest

from rawelint import layers

TABLE = """
[core]
folder = "core"
system = ["stdint.h"]
modules = ["rawe_low", "rawe_mid", "rawe_high"]
[link]
folder = "link"
uses = { core = ["rawe_low"] }
modules = ["rawe_wire_end rawe_wire_end_packet"]
[glue]
folder = "."
uses = { core = "all", link = "all" }
openmpi = true
modules = ["btl_rawe_send", "btl_rawe_top"]
[coll]
folder = "../../../../ompi/mca/coll/rawe"
uses = { glue = ["btl_rawe_top"] }
openmpi = true
modules = ["coll_rawe_leaf", "coll_rawe_join"]
"""
COLL = "../../../../ompi/mca/coll/rawe/"
SOUND = {
    "core/rawe_low.h": "#include <stdint.h>\nint rawe_low_get(void);\n",
    "core/rawe_low.c": '#include "rawe_low.h"\nint rawe_low_get(void)\n{\n    return 1;\n}\n',
    "core/rawe_mid.h": "int rawe_mid_get(void);\n",
    "core/rawe_mid.c": '#include "rawe_mid.h"\n\n#include "rawe_low.h"\n'
    "int rawe_mid_get(void)\n{\n    return rawe_low_get();\n}\n",
    "core/rawe_high.h": "int rawe_high_get(int (*ask)(void));\n",
    "core/rawe_high.c": '#include "rawe_high.h"\n#include "rawe_mid.h"\n'
    "int rawe_high_get(int (*ask)(void))\n{\n    return ask() + rawe_mid_get();\n}\n",
    "link/rawe_wire_end.h": "void rawe_wire_end_send(void);\n",
    "link/rawe_wire_end_packet.c": '#include "rawe_wire_end.h"\n#include "../core/rawe_low.h"\n'
    "#include <sys/socket.h>\nvoid rawe_wire_end_send(void)\n{\n    (void)rawe_low_get();\n}\n",
    "btl_rawe_send.h": '#include "opal/mca/btl/btl.h"\nvoid btl_rawe_send(void);\n',
    "btl_rawe_send.c": '#include "btl_rawe_send.h"\n#include "link/rawe_wire_end.h"\n'
    '#include "core/rawe_high.h"\nvoid btl_rawe_send(void)\n{\n    rawe_wire_end_send();\n}\n',
    "btl_rawe_top.h": "void btl_rawe_top(void);\n",
    COLL + "coll_rawe_leaf.h": "void coll_rawe_leaf(void);\n",
    COLL + "coll_rawe_join.c": '#include "opal/mca/btl/rawe/btl_rawe_top.h"\n'
    "void coll_rawe_join(void)\n{\n    coll_rawe_leaf();\n}\n",
}


@pytest.fixture
def check(tmp_path):
    """A function: the problems of the sound component with some files replaced."""

    def run(changes=None):
        for path, text in {**SOUND, **(changes or {})}.items():
            file = tmp_path / layers.COMPONENT / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(text, encoding="utf-8")
        table = tmp_path / "layers.toml"
        table.write_text(TABLE, encoding="utf-8")
        return layers.check(tmp_path, table)

    return run


def only(problems, *parts):
    """There is one problem, and it says all of these."""
    assert len(problems) == 1, problems
    for part in parts:
        assert part in problems[0]


def test_check__sound_component_has_no_problem(check):
    assert check() == []


@pytest.mark.parametrize(
    "text",
    [
        "int rawe_low_ask(int (*ask)(void))\n{\n    return (*ask)();\n}\n",
        '/* #include "rawe_high.h" */\n// rawe_high_get\n',
        'const char *rawe_low_text = "rawe_high_get(0); // no comment";\n',
        "static void rawe_high_get_none(void)\n{\n}\n",
    ],
)
def test_check__what_is_no_arrow(check, text):
    assert check({"core/rawe_low.c": SOUND["core/rawe_low.c"] + text}) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('const char *url = "http://x";\n#include "rawe_mid.h"\n', 7),
        ("#define ASK rawe_mid_get()\n", 6),
        ("__attribute__((cold)) int\n    rawe_low_x(\n    void)\n{\n    rawe_mid_get();\n}\n", 10),
    ],
)
def test_check__arrows_in_places_that_are_easily_missed(check, text, line):
    problems = check({"core/rawe_low.c": SOUND["core/rawe_low.c"] + text})
    only(problems, f"core/rawe_low.c:{line}:", "an arrow points up")


def test_check__upward_include(check):
    text = '#include "rawe_mid.h"\n' + SOUND["core/rawe_low.c"]
    only(check({"core/rawe_low.c": text}), "core/rawe_low.c:1:", "an arrow points up")


def test_check__upward_call_without_an_include(check):
    text = "int rawe_high_get(int (*)(void));\n" + SOUND["core/rawe_mid.c"].replace(
        "return rawe_low_get", "return rawe_high_get(0) + rawe_low_get"
    )
    problems = check({"core/rawe_mid.c": text})
    assert any(
        "rawe_mid.c:1: uses rawe_high_get() of core/rawe_high.c" in one and "points up" in one
        for one in problems
    )


def test_check__header_that_declares_a_function_of_a_higher_module(check):
    text = SOUND["core/rawe_low.h"] + "int rawe_mid_get(void);\n"
    problems = check({"core/rawe_low.h": text})
    assert any("rawe_low.h:3: declares rawe_mid_get()" in one for one in problems)


def test_check__glue_has_an_order_too(check):
    text = '#include "btl_rawe_top.h"\n' + SOUND["btl_rawe_send.c"]
    only(check({"btl_rawe_send.c": text}), "btl_rawe_send.c:1:", "an arrow points up")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("void coll_rawe_leaf(void)\n{\n    coll_rawe_join();\n}\n", "an arrow points up"),
        ('#include "opal/mca/btl/rawe/btl_rawe_send.h"\n', "may not use glue's btl_rawe_send"),
    ],
)
def test_check__another_component_has_an_order_too(check, text, reason):
    problems = check({COLL + "coll_rawe_leaf.c": text})
    only(problems, "ompi/mca/coll/rawe/coll_rawe_leaf.c:", reason)
    assert problems[0].startswith("ompi/")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("#include <sys/socket.h>", "sockets"),
        ("#include <linux/if_packet.h>", "sockets"),
        ("#include <poll.h>", "sockets"),
        ("#include <time.h>", "a clock"),
        ("#include <sys/time.h>", "a clock"),
        ("#include <pthread.h>", "threads"),
        ("#include <stdio.h>", "output"),
        ("#include <unistd.h>", "not among those"),
        ('#include "opal/util/output.h"', "Open MPI"),
        ("#include <mpi.h>", "Open MPI"),
        ('#include "../btl_rawe_send.h"', "core may not use glue's btl_rawe_send"),
        ('#include "../link/rawe_wire_end.h"', "core may not use link's rawe_wire_end"),
    ],
)
def test_check__what_core_may_not_include(check, line, reason):
    only(
        check({"core/rawe_mid.h": line + "\n" + SOUND["core/rawe_mid.h"]}), "rawe_mid.h:1:", reason
    )


WIRE_END = SOUND["link/rawe_wire_end.h"]


@pytest.mark.parametrize(
    ("path", "text", "parts"),
    [
        (
            "link/rawe_wire_end_packet.c",
            SOUND["link/rawe_wire_end_packet.c"]
            .replace("rawe_low.h", "rawe_mid.h")
            .replace("rawe_low_get", "other"),
            [":2:", "link may not use core's rawe_mid"],
        ),
        ("link/rawe_wire_end.h", f'#include "btl_rawe_send.h"\n{WIRE_END}', [":1:", "link"]),
        ("link/rawe_wire_end.h", f'#include "opal/class/opal_list.h"\n{WIRE_END}', [":1:", "link"]),
        (
            "core/rawe_new.c",
            "static int x;\n",
            [":1:", "rawe_new is not in test/lint/layers.toml: enter it under [core]"],
        ),
    ],
)
def test_check__what_the_table_does_not_allow(check, path, text, parts):
    only(check({path: text}), path, *parts)


def test_check__entry_without_a_file(check):
    gone = {"core/rawe_high.c": None, "core/rawe_high.h": None}
    text = SOUND["btl_rawe_send.c"].replace('#include "core/rawe_high.h"\n', "")
    only(check({**gone, "btl_rawe_send.c": text}), "layers.toml", "rawe_high, which has no file")


def test_read_table__same_file_twice_is_refused(tmp_path):
    table = tmp_path / "layers.toml"
    table.write_text('[core]\nfolder = "core"\nmodules = ["rawe_a", "rawe_b rawe_a"]\n')
    only(layers.check(tmp_path, table), "lists rawe_a twice")
