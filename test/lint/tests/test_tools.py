# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.tools: each program finds the planted fault, and nothing in sound files."""

import pytest

from rawelint import tools

SOUND = {
    "a.c": "#include <stdlib.h>\n\nint main(void)\n{\n    return EXIT_SUCCESS;\n}\n",
    "a.py": '"""Nothing."""\n\nprint("x")\n',
    "script": '#!/bin/sh\necho "$1"\n',
    "README.md": "Read me.\n",
}
MISSPELT = "T" + "eh"  # codespell reads this file, too


@pytest.fixture
def plant(tmp_path):
    """A function: the folder of the sound files with one of them replaced."""

    def run(path="README.md", text=SOUND["README.md"]):
        for name, content in {**SOUND, path: text}.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path

    return run


CHECKS = (tools.clang_format, tools.cppcheck, tools.shellcheck, tools.codespell, tools.ruff)


@pytest.mark.parametrize("check", CHECKS)
def test_sound_files(plant, check):
    assert check(root=plant()) == []


@pytest.mark.parametrize("check", CHECKS)
def test_no_file_of_its_kind(tmp_path, check):
    assert check(root=tmp_path) == []


@pytest.mark.parametrize(
    ("check", "path", "text", "place", "reason"),
    [
        (
            tools.clang_format, "a.c", "int f(void) {\n    return 1;\n}\n",
            "a.c:1:", "clang-format writes this differently",
        ),
        (
            tools.cppcheck, "a.c",
            "#include <stdlib.h>\n\nvoid f(void)\n{\n    char *a = malloc(1);\n    a[0] = 1;\n}\n",
            "a.c:7:", "[memleak]",
        ),
        (tools.shellcheck, "script", "#!/bin/sh\necho $1\n", "script:2:", "SC2086"),
        (tools.codespell, "README.md", f"Hello.\n\n{MISSPELT} end.\n", "README.md:3:", "The"),
        (tools.ruff, "a.py", '"""X."""\n\nimport os\n', "a.py:3:", "F401"),
        (tools.ruff, "a.py", '"""X."""\nX = {  "a":1 }\n', "a.py:", "ruff format"),
    ],
)  # fmt: skip
def test_planted_fault(plant, check, path, text, place, reason):
    problems = check(root=plant(path, text))
    assert any(problem.startswith(place) and reason in problem for problem in problems), problems


def test_clang_format__file_that_cannot_be_read_is_a_problem(plant):
    root = plant()
    (root / "b.c").symlink_to("nowhere.c")
    assert tools.clang_format(root=root) != []


def test_only_the_files_that_were_asked_for(plant):
    assert tools.codespell(["a."], plant("README.md", f"{MISSPELT} end.\n")) == []


def test_program_that_is_missing(plant, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(tools.ToolMissing, match="test/install-deps test"):
        tools.shellcheck(root=plant())
