# SPDX-License-Identifier: BSD-3-Clause
"""Tests of rawelint.words: which words are found where, and which ordinary English is allowed."""

import pytest

from rawelint import words

LIST = """
exempt = ["old/"]
[[scope]]
words = [
    { anywhere = ["train", "trains"], instead = "batch" },
    { in_names = ["pack"], instead = "coalesce" },
    { anywhere = ["borrow*", "re:the guard(?! page)"], instead = "something else" },
]
[[scope]]
in = ["core/", "README.md"]
words = [{ in_names = ["kept", "return", "re:(?<!one_)way"], instead = "deferred" }]
"""


@pytest.fixture
def find(tmp_path):
    """A function: the problems of one file with this content."""
    file = tmp_path / "words.toml"
    file.write_text(LIST, encoding="utf-8")
    entries = words.read_list(file)[1]
    return lambda path, source: words.find(path, source, entries, path.endswith(".py"))


@pytest.mark.parametrize(
    ("path", "source", "lines"),
    [
        ("core/a.c", "\nint rawe_train_get;", [2]),  # anywhere
        ("core/a.c", "/* a Train of frames */", [1]),
        ("core/a.c", 'f("trains")', [1]),
        ("core/a.c", "#define TRAIN 1\nint train2;", [1, 2]),
        ("core/a.c", "constrain training /* trained */ int straining;", []),  # whole words only
        # In names, but not in prose: those of others, and keywords, are left alone.
        ("core/a.c", "/* a frame is kept on its way */\nint kept_bytes;\nint way;\n", [2, 3]),
        ("core/a.c", "/* see rawe_engine_kept */", [1]),
        ("core/a.c", "return 1;\nopal_free_list_return(a);\n__builtin_return_address(0);", []),
        ("core/a.c", "rawe_engine_return(a);", [1]),
        # Names of tests are sentences.
        ("core/a.c", "void rawe_rtt__is_kept(void **state)", []),
        ("core/a.py", "def test_it_is_kept():\n    pass\n", []),
        ("core/a.py", "def it_is_kept():\n    pass\n", [1]),
        ("core/a.py", 'x = "kept"  # kept\nkept = 1\n', [2]),  # strings are prose
        ("core/a.py", "import struct\nstruct.pack('>B', 1)\n", []),
        ("core/a.py", "pack(1)\nframe.pack(1)\n", [1, 2]),
        ("core/a.c", "int one_way; /* the guard page */", []),  # patterns
        ("core/a.c", "/* the guard wakes, borrowed */", [1, 1]),
        ("tools/a.c", "int kept;", []),  # in the entry's folders only
        ("README.md", "`rawe_kept`", [1]),
        ("core/rawe-train.c", "int a;", [1]),  # the name of the file
    ],
)
def test_find(find, path, source, lines):
    problems = find(path, source)
    assert [problem.split(":")[:2] for problem in problems] == [[path, str(n)] for n in lines]


def test_find__says_what_to_write_instead(find):
    assert find("core/a.c", "int trains;") == ['core/a.c:1: "trains": batch']


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
