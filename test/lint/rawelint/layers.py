# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the component's layers and modules depend on each other in one direction only.

An arrow A -> B exists when a file of module A includes a header of B or names a function that B
defines. Function pointers make no arrow: a lower module uses them to call a higher one.
test/lint/layers.toml lists the layers, their rules and the order of their modules.
"""

import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import c_source, tree

COMPONENT = "opal/mca/btl/rawe"
TABLE = Path(__file__).resolve().parents[1] / "layers.toml"
GENERATED = {"btl_rawe_help_text.h"}  # made by the build, included by one file
# The kinds of refused system headers, for the message; the first match counts.
WHY_REFUSED = (
    (r"^(sys/socket|sys/un|linux/|net/|netinet/|netpacket/|arpa/|poll|sys/(poll|epoll|select)|ifaddrs)",
     "sockets and devices are linux's"),
    (r"^(time|sys/time|sys/timerfd|sys/timex)\.h", "a clock; the caller passes the time"),
    (r"^(pthread|threads|semaphore|sched)\.h", "threads are the glue's and linux's"),
    (r"^stdio\.h", "output is the glue's; count what happened instead"),
)  # fmt: skip


class TableError(Exception):
    """layers.toml cannot be used; the text of the error says why."""


@dataclass(frozen=True)
class Module:
    """Files that are one object."""

    name: str
    layer: str


@dataclass
class Layer:
    """The rules of a layer in layers.toml."""

    name: str
    folder: str
    rules: dict
    members: dict = field(default_factory=dict)  # stem of a file -> module's name
    order: list = field(default_factory=list)  # modules' names from bottom to top

    def module_of(self, stem):
        """Return the module of NAME.c or NAME.h; an unlisted file is a separate module."""
        return self.members.get(stem, stem)


def read_table(path=TABLE):
    """Read the layers: {name: Layer}."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{path.name}: {error}") from error
    layers = {}
    for name, rules in tables.items():
        layer = layers[name] = Layer(name, rules["folder"], rules)
        for entry in rules["modules"]:
            words = entry.split()
            for stem in words:
                if stem in layer.members:
                    raise TableError(f"{path.name}: [{name}] lists {stem} twice")
                layer.members[stem] = words[0]
            layer.order.append(words[0])
    return layers


class Component:
    """The component's files with their includes, definitions and names."""

    def __init__(self, root, layers):
        self.root = root / COMPONENT
        self.layers = layers
        self.sources = {}  # path relative to the component -> text
        self.module_of = {}  # the same path -> Module
        self.problems = []
        for layer in layers.values():
            self._read(layer)
        self.owners = {}  # function -> (Module, file)
        for path, source in self.sources.items():
            if path.endswith(".c"):
                for name in c_source.functions(source):
                    self.owners[name] = (self.module_of[path], path)

    def problem(self, path, line, text):
        """Add a problem; `path` is relative to the component."""
        self.problems.append(f"{os.path.normpath(f'{COMPONENT}/{path}')}:{line}: {text}")

    def _read(self, layer):
        seen = set()
        pattern = "*.[ch]" if layer.folder == "." else "**/*.[ch]"  # the glue surrounds the rest
        for file in sorted((self.root / layer.folder).glob(pattern)):
            if file.name in GENERATED:
                continue
            path = os.path.normpath(os.path.relpath(file, self.root))
            module = Module(layer.module_of(file.stem), layer.name)
            is_first = module not in self.module_of.values()
            seen.add(file.stem)
            self.module_of[path] = module
            self.sources[path] = file.read_text(encoding="utf-8")
            if is_first and module.name not in layer.order:
                self.problem(
                    path, 1,
                    f"{file.stem} is not in test/lint/layers.toml: enter it under [{layer.name}], "
                    "above what it uses and below what uses it",
                )  # fmt: skip
        for stem in layer.members:
            if stem not in seen:
                self.problems.append(
                    f"test/lint/layers.toml: [{layer.name}] lists {stem}, which has no file: "
                    "remove the entry"
                )

    def resolve(self, path, what):
        """Return the file of the component that a quoted include names, or None."""
        what = what.removeprefix(f"{COMPONENT}/")  # as other components of Open MPI write it
        for base in (os.path.dirname(path), "", *(layer.folder for layer in self.layers.values())):
            found = os.path.normpath(os.path.join(base, what))
            if found in self.sources:
                return found
        return None


def _check_include(component, layer, path, line, what, quoted):
    """Check an include of a header that is not the component's own."""
    if what in GENERATED or layer.rules.get("openmpi"):
        return
    shown = f'"{what}"' if quoted else f"<{what}>"
    if quoted or re.match(r"(opal|ompi|orte|oshmem|mpi|pmix|btl_)", what):
        component.problem(
            path, line, f"{layer.name} includes {shown}: it may not know Open MPI or the glue"
        )
        return
    allowed = layer.rules.get("system")
    if allowed is not None and what not in allowed:
        reason = next((why for regex, why in WHY_REFUSED if re.match(regex, what)), None)
        reason = reason or f"not among those that [{layer.name}] of test/lint/layers.toml allows"
        component.problem(path, line, f"{layer.name} includes {shown}: {reason}")


def _may_use(layer, target):
    """Returns true if this layer may use a module of another one."""
    allowed = layer.rules.get("uses", {}).get(target.layer, ())
    return allowed == "all" or target.name in allowed


def _check_arrows(component):
    """Check that arrows within a layer point down, and that those between layers are allowed."""

    def add(path, line, target, why):
        source = component.module_of[path]
        layer = component.layers[source.layer]
        if source == target:
            return
        if source.layer != target.layer:
            if not _may_use(layer, target):
                component.problem(
                    path, line,
                    f"{why}: {layer.name} may not use {target.layer}'s {target.name}",
                )  # fmt: skip
        elif {source.name, target.name} <= set(layer.order) and (
            layer.order.index(source.name) < layer.order.index(target.name)
        ):
            component.problem(
                path, line,
                f"{why}, but {source.name} is below {target.name} in test/lint/layers.toml: "
                "an arrow points up",
            )  # fmt: skip

    for path, source in component.sources.items():
        layer = component.layers[component.module_of[path].layer]
        for line, what, quoted in c_source.includes(source):
            target = component.resolve(path, what) if quoted else None
            if target is None:
                _check_include(component, layer, path, line, what, quoted)
            else:
                add(path, line, component.module_of[target], f'includes "{what}"')
        for name, line in c_source.names(source).items():
            if name in component.owners:
                module, file = component.owners[name]
                verb = "declares" if path.endswith(".h") else "uses"
                add(path, line, module, f"{verb} {name}() of {file}")


def check(root=tree.ROOT, table=TABLE):
    """Return all problems, as lines of text."""
    try:
        layers = read_table(table)
    except TableError as error:
        return [f"test/lint/{error}"]
    component = Component(root, layers)
    _check_arrows(component)
    return component.problems
