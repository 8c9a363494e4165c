#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the tests: draw mutants (small changes) of core and of coll/rawe at random, by a seed, build
each, run the unit tests, those of its object first, then the simulators with a few hundred seeds,
and print the survivors. Some of these are equivalent to the original, so read the list. Fails if
less than 80 % are found."""

import argparse
import os
import random
import re
import shlex
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True

import planting  # noqa: E402  (no bytecode may be written next to it)
from planting import CORE, NET, TEST  # noqa: E402

ROOT = TEST.parent
UNIT = TEST / "unit"
GLUE = ROOT / "build" / "test" / "unit" / "glue"
COLL = ROOT / "ompi" / "mca" / "coll" / "rawe" / "coll_rawe_agree.c"  # unit tests reach it
WRAP_UNIT = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"  # of tests whose allocations fail
OWN_FIXTURE = "unit_group.c"  # of one test only
UNIT_SECONDS, SIM_SECONDS = 20, 120  # hundreds of times their usual time
SIM_FAULTS = ("none", "mild", "all")
SIM_SEEDS = 300
FOUND_PERCENT = 80  # at least; most others are equivalent to the original

# Statistics, assertions that hold, and hints to compiler or processor have no effect.
SKIPPED = re.compile(
    r"^\s*(assert|_Static_assert|rawe_histogram_add|\(void\)|__builtin)|counters(\.|->)"
)
SWAPS = (
    (r" (<=?|>=?) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    (r" (==|!=) ", {"==": "!=", "!=": "=="}),
    (r" ([+-]=?) ", {"+": "-", "-": "+", "+=": "-=", "-=": "+="}),
    (r" (&&|\|\|)(?=\s)", {"&&": "||", "||": "&&"}),
    (r"(?<![\w.\[])([01])(?:u|ull)?(?![\w.\]])", {"0": "1", "1": "0"}),
    (r"\b(true|false)\b", {"true": "false", "false": "true"}),
    (r"\w(\+\+|--);", {"++": " += 2", "--": " -= 2"}),
)
CONDITION = re.compile(r"\b(if|while) \(")
STATEMENT = re.compile(r"^ +(?!return\b|goto\b|break\b|continue\b|else\b|case\b)[*(]*\w[^{};=]*?"
                       r"(?:(?<![ *]) [-+*/|&^%]?=[^=][^{};]*|\)|\+\+|--);$", re.M)  # fmt: skip
DECLARATION = re.compile(
    r"^ +(?:const |static |struct |enum )*\w+ \*?(?:const )?\w+(?:\[.*\])?(?: =|;)"
)


@dataclass(frozen=True)
class Mutant:
    """A source with one change."""

    source: Path
    line: int  # number of the first one changed
    old: str
    new: str
    text: str  # all of the source

    def __str__(self):
        name = self.source.relative_to(ROOT)
        return f"{name}:{self.line}: {squeeze(self.old)} -> {squeeze(self.new) or '(nothing)'}"


def squeeze(text):
    return " ".join(text.split())


def blank(text):
    """The source with comments, strings and characters as spaces, so that offsets stay valid."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^#.*?(?<!\\)$'
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S | re.M)


def closing(text, at):
    """Offset of the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError("no closing parenthesis")


def changes_of(code):
    """(begin, end, new text) of each change to the body of a function."""
    for pattern, others in SWAPS:
        for found in re.finditer(pattern, code):
            yield found.start(1), found.end(1), others[found[1]]
    for found in CONDITION.finditer(code):
        begin, end = found.end(), closing(code, found.end() - 1)
        yield begin, end, f"!({code[begin:end]})"
        if found[1] == "if":
            yield begin, end, "true"
    for found in STATEMENT.finditer(code):
        if not DECLARATION.match(found[0]):
            yield found.start(), found.end(), ""


def mutants_of(source, text):
    """All mutants of a source: changes within functions, except in statements without effect."""
    code = blank(text)
    for body in re.finditer(r"^\{\n.*?^\}", code, re.S | re.M):
        for begin, end, new in changes_of(body[0]):
            begin, end = begin + body.start(), end + body.start()
            first = code.rfind("\n", 0, begin) + 1
            last = code.index("\n", end)
            if not SKIPPED.search(code[first:last]):
                old = text[first:last]
                changed = text[first:begin] + new + text[end:last]
                line = text.count("\n", 0, first) + 1
                yield Mutant(source, line, old, changed, text[:begin] + new + text[end:])


def unit_tests():
    """The unit tests of core, by name: a test of an object of core is named after it."""
    objects = {source.stem.removeprefix("rawe_") for source in CORE.rglob("*.[ch]")}
    names = {source.stem.removeprefix("test_"): source for source in sorted(UNIT.glob("test_*.c"))}
    return {
        name: source
        for name, source in names.items()
        if any(name == one or name.startswith(f"{one}_") for one in objects)
    }


class Laboratory:
    """Everything that is compiled only once: tests, simulators, and the unchanged core."""

    def __init__(self, folder):
        self.folder = folder
        self.tests = unit_tests()
        self.found_by = dict.fromkeys(self.tests, 0)
        support = [*sorted(UNIT.glob("unit_*.c")), *sorted(NET.glob("*.c"))]
        includes = [CORE, CORE.parent, NET]
        (folder / "sim").mkdir()
        self.simulator = planting.compile_simulator(folder / "sim")
        self.group_simulator = planting.compile_own_simulator(folder / "group", "group")
        self.objects = planting.compile_all(folder, [*self.tests.values(), *support], includes)
        archive = folder / "libsupport.a"
        members = [self.objects[one.name] for one in support if one.name != OWN_FIXTURE]
        members += [self.simulator[source.name] for source in CORE.rglob("*.c")]
        planting.run(["ar", "rcs", archive, *members])
        self.archive = archive
        self.sanitizer = planting.run(["cc", "-print-file-name=liblsan.so"])[1].strip()

    def suspects(self, stem):
        """Unit tests in order: those of the object, then those that have found most mutants."""

        def order(name):
            own = name == stem or name.startswith(f"{stem}_") or stem.startswith(f"{name}_")
            return (not own, -self.found_by[name])

        return sorted(self.tests, key=order)

    def leaks(self, program):
        """Whether a test that passes leaks memory. The sanitizer needs unlimited address space."""
        environment = ["env", f"LD_PRELOAD={self.sanitizer}"]
        return planting.run([program], UNIT_SECONDS, environment)[0] != 0

    def run_unit(self, name, folder, changed):
        """Whether a unit test fails."""
        source = self.tests[name]
        text = source.read_text(encoding="utf-8")
        wrap = [WRAP_UNIT] if '"unit_alloc.h"' in text else []
        own = [OWN_FIXTURE] if f'"{OWN_FIXTURE.replace(".c", ".h")}"' in text else []
        program = folder / source.stem
        objects = [*(self.objects[one] for one in (source.name, *own)), *changed]
        if changed and f'/{changed[0].stem}.c"' in text:
            return False  # it includes the original
        libraries = [self.archive, "-lcmocka", "-lm"]
        planting.link(program, [*wrap, *objects, *libraries])
        failed = planting.run([program], UNIT_SECONDS)[0] != 0 or self.leaks(program)
        program.unlink()
        self.found_by[name] += failed
        return failed

    def run_simulators(self, folder, changed):
        """The first finding of the simulators, or None."""
        name, objects, campaigns = "rawe-sim", self.simulator, SIM_FAULTS
        if changed and changed.stem.startswith("rawe_group"):
            name, objects, campaigns = "rawe-sim-group", self.group_simulator, (None,)
        if changed:
            objects = {**objects, changed.with_suffix(".c").name: changed}
        planting.link_simulator(folder / name, objects)
        hunts = (planting.hunt(folder / name, SIM_SEEDS, one, SIM_SECONDS) for one in campaigns)
        found = next(filter(None, hunts), None)
        return found and f"{name}: {found}"

    def hunt(self, folder, changed=None):
        """The test that finds a changed object of core; None: no test, which is required if no
        object is changed."""
        for name in self.suspects(changed.stem.removeprefix("rawe_") if changed else ""):
            if self.run_unit(name, folder, [changed] if changed else []):
                return f"test_{name}"
        return self.run_simulators(folder, changed)

    def attempt(self, mutant):
        """The test that finds a mutant; None: no test; "": it does not compile."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            if mutant.source == COLL:
                return hunt_coll(mutant, folder)
            source = folder / mutant.source.name
            source.write_text(mutant.text, encoding="utf-8")
            target = source.with_suffix(".o")
            if planting.compile_file(source, target, [CORE, mutant.source.parent]):
                return ""
            return self.hunt(folder, target)


def hunt_coll(mutant, folder):
    """The test that finds a mutant of coll/rawe, whose source the unit test includes."""
    copy = folder / mutant.source.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_text(mutant.text, encoding="utf-8")
    show = 'show: ; @echo "$(test_agree_CPPFLAGS)" @ "$(test_agree_LDADD)"'
    status, words = planting.run(["make", "-s", "-C", GLUE, f"--eval={show}", "show"])
    if status != 0:
        planting.fail(f"{GLUE} is not configured: build first, as test/run does")
    flags, libraries = (shlex.split(part) for part in words.split("@"))
    flags = [f"-I{GLUE / word[2:]}" if word.startswith("-I") else word for word in flags]
    libraries = [GLUE / word if word.endswith(".a") else word for word in libraries]
    test = UNIT / "glue" / "test_agree.c"
    if planting.compile_file(test, folder / "agree.o", [folder, COLL.parent], flags):
        return ""
    planting.link(folder / "test_agree", [folder / "agree.o", *libraries])
    return "test_agree" if planting.run([folder / "test_agree"], UNIT_SECONDS)[0] != 0 else None


def draw(seed, files):
    """Mutants of all sources in random order, at most one for each line."""
    sources = sorted([*CORE.rglob("*.c"), COLL])
    chosen = [one for one in sources if not files or any(name in str(one) for name in files)]
    all_mutants = [
        mutant for one in chosen for mutant in mutants_of(one, one.read_text(encoding="utf-8"))
    ]
    random.Random(seed).shuffle(all_mutants)
    return list({(mutant.source, mutant.line): mutant for mutant in reversed(all_mutants)}.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "files", nargs="*", metavar="PART", help="only of files whose path has this"
    )
    text = "mutants that are tried (default: %(default)s)"
    parser.add_argument("--mutants", type=int, default=300, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=1, help="another one draws others")
    text = "mutants tried at the same time (default: %(default)s)"
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help=text)
    options = parser.parse_args()
    waiting = draw(options.seed, options.files)
    lock = threading.Lock()
    found, survivors, invalid = [], [], []
    with tempfile.TemporaryDirectory(prefix="rawe-mutants-") as temporary:
        laboratory = Laboratory(Path(temporary))
        finder = laboratory.hunt(Path(temporary))
        if finder:
            planting.fail(f"{finder} fails where nothing is changed")

        def worker():
            while True:
                with lock:
                    if not waiting or len(found) + len(survivors) >= options.mutants:
                        return
                    mutant = waiting.pop()
                finder = laboratory.attempt(mutant)
                with lock:
                    if finder == "":
                        invalid.append(mutant)
                        continue
                    (found if finder else survivors).append(mutant)
                    count = len(found) + len(survivors)
                    print(f"{count:4} {mutant}: {finder or 'SURVIVES'}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            for result in [pool.submit(worker) for _ in range(options.jobs)]:
                result.result()
    print("\nsurvivors:")
    for mutant in sorted(survivors, key=str):
        print(mutant)
    total = len(found) + len(survivors)
    print(f"{total} mutants, {len(found)} found, {len(survivors)} survive")
    print(f"{len(invalid)} more do not compile")
    sys.exit(100 * len(found) < FOUND_PERCENT * total or total == 0)


if __name__ == "__main__":
    main()
