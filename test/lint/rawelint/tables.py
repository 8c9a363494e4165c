# SPDX-License-Identifier: BSD-3-Clause
"""The documents' tables of parameters and counters, made from the sources that define them.

A table stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in its page.
`test/lint/lint --write` renews them.
"""

import ast
import re
from dataclasses import dataclass

from . import c_source, tree

PARAMETERS = "opal/mca/btl/rawe/btl_rawe_params.h"
COUNTERS = "opal/mca/btl/rawe/core/base/rawe_counters.h"
GLUE = "opal/mca/btl/rawe"
PAGES = {"parameters": "doc/parameters.md", "counters": "doc/counters.md"}  # table -> its page
SHORT = {"microseconds": "µs", "milliseconds": "ms", "seconds": "s"}
_TEXT = r'"(?:\\.|[^"\\])*"'
_TEXTS = rf"({_TEXT}(?:\s*{_TEXT})*)"
_FIELD = rf"\s*(?:(?:{_TEXT}\s*)+|[^,\"()]+)"


class TablesError(Exception):
    """A source does not have the expected form; the text says which and how."""


@dataclass
class Row:
    """A parameter."""

    name: str
    default: str
    limits: str
    level: int
    sentence: str


def _joined(literals):
    """Return the text of adjacent string literals of C."""
    return "".join(ast.literal_eval(one) for one in re.findall(_TEXT, literals))


def _number(expression):
    """Return the value of an integer expression such as 100 or 1 << 20."""
    if not re.fullmatch(r"[0-9a-fA-Fx <]+", expression):
        raise TablesError(f"{PARAMETERS}: cannot read the number {expression!r}")
    return eval(expression, {"__builtins__": {}})  # noqa: S307 (digits and <<, see above)


def _entries(source, kind):
    """Return the fields of each X(...) of `#define MCA_BTL_RAWE_KIND_LIST(X)`, as texts."""
    match = re.search(rf"_{kind}_LIST\(X\)(.*?)\n\n", source, re.DOTALL)
    if match is None:
        raise TablesError(f"{PARAMETERS}: there is no MCA_BTL_RAWE_{kind}_LIST(X)")
    found = re.findall(rf"\bX\(({_FIELD}(?:,{_FIELD})*)\)", match[1])
    return [[field.strip() for field in re.findall(_FIELD, entry)] for entry in found]


def _shown(name, value, unit, typed=False):
    """Format a number for a reader; `typed`: as a user types it."""
    if name == "ethertype":
        return f"0x{value:04X}"
    if unit == "bytes" and not typed:
        for suffix, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size and value % size == 0:
                return f"{value // size} {suffix}"
    return str(value)


def _limits(name, low, high, unit, rule):
    """Describe the range of a number."""
    text = f"{_shown(name, low, unit)} to {_shown(name, high, unit)}"
    if unit and not (unit == "bytes" and text[-1] == "B"):
        text += f" {SHORT.get(unit, unit)}"
    return text + re.sub(r"^, (\d+: )", r"; \1", rule)


def parameters(source):
    """Return the Rows of all parameters, low levels (for every user) first."""
    source = c_source.without_comments(source).replace("\\\n", "\n") + "\n\n"
    rows = []
    for name, default, level, sentence in _entries(source, "TEXT"):
        rows.append(Row(name, _default(default), "", int(level), _joined(sentence)))
    for name, *numbers, unit, rule, level, sentence in _entries(source, "NUMBER"):
        default, low, high = map(_number, numbers)
        unit = _joined(unit)
        limits = _limits(name, low, high, unit, _joined(rule))
        shown = _shown(name, default, unit, typed=True)
        rows.append(Row(name, shown, limits, int(level), _joined(sentence)))
    for name, default, level, sentence in _entries(source, "FLAG"):
        if default not in ("true", "false"):
            raise TablesError(f"{name}: a flag's default is true or false, not {default}")
        rows.append(Row(name, default, "", int(level), _joined(sentence)))
    return sorted(rows, key=lambda row: row.level)


def _default(expression):
    """Return the default of a text: empty, as written, or set by configure."""
    if expression.startswith('"'):
        return expression.strip('"')
    return "empty" if expression == "NULL" else "set by `configure`"


def counters(header, glue):
    """Return (name, description) of the engine's counters, then of the glue's."""
    header = c_source.without_comments(header).replace("\\\n", "\n")
    found = re.findall(rf"\bX\((\w+),\s*{_TEXTS}\)", header)
    added = re.findall(rf'\{{"(\w+)",\s*{_TEXTS},\s*(?:COUNT|MOST)\([\w.]+\)\}}', glue)
    if not found or not added:
        raise TablesError(
            f"{COUNTERS} has no list of X(name, text), or no source of the glue has a list of "
            '{"name", "text", COUNT(field)}'
        )
    return [(name, _joined(text)) for name, text in found] + [
        (name.strip('"'), _joined(text)) for name, text in added
    ]


def _table(heads, rows):
    """Format a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def tables(root=tree.ROOT):
    """Return {name of the marks: Markdown between them}."""

    def read(path):
        return (root / path).read_text(encoding="utf-8")

    rows = [
        [f"`btl_rawe_{row.name}`", row.default, row.limits, row.sentence]
        for row in parameters(read(PARAMETERS))
    ]
    glue = "".join(
        file.read_text(encoding="utf-8") for file in sorted((root / GLUE).glob("btl_rawe_*.c"))
    )
    counted = [[f"`{name}`", text] for name, text in counters(read(COUNTERS), glue)]
    return {
        "parameters": _table(["name", "default", "range", "meaning"], rows),
        "counters": _table(["counter", "counts"], counted),
    }


def renewed(text, name, table):
    """Return the page with the table between its marks replaced."""
    begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
    start, stop = text.find(begin), text.find(end)
    if start < 0 or stop < start:
        raise TablesError(f"{PAGES[name]} has lost its marks {begin.strip()} and {end.strip()}")
    return text[: start + len(begin)] + table + text[stop:]


def _pages(root):
    """Yield (page, its text, its correct text) of each table."""
    for name, table in tables(root).items():
        text = (root / PAGES[name]).read_text(encoding="utf-8")
        yield PAGES[name], text, renewed(text, name, table)


def _difference(page, text, wanted):
    """Describe the first line in which a page differs from its correct text."""
    for number, (have, want) in enumerate(
        zip(text.splitlines() + [""], wanted.splitlines() + [""], strict=False), 1
    ):
        if have != want:
            return f"{page}:{number}: the code says: {want or '(the table ends)'}"
    return f"{page}: its table does not agree with the code"


def check(root=tree.ROOT):
    """Return the problems of the tables, as lines of text."""
    try:
        return [
            _difference(page, text, wanted) for page, text, wanted in _pages(root) if text != wanted
        ]
    except TablesError as error:
        return [str(error)]


def write(root=tree.ROOT):
    """Renew the tables."""
    for page, _, wanted in _pages(root):
        (root / page).write_text(wanted, encoding="utf-8")
