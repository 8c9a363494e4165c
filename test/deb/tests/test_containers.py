# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of doc/cluster/containers.md, executed literally by Podman.

They make an image, and run jobs over two containers in the network namespaces of virtual hosts.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT

from rawelab import Lab
from rawepack import chroot

# The image of the recipe is a Debian 12.
pytestmark = [pytest.mark.containers, pytest.mark.parametrize("suite", ["bookworm"], indirect=True)]

RECIPES = ROOT / "doc/cluster/containers.md"
IMAGE = "localhost/mpi"
SSH_PORT = 2222  # not 22, because this machine may run an sshd
SECONDS = 600
# Processes that start later concern only mpirun and its daemons.
EFFORT = ("--quick", "--skip", "spawn,connect")
# crun refuses hosts with cgroups of both versions, and by default, Podman requests limits that some
# root users may not raise.
CONF = """[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[network]
network_config_dir = "{networks}"
"""
# The command of a container: a daemon through which mpirun reaches it, with the key of the test.
DAEMON = f"""
mkdir -p /run/sshd /root/.ssh
cp /given/key /root/.ssh/id_ed25519
cp /given/key.pub /root/.ssh/authorized_keys
chmod -R go= /root/.ssh
cat > /root/.ssh/config << END
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
Port {SSH_PORT}
END
exec /usr/sbin/sshd -D -p {SSH_PORT}
"""


def recipe(start):
    """Return the unindented lines of the indented block of the recipes with this beginning."""
    lines = RECIPES.read_text(encoding="utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"    {start}"))
    end = next(i for i in range(at, len(lines)) if not lines[i].startswith("    "))
    return [line[4:] for line in lines[at:end]]


class Podman:
    """Podman with its own image store, which is removed with its directory."""

    def __init__(self, directory):
        self.directory = directory
        self.store = ["--root", directory / "store", "--runroot", directory / "run"]

    def run(self, words, netns=None, conf="podman.conf", must=True):
        """Run a podman command in a network namespace; return the finished process."""
        argv = [*([] if netns is None else ["nsenter", f"--net=/run/netns/{netns}"]), "podman"]
        file = self.directory / conf
        file.write_text(CONF.format(networks=f"{file}.networks"), encoding="utf-8")
        done = subprocess.run(
            list(map(str, [*argv, *self.store, *words])),
            env={**os.environ, "CONTAINERS_CONF": str(file)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert not must or done.returncode == 0, (
            f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
        return done


@pytest.fixture(scope="module")
def podman(built):
    """Podman, and the image of the recipe."""
    directory = Path(tempfile.mkdtemp(prefix="podman-", dir=chroot.cache()))
    podman = Podman(directory)
    try:
        make_image(podman, built)
        yield podman
    finally:
        podman.run(["rm", "--force", "--all", "--time", 0], must=False)
        podman.run(["rmi", "--force", "--all"], must=False)
        shutil.rmtree(directory)


def make_image(podman, built):
    """Build the image by the recipe, based on a Debian 12 of debootstrap."""
    context = podman.directory / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("\n".join(recipe("FROM debian:12")) + "\n")
    for package in built.packages:
        shutil.copy(package, context)
    tree, tar = chroot.cache() / "bookworm", podman.directory / "base.tar"
    subprocess.run(["tar", "-C", tree, "-cf", tar, "."], check=True)
    podman.run(["import", tar, "docker.io/library/debian:12"])
    tar.unlink()
    archives = f"{chroot.cache() / 'archives-bookworm'}:/var/cache/apt/archives"
    options = ["--network", "host", "--pull=never", "--volume", archives, "--tag", IMAGE]
    podman.run(["build", *options, context])


@pytest.fixture
def given(built):
    """The directory that the containers see as /given: a key, and rawe-verify."""
    with tempfile.TemporaryDirectory(prefix="rawe-given-") as name:
        directory = Path(name)
        shutil.copy(built.output / "rawe-verify", directory)
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / "key"]
        subprocess.run(key, check=True)
        yield directory


def start(podman, lab, given, network):
    """Start a container on each host by the recipe `network`; yield their addresses."""
    for host in lab.hosts:
        conf = f"{host.name}.conf"
        for line in recipe(f"podman {network}"):
            words = line.split()[1:]
            if words[0] == "network":
                words = [word.replace("parent=eth1", "parent=eth0") for word in words]
            else:
                # The recipe up to the image's name, then words of the test.
                words = words[1 : words.index("IMAGE")]
                words = [word.replace(".0.11", f".0.{11 + host.index}") for word in words]
                # Like a real host, each container has its own name.
                own = ["--detach", "--name", host.name, "--hostname", host.name]
                own += ["--volume", f"{given}:/given:ro"]
                words = ["run", *own, *words, IMAGE, "sh", "-euc", DAEMON]
            podman.run(words, host.netns, conf)
        yield address(podman, host)


def address(podman, host):
    """Return the IPv4 address of eth0 in the container of a host."""
    pid = podman.run(["inspect", "--format", "{{.State.Pid}}", host.name]).stdout.strip()
    argv = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-json", "-4", "address", "show", "eth0"]
    listing = subprocess.run(argv, capture_output=True, check=True).stdout
    return json.loads(listing)[0]["addr_info"][0]["local"]


@pytest.fixture
def lab():
    with Lab(hosts=2) as lab:
        yield lab


@pytest.mark.parametrize("network", ["run --network host", "network create -d macvlan"])
def test_a_job_over_two_containers_is_exact(podman, lab, given, network):
    hosts = list(start(podman, lab, given, network))
    words = ["--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_rawe_stats", 1]
    words += ["--mca", "btl", "rawe,self", "--host", ",".join(hosts)]
    try:
        mpirun = ["mpirun", "--allow-run-as-root", *words, "/given/rawe-verify", *EFFORT]
        # Commands run in podman's network namespace if the container has the host's network.
        first = lab.hosts[0]
        done = podman.run(["exec", first.name, *mpirun], first.netns, must=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0 and "checks, OK" in said, said[-6000:]
        assert said.count("rawe: host") >= 2, said[-6000:]
        capabilities = ["grep", "CapEff", "/proc/self/status"]
        shown = podman.run(["exec", first.name, *capabilities], first.netns).stdout
        has = int(shown.split()[1], 16)
        assert has >> 13 & 1 == 1 and has >> 12 & 1 == 0  # NET_RAW, no NET_ADMIN
    finally:
        podman.run(["rm", "--force", "--all", "--time", 0], must=False)
