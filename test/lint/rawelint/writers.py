# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each part of a shared struct is written by the modules that its comment names.

A connection is struct rawe_conn, and the structs tx, rx, path and end in it: one module writes each
part. Fields below the comment "objects" are structs of other modules: each is written by the module
whose header defines it.

In the structs of the glue and of coll/rawe, the comment above a part is "modules: rule". The rule
says which thread may write (RULES, explained in btl_rawe_module.h). Exactly the fields that any
thread may write without a lock are atomic.
"""

import re

from . import c_source, tree
from .layers import COMPONENT, read_table

STATE = "core/conn/rawe_conn_state.h"
OBJECTS = "objects"
CONN = "rawe_conn"
STRUCTS = (CONN, "rawe_conn_tx", "rawe_conn_rx", "rawe_conn_path", "rawe_conn_end")
_PART = re.compile(r"^    /\* (?:(rawe_\w+)\.c|(objects))\b", re.MULTILINE)
_FIELD = re.compile(
    r"(?:struct (?P<type>\w+) *(?P<pointer>\**)|[\w ]+?[ *])(?P<name>\w+)(?:\[\w+\])?$"
)
_ASSIGNED = r"\s*(?:=(?!=)|[-+*/|&^]=|<<=|>>=|\+\+|--)"
_POINTER = re.compile(r"\bstruct (rawe_\w+) \*(\w+)\b(?!\()")


def _fields(body):
    """Yield (offset, statement) of each field of a struct's body, comments blanked."""
    start = 0
    for position, char in enumerate(body):
        if char == ";":
            text = body[start:position]
            yield start + len(text) - len(text.lstrip()), " ".join(text.split())
            start = position + 1


def read_parts(source, homes, struct):
    """Return {field: (module that writes it, its struct type or None)}, and problems."""
    head = f"struct {struct} {{"
    begin = source.index(head)
    end = source.index("\n};", begin)
    body = source[begin + len(head) : end]
    headings = [(m.end(), m[1] or OBJECTS) for m in _PART.finditer(body)]
    parts, problems = {}, []
    for offset, statement in _fields(c_source.code(body)):
        callback = re.search(r"\(\*(\w+)\)", statement)
        match = _FIELD.match(statement)
        name = callback[1] if callback else match["name"]
        kind = None if callback or match["pointer"] else match["type"]
        above = [part for at, part in headings if at <= offset]
        writer = above[-1] if above else None
        if writer == OBJECTS:
            writer = homes.get(match["type"] if match else None)
        if kind in STRUCTS:
            writer = kind  # its own parts name their writers
        if writer is None:
            line = c_source.line_of(source, begin + offset)
            problems.append(f"{COMPONENT}/{STATE}:{line}: {name} stands in no part")
        parts[name] = (writer, kind)
    return parts, problems


def _chunks(text):
    """Yield (offset, text) of each definition at the left margin."""
    start = 0
    for match in re.finditer(r"^}.*\n", text, re.MULTILINE):
        yield start, text[start : match.end()]
        start = match.end()
    yield start, text[start:]


def _writer(match, kind, parts, owners):
    """Return the module that writes the assigned field, or None if unknown."""
    if kind not in parts:
        return owners[kind]
    writer, part = parts[kind].get(match[1], (None, None))
    return parts[part].get(match[2], (None,))[0] if part in parts else writer


def _breaches(text, module, parts, owners):
    """Yield (offset, field, its writer) of each assignment that belongs to another module."""
    for start, chunk in _chunks(text):
        pointers = {m[2]: m[1] for m in _POINTER.finditer(chunk)}
        for name, kind in pointers.items():
            access = rf"\b{name}->(\w+)(?:\.(\w+))?[\w.\[\]]*"
            for pattern in (access + _ASSIGNED, r"(?:\+\+|--)" + access):
                for match in re.finditer(pattern, chunk):
                    writer = _writer(match, kind, parts, owners)
                    if writer not in (None, module):
                        yield start + match.start(), match[0].rstrip("=+-*/|&^< "), writer


def check(root=tree.ROOT):
    """Return all problems, as lines of text."""
    core = root / COMPONENT / "core"
    files = sorted(core.rglob("*.[ch]"))
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    module_of = read_table()["core"].module_of
    homes = {}
    for ending in (";", " {"):  # a definition counts more than a declaration
        for file, source in sources.items():
            for kind in re.findall(rf"^struct (\w+){ending}", source, re.MULTILINE):
                homes[kind] = module_of(file.stem)
    parts, problems = {}, []
    for struct in STRUCTS:
        parts[struct], found = read_parts(sources[root / COMPONENT / STATE], homes, struct)
        problems += found
    # Only structs that are parts themselves; a link, for example, is written by its own module.
    kinds = {
        kind: writer
        for fields in parts.values()
        for writer, kind in fields.values()
        if kind and homes.get(kind) in (writer, "rawe_conn_state", None)
    }
    for file, source in sources.items():
        text = c_source.code(source)
        module = module_of(file.stem)
        owners = _Owners(kinds, module)
        for offset, what, writer in _breaches(text, module, parts, owners):
            path = file.relative_to(root).as_posix()
            problems.append(
                f"{path}:{c_source.line_of(text, offset)}: assigns to {what}, "
                f"which {writer} writes: call a function of that"
            )
    return problems


class _Owners(dict):
    """Type -> module that writes it; for a type outside of connections, the module that asks."""

    def __init__(self, kinds, module):
        super().__init__(kinds)
        self.module = module

    def __missing__(self, kind):
        return self.module


RULES = ("set-up", "lock", "endpoints_lock", "routes_lock", "service", "atomic", "call")
COLL = "ompi/mca/coll/rawe"
# Struct -> folder, header, layer, and the type that points to it; the state is also a variable.
GLUE_STRUCTS = {
    "mca_btl_rawe_module": (COMPONENT, "btl_rawe_module.h", "glue", "mca_btl_rawe_module_t"),
    "mca_btl_rawe_state": (COMPONENT, "btl_rawe_module.h", "glue", "mca_btl_rawe_state"),
    "mca_btl_base_endpoint_t": (
        COMPONENT, "btl_rawe_endpoint.h", "glue", "mca_btl_base_endpoint_t",
    ),
    "mca_coll_rawe_module": (COLL, "coll_rawe.h", "coll", "mca_coll_rawe_module_t"),
}  # fmt: skip
_MODULE = r"(?:btl|coll)_rawe\w*"
_GLUE_PART = re.compile(rf"^    /\* ({_MODULE}(?:, {_MODULE})*): (\w[\w-]*)", re.MULTILINE)
_NAME = re.compile(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$")
_CHANGED = r"(?:memcpy|snprintf|atomic_(?:init|store|exchange|fetch|compare)\w*)\(\s*&?"


def _glue_parts(source, struct, path):
    """Return {field: modules that write it}, and problems."""
    begin = re.search(rf"struct {struct} {{", source).end()
    body = source[begin : source.index("\n}", begin)]
    headings = list(_GLUE_PART.finditer(body))
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
    """Return a regular expression for what precedes a field of the struct in a chunk of code."""
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
    """Yield (offset, field) of each change of the struct's fields."""
    for start, chunk in _chunks(text):
        before = _pointers(chunk, struct, kind)
        if before is None:
            continue
        access = before + r"(\w+)\b"
        assigned = access + r"(?:[.\[][\w.\[\]]*)?" + _ASSIGNED
        for pattern in (assigned, r"(?:\+\+|--)" + access, _CHANGED + access):
            for match in re.finditer(pattern, chunk):
                yield start + match.start(1), match[1]


def check_glue(root=tree.ROOT):
    """Return all problems, as lines of text."""
    layers, problems = read_table(), []
    for struct, (folder, header, layer, kind) in GLUE_STRUCTS.items():
        path = root / folder / header
        writers, found = _glue_parts(path.read_text(encoding="utf-8"), struct, f"{folder}/{header}")
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
