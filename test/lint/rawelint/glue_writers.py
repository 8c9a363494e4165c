# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each part of the glue's shared structs is written by the modules that it names.

The comment above a part is "modules: rule". The rule says which thread may write (RULES, explained
in btl_rawe_module.h); fields that any thread may write without a lock are atomic, and no others.
"""

import re

from . import c_source, tree
from .layers import COMPONENT, read_table
from .writers import _ASSIGNED, _chunks, _fields

RULES = ("set-up", "lock", "endpoints_lock", "routes_lock", "service", "atomic")
# Struct -> header, and the types that point to it; "state" is also a variable.
STRUCTS = {
    "mca_btl_rawe_module": ("btl_rawe_module.h", "mca_btl_rawe_module_t"),
    "mca_btl_rawe_state": ("btl_rawe_module.h", "mca_btl_rawe_state"),
    "mca_btl_base_endpoint_t": ("btl_rawe_endpoint.h", "mca_btl_base_endpoint_t"),
}
_PART = re.compile(r"^    /\* (btl_rawe_\w+(?:, btl_rawe_\w+)*): (\w[\w-]*)", re.MULTILINE)
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


def check(root=tree.ROOT):
    """All problems, as lines of text."""
    folder = root / COMPONENT
    sources = {
        file: file.read_text(encoding="utf-8") for file in sorted(folder.glob("btl_rawe_*.[ch]"))
    }
    module_of, problems = read_table()["glue"].module_of, []
    for struct, (header, kind) in STRUCTS.items():
        path = f"{COMPONENT}/{header}"
        writers, found = _parts(sources[folder / header], struct, path)
        problems += found
        for file, source in sources.items():
            text, module = c_source.code(source), module_of(file.stem)
            for start, chunk in _chunks(text):
                before = _pointers(chunk, struct, kind)
                if before is None:
                    continue
                access = before + r"(\w+)\b"
                assigned = access + r"(?:[.\[][\w.\[\]]*)?" + _ASSIGNED
                for pattern in (assigned, r"(?:\+\+|--)" + access, _CHANGED + access):
                    for match in re.finditer(pattern, chunk):
                        may = writers.get(match[1], [module])
                        if module not in may:
                            line = c_source.line_of(text, start + match.start(1))
                            problems.append(
                                f"{COMPONENT}/{file.name}:{line}: changes {match[1]} of {struct}, "
                                f"which {' and '.join(may)} may: call a function of that, or enter "
                                "the module above the part"
                            )
    return problems
