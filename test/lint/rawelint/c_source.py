# SPDX-License-Identifier: BSD-3-Clause
"""Parses as much C as the checks need: includes, function definitions, names in use.

The sources compile with warnings as errors and are formatted by clang-format, so a scanner that
knows comments, literals and braces is enough, and no compiler flags are needed.
"""

import re

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_CALLABLE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w*")
# Words before a parenthesis that are not names of functions.
_NOT_FUNCTIONS = {"__attribute__", "_Static_assert", "_Alignas", "_Alignof", "sizeof", "typeof"}


def _blank(text):
    """Replace all characters except line ends with spaces."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(source):
    """Return the source with comments blanked; lines and columns do not change."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], source)


def code(source):
    """Return the source with comments and the inside of literals blanked."""

    def replace(match):
        if match["comment"]:
            return _blank(match[0])
        return match[0][0] + _blank(match[0][1:-1]) + match[0][-1]

    return _TOKEN.sub(replace, source)


def line_of(source, offset):
    """Return the number of the line at an offset, from 1."""
    return source.count("\n", 0, offset) + 1


def includes(source):
    """Return (line, file, quoted) of each #include."""
    return [
        (line_of(source, m.start()), m[2], m[1] == '"')
        for m in _INCLUDE.finditer(without_comments(source))
    ]


def functions(source):
    """Return {name: line} of the functions with external linkage."""
    text = _DIRECTIVE.sub(lambda m: _blank(m[0]), code(source))
    found, depth, start = {}, 0, 0
    for position, char in enumerate(text):
        if char == "{":
            if depth == 0:
                head = text[start:position]
                names = [m for m in _CALLABLE.finditer(head) if m[1] not in _NOT_FUNCTIONS]
                # An initializer has "=" before its brace, a struct has no parenthesis.
                if names and "=" not in head and not re.search(r"\bstatic\b", head):
                    found[names[0][1]] = line_of(text, start + names[0].start())
            depth += 1
        elif char == "}":
            depth -= 1
            start = position + 1
        elif char == ";" and depth == 0:
            start = position + 1
    return found


def names(source):
    """Return {name: line of its first use} of all names in code and macros."""
    text, found = code(source), {}
    for match in _NAME.finditer(text):
        if match[0] not in found:
            found[match[0]] = line_of(text, match.start())
    return found
