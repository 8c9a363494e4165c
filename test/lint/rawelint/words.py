# SPDX-License-Identifier: BSD-3-Clause
"""Finds words in names and prose that test/lint/words.toml wants replaced."""

import io
import re
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import c_source, tree

LIST = Path(__file__).resolve().parents[1] / "words.toml"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FOREIGN = re.compile(
    r"return$|_*builtin_|P?MPI_|(opal|ompi|orte|pmix|mca_(base|bml|mpool|pml|btl_base))_",
    re.IGNORECASE,
)


@dataclass
class Word:
    """One entry of the list."""

    anywhere: re.Pattern | None
    in_names: re.Pattern | None
    instead: str
    folders: tuple

    def holds_in(self, path):
        """Returns true if the word is wrong in this file."""
        return not self.folders or path.startswith(self.folders)


def _pattern(words):
    """Return a pattern for whole words: not between letters, but between "_" and digits."""
    if not words:
        return None
    each = []
    for word in words:
        if word.startswith("re:"):
            each.append(word[3:])
        elif word.endswith("*"):
            each.append(re.escape(word[:-1]) + "[A-Za-z]*")
        else:
            each.append(re.escape(word))
    return re.compile(rf"(?<![A-Za-z])(?:{'|'.join(each)})(?![A-Za-z])", re.IGNORECASE)


def read_list(path=LIST):
    """Read the exempt prefixes, and the entries."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    words = [
        Word(
            _pattern(entry.get("anywhere")),
            _pattern(entry.get("in_names")),
            entry["instead"],
            tuple(scope.get("in", ())),
        )
        for scope in table["scope"]
        for entry in scope["words"]
    ]
    return tuple(table["exempt"]), words


def _python_names(source):
    """Yield (line, identifier) of Python code, without names in the module struct."""
    before = ("", "")
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and before != ("struct", "."):
                yield token.start[0], token.string
            before = (before[1], token.string)
    except (tokenize.TokenError, SyntaxError):
        return  # the compiler and ruff report it


def names(path, source, python):
    """Return (line, identifier): all in code; in comments and texts those with an "_"."""
    found = set()
    if tree.is_c(path):
        for number, line in enumerate(c_source.code(source).splitlines(), 1):
            found.update((number, match[0]) for match in _IDENTIFIER.finditer(line))
    elif python:
        found.update(_python_names(source))
    for number, line in enumerate(source.splitlines(), 1):
        found.update(
            (number, match[0]) for match in _IDENTIFIER.finditer(line) if "_" in match[0][1:]
        )
    return sorted(found)


def find(path, source, words, python=False):
    """Return the problems of one file, as lines of text."""
    words = [word for word in words if word.holds_in(path)]
    problems = []
    stem = Path(path).stem
    for word in words:
        for pattern in (word.anywhere, word.in_names):
            match = pattern and pattern.search(stem.replace("-", "_"))
            if match:
                problems.append(f'{path}:1: the file\'s name has "{match[0]}": {word.instead}')
    lines = source.splitlines()
    for word in words:
        if word.anywhere:
            for number, line in enumerate(lines, 1):
                for match in word.anywhere.finditer(line):
                    problems.append(f'{path}:{number}: "{match[0]}": {word.instead}')
    for number, name in names(path, source, python):
        # After "__", a test's name is a sentence; so is the name of a pytest test.
        if _FOREIGN.match(name) or (python and name.startswith("test_")):
            continue
        parts = "_".join(_PARTS.findall(re.split(r"(?<=[a-z])__", name)[0]))
        for word in words:
            match = word.in_names and word.in_names.search(parts)
            if match:
                problems.append(
                    f'{path}:{number}: "{match[0].lower()}" in the name {name}: {word.instead}'
                )
    return problems


def check(root=tree.ROOT, prefixes=(), path=LIST):
    """Return all problems below `root`, as lines of text."""
    exempt, words = read_list(path)
    problems = []
    for file in tree.files(root, prefixes):
        if file.startswith(exempt) or not tree.is_text(file):
            continue
        try:
            source = (root / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        problems += find(file, source, words, tree.is_python(file, root))
    return problems
