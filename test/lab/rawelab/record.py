# SPDX-License-Identifier: BSD-3-Clause
"""The note a lab leaves in /run/rawe-lab, so that anybody can find, enter and remove it.

It is written before the first namespace exists and deleted after the last one is gone: a lab
whose owner was killed with SIGKILL can always be found again. `/run/rawe-lab/<name>/` beside it
holds the lab's files (host table, host file, session directories of Open MPI).
"""

import json
import os
import shutil
from pathlib import Path

from .command import LabError

ROOT = Path("/run/rawe-lab")


def lock_path():
    """File that serialises what labs must not do at once."""
    ROOT.mkdir(mode=0o755, exist_ok=True)
    return ROOT / ".lock"


def directory(name):
    """The lab's own directory."""
    return ROOT / name


def _record_path(name):
    return ROOT / f"{name}.json"


def process_start(pid):
    """Start time of a process in clock ticks since boot, or None: tells a reused pid apart."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name in parentheses may contain anything; field 22 counts from behind it.
    return int(stat.rpartition(")")[2].split()[19])


def create(name, spec, namespaces):
    """Claim a name for a lab of this process; LabError when another lab has it."""
    lock_path()
    content = {
        "name": name,
        "owner_pid": os.getpid(),
        "owner_start": process_start(os.getpid()),
        "spec": spec,
        "namespaces": namespaces,
    }
    try:
        with open(_record_path(name), "x", encoding="utf-8") as file:
            json.dump(content, file)
    except FileExistsError as error:
        raise LabError(
            f"a lab named {name} exists already; choose another --name, or remove it with "
            f"`lab down {name}`"
        ) from error
    directory(name).mkdir(mode=0o755)


def release_owner(name):
    """Let a lab outlive this process: it stays until `lab down` removes it."""
    content = load(name)
    content["owner_pid"] = None
    content["owner_start"] = None
    temporary = _record_path(name).with_suffix(".new")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(_record_path(name))


def load(name):
    """The record of a lab; LabError when there is none of that name."""
    try:
        return json.loads(_record_path(name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        known = ", ".join(names()) or "none"
        raise LabError(f"there is no lab named {name}; labs here: {known}") from error
    except json.JSONDecodeError as error:
        raise LabError(
            f"the record {_record_path(name)} is damaged ({error}); its namespaces are those of "
            f"`ip netns list` that begin with rawe-{name}-: delete them and the record"
        ) from error


def names():
    """Names of all labs on this machine."""
    if not ROOT.is_dir():
        return []
    return sorted(path.stem for path in ROOT.glob("*.json"))


def state(content):
    """`running` (its owner lives), `up` (stays until taken down) or `stale` (owner died)."""
    if content["owner_pid"] is None:
        return "up"
    if process_start(content["owner_pid"]) == content["owner_start"]:
        return "running"
    return "stale"


def delete(name):
    """Forget a lab whose namespaces are gone."""
    shutil.rmtree(directory(name), ignore_errors=True)
    _record_path(name).unlink(missing_ok=True)
    _record_path(name).with_suffix(".new").unlink(missing_ok=True)
