# SPDX-License-Identifier: BSD-3-Clause
"""A lab's record in /run/rawe-lab, with which any process can find, enter and remove the lab.

The record is written before the first namespace is created and deleted after the last is removed,
so a lab can be found even if its owner was killed with SIGKILL. `/run/rawe-lab/<name>/` holds the
lab's files (host table, host file, session directories of Open MPI).
"""

import json
import os
import shutil
from pathlib import Path

from .command import LabError

ROOT = Path("/run/rawe-lab")


def lock_path():
    """Return the lock file for operations that two labs must not perform at the same time."""
    ROOT.mkdir(mode=0o755, exist_ok=True)
    return ROOT / ".lock"


def directory(name):
    """Return the lab's directory."""
    return ROOT / name


def _record_path(name):
    return ROOT / f"{name}.json"


def process_start(pid):
    """Return the start time of a process in clock ticks since boot, or None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name in parentheses may contain anything, so count to field 22 from its end.
    return int(stat.rpartition(")")[2].split()[19])


def create(name, spec, namespaces):
    """Claim a name for this process's lab; raise LabError if another lab has that name."""
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
    """Let a lab outlive this process, until `lab down` removes it."""
    content = load(name)
    content["owner_pid"] = None
    content["owner_start"] = None
    temporary = _record_path(name).with_suffix(".new")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(_record_path(name))


def load(name):
    """Return the record of a lab; raise LabError if there is no such lab."""
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
    """Return the names of all labs on this machine."""
    if not ROOT.is_dir():
        return []
    return sorted(path.stem for path in ROOT.glob("*.json"))


def state(content):
    """Return `running` (owner alive), `up` (no owner, until taken down) or `stale` (owner died)."""
    if content["owner_pid"] is None:
        return "up"
    if process_start(content["owner_pid"]) == content["owner_start"]:
        return "running"
    return "stale"


def delete(name):
    """Delete the record of a lab whose namespaces have been removed."""
    shutil.rmtree(directory(name), ignore_errors=True)
    _record_path(name).unlink(missing_ok=True)
    _record_path(name).with_suffix(".new").unlink(missing_ok=True)
