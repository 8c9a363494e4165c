# SPDX-License-Identifier: BSD-3-Clause
"""Runs third-party checkers, each on its kind of files and with its options."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from . import tree

HERE = Path(__file__).resolve().parents[1]
STATE = tree.ROOT / "build" / "lint"  # ruff
COMPONENT = "opal/mca/btl/rawe"
SHELLCHECK_OFF = (
    "SC1090",  # files whose names are known only when the script runs
    "SC1091",
    "SC2015",  # a && b || c: where b cannot fail, that is if-then-else
    "SC2016",  # single quotes around $: meant for the shell that is called
)


class ToolMissing(Exception):
    """A program cannot be run; the text says what to do."""


def _program(*names):
    """Return the first of these programs that is installed."""
    for name in names:
        if shutil.which(name):
            return name
    raise ToolMissing(f"{names[-1]} is not installed: test/install-deps test installs it")


def _run(argv, root=tree.ROOT):
    """Run a program in `root`. Returns its exit status and all output."""
    done = subprocess.run(
        list(map(str, argv)),
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _lines(status, output, name):
    """Return the lines of the output; a failure without output is a problem as well."""
    lines = [line for line in output.splitlines() if line.strip()]
    return lines or ([f"{name} ended with status {status}"] if status != 0 else [])


def clang_format(prefixes=(), root=tree.ROOT):
    """Check the format of C. Major versions other than Debian's 14 format differently."""
    files = [path for path in tree.files(root, prefixes) if tree.is_c(path)]
    if not files:
        return []
    program = _program("clang-format-14", "clang-format")
    style = f"--style=file:{tree.ROOT / '.clang-format'}"
    argv = [program, style, "--dry-run", "-Werror", "--ferror-limit=0", *files]
    status, output = _run(argv, root)
    found = dict.fromkeys(re.findall(r"^(.*?:\d+):\d+: error: code should be", output, re.M))
    problems = [f"{place}: clang-format writes this differently" for place in found]
    return problems or _lines(status, output, program) if status != 0 else []


def cppcheck(prefixes=(), root=tree.ROOT):
    """Check for null pointers, leaks and formats of printf. cppcheck.txt has the exceptions."""
    files = [path for path in tree.files(root, prefixes) if path.endswith(".c")]
    if not files:
        return []
    argv = [_program("cppcheck"), f"-j{os.cpu_count()}", "--quiet", "--std=c11"]
    argv += ["--enable=warning,performance,portability,style", "--inline-suppr"]
    argv += ["--library=posix", f"--library={HERE / 'cppcheck.cfg'}"]
    argv += [f"--suppressions-list={HERE / 'cppcheck.txt'}"]
    argv += ["--template={file}:{line}: {message} [{id}]", "--error-exitcode=1"]
    argv += [f"-I{COMPONENT}/{folder}" for folder in (".", "core")]
    status, output = _run([*argv, *files], root)
    return sorted(set(_lines(status, output, "cppcheck")))


def shellcheck(prefixes=(), root=tree.ROOT):
    """Check shell scripts, found by their first line."""
    files = [path for path in tree.files(root, prefixes) if tree.is_shell(path, root)]
    if not files:
        return []
    argv = [_program("shellcheck"), "--format=gcc", f"--exclude={','.join(SHELLCHECK_OFF)}"]
    return _lines(*_run([*argv, *files], root), "shellcheck")


def codespell(prefixes=(), root=tree.ROOT):
    """Check for frequent misspellings. codespell.txt has the exceptions."""
    files = [path for path in tree.files(root, prefixes) if tree.is_text(path)]
    if not files:
        return []
    argv = [_program("codespell"), f"--ignore-words={HERE / 'codespell.txt'}"]
    return _lines(*_run([*argv, *files], root), "codespell")


def _ruff():
    """Return ruff in the version of requirements.txt, installing it below build/ if needed."""
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8")
    mark = STATE / "ruff" / "requirements.txt"
    program = STATE / "ruff" / "bin" / "ruff"
    if program.exists() and mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return program
    for argv in (
        ["/usr/bin/python3", "-m", "venv", "--clear", STATE / "ruff"],
        [STATE / "ruff" / "bin" / "pip", "--quiet", "--disable-pip-version-check", "install",
         "--require-hashes", "--only-binary=:all:", "--requirement", HERE / "requirements.txt"],
    ):  # fmt: skip
        status, output = _run(argv)
        if status != 0:
            raise ToolMissing(
                f"{output}ruff could not be installed into {STATE / 'ruff'}: it comes from PyPI, "
                "and needs python3-venv (test/install-deps test)"
            )
    mark.write_text(wanted, encoding="utf-8")
    return program


def ruff(prefixes=(), root=tree.ROOT):
    """Check Python with `ruff check` and `ruff format`, both configured by ruff.toml."""
    files = [path for path in tree.files(root, prefixes) if tree.is_python(path, root)]
    if not files:
        return []
    program, config = _ruff(), f"--config={HERE / 'ruff.toml'}"
    argv = [program, "check", config, "--quiet", "--output-format=concise", *files]
    problems = _lines(*_run(argv, root), "ruff check")
    status, output = _run([program, "format", config, "--check", *files], root)
    unformatted = re.findall(r"^Would reformat: (.*)$", output, re.M)
    problems += [f"{path}: ruff format writes this differently" for path in unformatted]
    if status != 0 and not unformatted:
        problems += _lines(status, output, "ruff format")
    return problems


def results():
    """Check that doc/results.md and the README's block agree with results/."""
    return _lines(*_run([tree.ROOT / "bench" / "results-page", "--check"]), "bench/results-page")
