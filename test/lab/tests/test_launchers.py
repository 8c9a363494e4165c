# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of doc/cluster for Slurm and for rootless Podman, run on virtual hosts."""

import os
import shlex
import subprocess
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    NOBODY,
    ROOT,
    STATS,
    USER,
    assert_success,
    help_messages,
    public_place,
    put_program,
    put_starter,
    reports,
    show,
    variables,
    wait_until,
    write_agent,
)

from rawelab import Lab, launch
from rawelab.slurm import Slurm

pytestmark = pytest.mark.launchers

RECIPES = ROOT / "doc/cluster"
RANKS_A_NODE = 2
NODES = 2
# Open MPI 4.1 connects no processes that start later, whichever launcher starts them.
EFFORT = ("--quick", "--scale", "0.1", "--skip", "spawn,connect")


def recipe(file, heading):
    """Return the first indented block below a heading of a document, without the indent."""
    _, _, section = (RECIPES / file).read_text(encoding="utf-8").partition(f"\n## {heading}")
    assert section, f"{file} has no section {heading}"
    lines = dropwhile(lambda line: not line.startswith("    "), section.splitlines())
    block = takewhile(lambda line: line.startswith("    "), lines)
    return "\n".join(line.removeprefix("    ") for line in block)


def adapted(text, changes):
    """Return a recipe with other values in place of its examples, all of which it must have."""
    for old, new in changes.items():
        assert old in text, f"this recipe has no {old!r}:\n{text}"
        text = text.replace(old, str(new))
    return text


@pytest.fixture(scope="module")
def place(build, verify):
    """A directory that every user can read, with component, program and a place for files."""
    with public_place(build, verify) as directory:
        yield directory


def senders(text):
    """Return the ranks that have sent messages, each with the interface."""
    return {key for key, counters in reports(text).items() if counters["messages_sent"] > 0}


# ---- Slurm ----


@pytest.fixture(scope="module")
def slurm():
    """Slurm with a controller and two nodes."""
    with Lab(hosts=1 + NODES) as lab, Slurm(lab, cpus=RANKS_A_NODE) as slurm:
        yield slurm


def batch_script(slurm, heading, program):
    """Return the batch script of a section of batch.md, for this cluster and program."""
    changes = {
        "--nodes=4": f"--nodes={NODES}",
        "--ntasks-per-node=16": f"--ntasks-per-node={RANKS_A_NODE}",
        "10.1.0.0/16": slurm.nodes[0].nics[0].subnet.prefix,
        "./app": shlex.join(map(str, program)),
    }
    return adapted(recipe("batch.md", heading), changes)


def job_variables(place, **others):
    """Return the environment of a job that finds the component and reports its counters."""
    settings = {
        "OMPI_MCA_mca_base_component_path": launch.component_path(place),
        "OMPI_MCA_btl_rawe_stats": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return variables(place, **settings, **others)


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("heading", ["Slurm, mpirun in a batch script", "Slurm, srun"])
def test_a_batch_job_is_exact(slurm, place, heading, user):
    """Each rank sends messages in raw frames between the nodes, and through memory within one."""
    prefix, starter = ((), ()) if user == "root" else (USER, put_starter(place))
    script = batch_script(slurm, heading, [place / "rawe-verify", *EFFORT])
    slurm.lab.count_frames(ETHERTYPE)
    environment = job_variables(place, START=" ".join(map(str, starter)))
    done = slurm.batch(script, place / "tmp", prefix, environment, timeout=HANG_SECONDS)
    result = launch.MpiResult(done.returncode, done.stdout, done.stderr)
    print(f"{script}\n{done.stdout}{done.stderr}")
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    assert help_messages(result) == [], show(result)
    assert senders(result.output) == {(rank, "eth0") for rank in range(NODES * RANKS_A_NODE)}
    assert all(slurm.lab.frames(node) > 0 for node in slurm.nodes)


def test_an_interrupted_run_leaves_nothing(place, exchange):
    program = [put_program(place, exchange), "rounds", -1, 0]
    with pytest.raises(KeyboardInterrupt), Lab(hosts=1 + NODES) as lab:
        with Slurm(lab) as slurm:
            script = batch_script(slurm, "Slurm, srun", program)
            done = slurm.batch(script, place / "tmp", (), job_variables(place), wait=False)
            assert done.returncode == 0, done.stderr
            said, ranks = place / "tmp/job.out", NODES * RANKS_A_NODE
            wait_until(lambda: said.exists() and said.read_text().count("works") == ranks, "ranks")
            pids = lab.processes()
            raise KeyboardInterrupt
    assert len(pids) > ranks
    assert not lab.directory.exists()
    # A process that has ended has no program, even if its parent has not collected its status.
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}/exe")]
    assert not [file.name for file in Path("/dev/shm").iterdir() if lab.name in file.name]


# ---- rootless Podman ----

IMAGE = "localhost/mpi"
# A range of user ids that no file has.
FIRST_ID, IDS = 1_000_000_000, 65536
# Runs a command as the user, who has subordinate ids in this mount namespace only. The control
# groups are out of sight on a virtual host, and Podman looks for them.
ROOTLESS = f"""#!/bin/sh
set -e
mount --bind "$(dirname "$0")/subordinate" /etc/subuid
mount --bind "$(dirname "$0")/subordinate" /etc/subgid
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
exec {" ".join(USER)} "$@"
"""
# Locks are files, because the lab's hosts share /dev/shm. Every user may have these limits.
CONF = """[engine]
lock_type = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
# The image has the links and settings of this machine; programs are in volumes.
OF_IMAGE = "bin sbin lib lib64 etc/alternatives etc/openmpi etc/ld.so.cache etc/passwd etc/group"


@pytest.fixture
def rootless(make_lab, place):
    """A lab, whose hosts have a user's own Podman with an image; and the user's command."""
    lab = make_lab(hosts=1 + NODES)
    command = place / "rootless"
    command.write_text(ROOTLESS, encoding="ascii")
    command.chmod(0o755)
    (place / "subordinate").write_text(f"{NOBODY}:{FIRST_ID}:{IDS}\n", encoding="ascii")
    (place / "containers.conf").write_text(CONF, encoding="ascii")
    image = place / "image.tar"
    members = [name for name in OF_IMAGE.split() if Path("/", name).exists()]
    subprocess.run(["tar", "-C", "/", "-cf", image, *members], check=True)
    image.chmod(0o644)
    for host in lab.hosts[1:]:
        home = place / "tmp" / host.name
        (home / "run").mkdir(parents=True, mode=0o700)
        for path in (home, home / "run"):
            os.chown(path, NOBODY, NOBODY)
        settings = {
            "HOME": home,
            "XDG_RUNTIME_DIR": home / "run",
            "CONTAINERS_CONF": place / "containers.conf",
            "STORAGE_DRIVER": "vfs",
        }
        lab.set_environment(host, **settings)
        words = [f"{name}={value}" for name, value in settings.items()]
        done = lab.run(host, [command, "env", *words, "podman", "import", image, IMAGE])
        assert done.returncode == 0, done.stderr
    return lab, command


@pytest.mark.parametrize("ranks", [NODES, NODES * RANKS_A_NODE])
def test_ranks_in_rootless_containers_are_exact(rootless, place, ranks):
    """Each rank has its own container; no raw frame leaves a host."""
    lab, command = rootless
    hosts = ["--hostfile", f"{lab.directory}/hostfile", "--nolocal", "-np", str(ranks)]
    volumes = ["--volume", "/usr:/usr:ro", "--volume", f"{place}:{place}:ro"]
    changes = {
        "--hostfile hosts": shlex.join([*hosts, *STATS]),
        "$DIR": place / "tmp",
        "IMAGE ./app": shlex.join([*volumes, IMAGE, f"{place}/rawe-verify", *EFFORT]),
        "\\\n": "",
    }
    words = shlex.split(adapted(recipe("containers.md", "Rootless Podman: UDP"), changes))
    assert words[0] == "mpirun"
    lab.count_frames(ETHERTYPE)
    settings = variables(place, **write_agent(place, command))
    result = lab.mpirun(words[1:], timeout=HANG_SECONDS, build=place, variables=settings)
    print(f"{shlex.join(words)}\n{show(result)}")
    assert_success(result)
    assert "checks, OK" in result.output, show(result)
    assert help_messages(result) == [], show(result)
    assert senders(result.errors) == {(rank, "eth0/udp") for rank in range(ranks)}
    assert all(lab.frames(host) == 0 for host in lab.hosts)
