# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of doc/cluster/containers.md, by Podman, with their commands as they stand there.

An image, and jobs over two containers, each in the network namespace of a virtual host.
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
SSH_PORT = 2222  # the hosts of the lab, and this machine, may have an sshd of their own
SECONDS = 600
# Processes that come later are a matter between mpirun and its daemons.
EFFORT = ("--quick", "--skip", "spawn,connect")
# crun refuses hosts with cgroups of both versions, and Podman asks for limits that not every root
# may raise.
CONF = """[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[network]
network_config_dir = "{networks}"
"""
# What runs in a container: a daemon by which mpirun reaches it, with the key of the test.
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
    """The lines of the indented block of the recipes that begins so, each without its indent."""
    lines = RECIPES.read_text(encoding="utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"    {start}"))
    end = next(i for i in range(at, len(lines)) if not lines[i].startswith("    "))
    return [line[4:] for line in lines[at:end]]


class Podman:
    """Podman with an image store of its own, which goes with its directory."""

    def __init__(self, directory):
        self.directory = directory
        self.store = ["--root", directory / "store", "--runroot", directory / "run"]

    def run(self, words, netns=None, conf="podman.conf", must=True):
        """Run a command of podman's, in a network namespace; the finished process."""
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
    """Build the image by the recipe, upon a Debian 12 of debootstrap's."""
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
    """The directory that the containers see as /given: a key, the program that checks."""
    with tempfile.TemporaryDirectory(prefix="rawe-given-") as name:
        directory = Path(name)
        shutil.copy(built.output / "rawe-verify", directory)
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / "key"]
        subprocess.run(key, check=True)
        yield directory


def start(podman, lab, given, network):
    """A container on each host, by the commands of the recipe `network`; their addresses."""
    for host in lab.hosts:
        conf = f"{host.name}.conf"
        for line in recipe(f"podman {network}"):
            words = line.split()[1:]
            if words[0] == "network":
                words = [word.replace("parent=eth1", "parent=eth0") for word in words]
            else:
                # To the image's name, as the recipe has it; then what is the test's own.
                words = words[1 : words.index("IMAGE")]
                words = [word.replace(".0.11", f".0.{11 + host.index}") for word in words]
                # A real host has a name of its own.
                own = ["--detach", "--name", host.name, "--hostname", host.name]
                own += ["--volume", f"{given}:/given:ro"]
                words = ["run", *own, *words, IMAGE, "sh", "-euc", DAEMON]
            podman.run(words, host.netns, conf)
        yield address(podman, host)


def address(podman, host):
    """The IPv4 address of the interface eth0 in the container of a host."""
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
        # With the host's network, too, what is executed is in the namespace that podman is in.
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
