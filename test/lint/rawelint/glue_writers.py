# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each part of the glue's and coll/rawe's shared structs is written by whom it names.

The comment above a part is "modules: rule". The rule says which thread may write (RULES, explained
in btl_rawe_module.h); fields that any thread may write without a lock are atomic, and no others.
"""

import re

from . import c_source, tree
from .layers import COMPONENT, read_table
from .writers import _ASSIGNED, _chunks, _fields

RULES = ("set-up", "lock", "endpoints_lock", "routes_lock", "service", "atomic", "call")
COLL = "ompi/mca/coll/rawe"
# Struct -> folder, header, layer, and the type that points to it; the state is also a variable.
STRUCTS = {
    "mca_btl_rawe_module": (COMPONENT, "btl_rawe_module.h", "glue", "mca_btl_rawe_module_t"),
    "mca_btl_rawe_state": (COMPONENT, "btl_rawe_module.h", "glue", "mca_btl_rawe_state"),
    "mca_btl_base_endpoint_t": (
        COMPONENT, "btl_rawe_endpoint.h", "glue", "mca_btl_base_endpoint_t",
    ),
    "mca_coll_rawe_module": (COLL, "coll_rawe.h", "coll", "mca_coll_rawe_module_t"),
}  # fmt: skip
_MODULE = r"(?:btl|coll)_rawe\w*"
_PART = re.compile(rf"^    /\* ({_MODULE}(?:, {_MODULE})*): (\w[\w-]*)", re.MULTILINE)
_NAME = re.compile(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$")
_CHANGED = r"(?:memcpy|snprintf|atomic_(?:init|store|exchange|fetch|compare)\w*)\(\s*&?"


def _parts(source, struct, path):
    """Field -> modules that write it, and problems."""
    begin = re.search(rf"struct {struct} {{", source).end()
    body = source[begin : source.index("\n}", begin)]
    headings = list(_PART.finditer(body))
    writers, problems = {}, []
    for offset, statement in _fields(c_source.code(body)):
        found = _NAME.search(statement)
        name = found[1] or found[2]
        above = [heading for heading in headings if heading.end() <= offset]
        line = c_source.line_of(source, begin + offset)
        if not above or above[-1][2] not in RULES:
            problems.append(f"{path}:{line}: {name} stands in no part whose rule is one of "
                            + ", ".join(RULES))  # fmt: skip
            continue
        atomic = bool(re.match(r"atomic_|_Atomic", statement))
        if atomic != (above[-1][2] == "atomic"):
            problems.append(f"{path}:{line}: {name} must be atomic, if its part says so, only then")
        writers[name] = above[-1][1].split(", ")
    return writers, problems


def _pointers(chunk, struct, kind):
    """What stands before a field of the struct in a chunk of code, as a regular expression."""
    names = re.findall(rf"\b{kind} (?:\*|const \*)(\w+)\b(?!\()", chunk)
    whole = [rf"\b{name}->" for name in set(names)]
    if struct == "mca_btl_rawe_state":
        whole.append(r"\bmca_btl_rawe_state\.")
    if struct == "mca_btl_rawe_module":
        whole.append(r"\bmodules\[\w+\]->")
    if struct == "mca_btl_base_endpoint_t":
        whole += [r"\bendpoints\[\w+\]->", r"->owner\)->"]
    return "(?:" + "|".join(whole) + ")" if whole else None


def _changes(text, struct, kind):
    """(offset, field) of each change of the struct's fields."""
    for start, chunk in _chunks(text):
        before = _pointers(chunk, struct, kind)
        if before is None:
            continue
        access = before + r"(\w+)\b"
        assigned = access + r"(?:[.\[][\w.\[\]]*)?" + _ASSIGNED
        for pattern in (assigned, r"(?:\+\+|--)" + access, _CHANGED + access):
            for match in re.finditer(pattern, chunk):
                yield start + match.start(1), match[1]


def check(root=tree.ROOT):
    """All problems, as lines of text."""
    layers, problems = read_table(), []
    for struct, (folder, header, layer, kind) in STRUCTS.items():
        path = root / folder / header
        writers, found = _parts(path.read_text(encoding="utf-8"), struct, f"{folder}/{header}")
        problems += found
        for file in sorted((root / folder).glob("*.[ch]")):
            text = c_source.code(file.read_text(encoding="utf-8"))
            module = layers[layer].module_of(file.stem)
            for offset, field in _changes(text, struct, kind):
                may = writers.get(field, [module])
                if module not in may:
                    problems.append(
                        f"{folder}/{file.name}:{c_source.line_of(text, offset)}: changes {field} "
                        f"of {struct}, which {' and '.join(may)} may: call a function of that, or "
                        "enter the module above the part"
                    )
    return problems
