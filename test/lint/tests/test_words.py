# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.words: what is found where, and which ordinary English is left alone."""

import pytest

from rawelint import words

LIST = """
exempt = ["old/"]
[[word]]
anywhere = ["train", "trains"]
instead = "batch"
[[word]]
in_names = ["kept", "return", "re:(?<!one_)way"]
instead = "deferred"
in = ["core/", "README.md"]
[[word]]
in_names = ["pack"]
instead = "coalesce"
[[word]]
anywhere = ["borrow*", "re:the guard(?! page)"]
instead = "something else"
"""


@pytest.fixture
def find(tmp_path):
    """A function: the problems of one file with this content."""
    file = tmp_path / "words.toml"
    file.write_text(LIST, encoding="utf-8")

    def run(path, source, python=False):
        return words.find(path, source, words.read_list(file)[1], python)

    return run


@pytest.mark.parametrize(
    "source",
    [
        "int rawe_train_get;",
        "/* a Train of frames */",
        'f("trains")',
        "#define TRAIN 1",
        "int train2;",
    ],
)
def test_find__anywhere(find, source):
    (problem,) = find("core/a.c", "\n" + source)
    assert problem.startswith("core/a.c:2: ")
    assert "batch" in problem


@pytest.mark.parametrize("source", ["constrain", "training", "/* trained */", "int straining;"])
def test_find__only_whole_words(find, source):
    assert find("core/a.c", source) == []


def test_find__in_names_but_not_in_prose(find):
    source = "/* a frame is kept on its way */\nint kept_bytes;\nint way;\n"
    assert [problem.split(":")[1] for problem in find("core/a.c", source)] == ["2", "3"]


def test_find__name_in_a_comment(find):
    (problem,) = find("core/a.c", "/* see rawe_engine_kept */")
    assert "in the name rawe_engine_kept" in problem


def test_find__keyword_and_foreign_names(find):
    source = "return 1;\nopal_free_list_return(a);\nvoid *p = __builtin_return_address(0);\n"
    assert find("core/a.c", source) == []
    assert len(find("core/a.c", "rawe_engine_return(a);")) == 1


def test_find__sentences_of_tests(find):
    assert find("core/a.c", "void rawe_rtt__is_kept(void **state)") == []
    assert find("core/a.py", "def test_it_is_kept():\n    pass\n", python=True) == []
    assert len(find("core/a.py", "def it_is_kept():\n    pass\n", python=True)) == 1


def test_find__python_strings_are_prose(find):
    assert find("core/a.py", 'x = "kept"  # kept\n', python=True) == []
    assert len(find("core/a.py", "kept = 1\n", python=True)) == 1


def test_find__names_in_the_module_struct_of_python(find):
    assert find("core/a.py", "import struct\nstruct.pack('>B', 1)\n", python=True) == []
    assert len(find("core/a.py", "pack(1)\nframe.pack(1)\n", python=True)) == 2


def test_find__patterns(find):
    assert find("core/a.c", "int one_way; /* the guard page */") == []
    assert len(find("core/a.c", "/* the guard wakes, borrowed */")) == 2


def test_find__only_in_the_folders_of_the_entry(find):
    assert find("tools/a.c", "int kept;") == []
    assert len(find("README.md", "`rawe_kept`")) == 1


def test_find__name_of_the_file(find):
    (problem,) = find("core/rawe-train.c", "int a;")
    assert "core/rawe-train.c:1:" in problem


def test_check__exempt_and_binary_files(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.md").write_text("a train\n")
    (tmp_path / "b.bin").write_bytes(b"train \xff")
    (tmp_path / "c.md").write_text("a train\n")
    table = tmp_path / "words.txt"
    table.write_text(LIST)
    problems = words.check(tmp_path, path=table)
    assert [one for one in problems if not one.startswith("words.txt")] == [
        'c.md:1: "train": batch'
    ]


def test_read_list__the_projects_own_list_finds_what_it_is_for():
    _, entries = words.read_list()
    source = "int rawe_conn_train_get(int chunk);\nvoid rawe_engine_tell(void);\n"
    problems = words.find("opal/mca/btl/rawe/core/a.c", source, entries)
    assert [problem.split('"')[1] for problem in problems] == ["train", "chunk", "tell"]
