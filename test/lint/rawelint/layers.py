# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the component's layers and modules depend on each other in one direction only.

An arrow A -> B exists when a file of module A includes a header of B or names a function that B
defines. Function pointers make no arrow: they are how a lower module calls a higher one.
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
PART = re.compile(r"_(internal|inline)$")
# What a refused system header is, for the message; the first match counts.
WHY_REFUSED = (
    (r"^(sys/socket|sys/un|linux/|net/|netinet/|netpacket/|arpa/|poll|sys/(poll|epoll|select)|ifaddrs)",
     "sockets and devices are linux's"),
    (r"^(time|sys/time|sys/timerfd|sys/timex)\.h", "a clock; the caller passes the time"),
    (r"^(pthread|threads|semaphore|sched)\.h", "threads are the glue's and linux's"),
    (r"^stdio\.h", "output is the glue's; count what happened instead"),
)  # fmt: skip


class TableError(Exception):
    """layers.toml cannot be used; the text says why."""


@dataclass
class Module:
    """Files that are one object."""

    name: str
    layer: str
    files: list = field(default_factory=list)


@dataclass(frozen=True)
class Arrow:
    """Why one module depends on another."""

    file: str
    line: int
    why: str


@dataclass
class Layer:
    """A layer's rules, as layers.toml has them."""

    name: str
    folder: str
    rules: dict
    members: dict = field(default_factory=dict)  # stem of a file -> module's name
    order: list = field(default_factory=list)  # modules' names from bottom to top

    def module_of(self, stem):
        """The module to which NAME.c or NAME.h belongs; files that are not listed: by the name."""
        base = PART.sub("", stem)
        return self.members.get(stem) or self.members.get(base) or base


def read_table(path=TABLE):
    """Layers by name."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{path.name}: {error}") from error
    layers = {}
    for name, rules in tables.items():
        layer = layers[name] = Layer(name, rules["folder"], rules)
        for entry in rules.get("modules", ()):
            words = entry.split()
            for stem in words:
                if stem in layer.members:
                    raise TableError(f"{path.name}: [{name}] lists {stem} twice")
                layer.members[stem] = words[0]
            layer.order.append(words[0])
    return layers


class Component:
    """The component's files, what they include, define and name."""

    def __init__(self, root, layers):
        self.root = root / COMPONENT
        self.layers = layers
        self.modules = {}
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
        """Note one; `path` is relative to the component."""
        self.problems.append(f"{COMPONENT}/{path}:{line}: {text}")

    def _read(self, layer):
        seen = set()
        pattern = "*.[ch]" if layer.folder == "." else "**/*.[ch]"  # the glue surrounds the rest
        for file in sorted((self.root / layer.folder).glob(pattern)):
            if file.name in GENERATED:
                continue
            path = file.relative_to(self.root).as_posix()
            name = layer.module_of(file.stem)
            is_first = (layer.name, name) not in self.modules
            seen.add(file.stem)
            seen.add(PART.sub("", file.stem))
            module = self.modules.setdefault((layer.name, name), Module(name, layer.name))
            module.files.append(path)
            self.module_of[path] = module
            self.sources[path] = file.read_text(encoding="utf-8")
            if is_first and layer.order and name not in layer.order:
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
        """The file of the component that a quoted include names, or None."""
        for base in (os.path.dirname(path), "", *(layer.folder for layer in self.layers.values())):
            found = os.path.normpath(os.path.join(base, what))
            if found in self.sources:
                return found
        return None


def _check_include(component, layer, path, line, what, quoted):
    """Rules for headers that are not the component's own."""
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
    """May this layer use a module of another one?"""
    allowed = layer.rules.get("uses", {}).get(target.layer, ())
    return allowed == "all" or target.name in allowed


def arrows(component):
    """(Module, Module) names as keys -> the Arrow found first; notes breaches between layers."""
    found = {}

    def add(path, line, target, why):
        source = component.module_of[path]
        if source is target:
            return
        layer = component.layers[source.layer]
        if source.layer != target.layer:
            if not _may_use(layer, target):
                component.problem(
                    path, line,
                    f"{why}: {layer.name} may not use {target.layer}'s {target.name}",
                )  # fmt: skip
            return
        key = ((source.layer, source.name), (target.layer, target.name))
        found.setdefault(key, Arrow(path, line, why))

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
    return found


def circles(edges):
    """Sets of nodes that reach each other (strongly connected, more than one), each sorted."""
    graph = {}
    for source, target in edges:
        graph.setdefault(source, set()).add(target)
        graph.setdefault(target, set())
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


def shortest_circle(edges, members):
    """A shortest way from the first member that has one back to itself, within `members`."""
    inside = {}
    for source, target in sorted(edges):
        if source in members and target in members:
            inside.setdefault(source, []).append(target)
    best = None
    for start in members:
        came_from, queue = {}, [start]
        for node in queue:
            for other in inside.get(node, ()):
                if other not in came_from:
                    came_from[other] = node
                    queue.append(other)
        if start in came_from:
            way = [start]
            while len(way) == 1 or way[-1] != start:
                way.append(came_from[way[-1]])
            if best is None or len(way) < len(best):
                best = way[::-1]
    return best


def _check_order(component, found):
    """Arrows that point up, in layers whose order is fixed."""
    for ((name, source), (_, target)), arrow in sorted(found.items()):
        order = component.layers[name].order
        if source in order and target in order and order.index(source) < order.index(target):
            component.problem(
                arrow.file, arrow.line,
                f"{arrow.why}, but {source} is below {target} in test/lint/layers.toml: "
                "an arrow points up",
            )  # fmt: skip


def _check_circles(component, found):
    """Circles between modules."""
    for members in circles(found):
        way = shortest_circle(found, members)
        steps = []
        for source, target in zip(way, way[1:], strict=False):
            arrow = found[source, target]
            steps.append(f"    {source[1]} -> {target[1]}: {arrow.file}:{arrow.line} {arrow.why}")
        names = ", ".join(name for _, name in members)
        first = found[way[0], way[1]]
        component.problem(
            first.file, first.line,
            f"circle of {len(members)} modules: {names}; a shortest one in it:\n"
            + "\n".join(steps),
        )  # fmt: skip


def _check_inside(component):
    """Circles of calls between the sources of one module: several files may share a header."""
    edges = {}
    for path, source in component.sources.items():
        if not path.endswith(".c"):
            continue
        for name, line in c_source.names(source).items():
            module, file = component.owners.get(name, (None, None))
            if module is component.module_of[path] and file != path:
                edges.setdefault((path, file), (line, name))
    for members in circles(edges):
        way = shortest_circle(edges, members)
        steps = []
        for source, target in zip(way, way[1:], strict=False):
            line, name = edges[source, target]
            steps.append(f"    {source}:{line} uses {name}() of {target}")
        component.problem(
            way[0], edges[way[0], way[1]][0],
            f"circle of {len(members)} sources inside of the module "
            f"{component.module_of[way[0]].name}; a shortest one in it:\n" + "\n".join(steps),
        )  # fmt: skip


def _check_header_circles(component):
    """Circles between headers, also inside of one module."""
    edges = {}
    for path, source in component.sources.items():
        if path.endswith(".h"):
            for line, what, quoted in c_source.includes(source):
                target = component.resolve(path, what) if quoted else None
                if target is not None and target.endswith(".h"):
                    edges.setdefault((path, target), line)
    for members in circles(edges):
        way = shortest_circle(edges, members)
        component.problem(way[0], edges[way[0], way[1]], f"circle of headers: {' -> '.join(way)}")
    for (source, target), line in edges.items():
        if source == target:
            component.problem(source, line, "the header includes itself")


def check(root=tree.ROOT, table=TABLE):
    """All problems, as lines of text."""
    try:
        layers = read_table(table)
    except TableError as error:
        return [f"test/lint/{error}"]
    component = Component(root, layers)
    found = arrows(component)
    _check_order(component, found)
    _check_circles(component, found)
    _check_inside(component)
    _check_header_circles(component)
    return component.problems
