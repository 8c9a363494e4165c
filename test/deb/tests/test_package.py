# SPDX-License-Identifier: BSD-3-Clause
"""The packages of Debian 12 and 13: their contents, their effects, and their removal."""

import os
import subprocess

import pytest
from conftest import ROOT

from rawelab import Lab, launch

HELPER = "/usr/libexec/rawe/rawe-socket-helper"
HANG_SECONDS = 180


def field(built, package, name):
    """Return a field of a package's description."""
    (file,) = (path for path in built.packages if path.name.startswith(f"{package}_"))
    argv = ["dpkg-deb", "--field", file, name]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def contents(built, package):
    """Return the files of a package."""
    (file,) = (path for path in built.packages if path.name.startswith(f"{package}_"))
    argv = ["dpkg-deb", "--contents", file]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return {line.split()[5].lstrip(".") for line in listing.splitlines() if line[0] != "d"}


def show(done):
    """Return the output of a command for the message of an assertion."""
    return f"status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def mpirun(system, lab, arguments, variables=None, prefix=()):
    """Run the system's mpirun on the lab's first host."""
    words = [str(word) for word in arguments]
    environment = launch.environment(lab, words, release=system.suite.open_mpi)
    if system.suite.open_mpi >= 5:
        words = ["--leave-session-attached", *words]
    ours = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    return system.run(
        lab.host_command(0, [*prefix, "mpirun", *words]),
        binds=["/run/netns", lab.directory],
        variables={**ours, **(variables or {})},
        timeout=HANG_SECONDS,
    )


@pytest.fixture
def lab():
    with Lab(hosts=2) as lab:
        yield lab


def test_the_component_depends_on_this_open_mpi_only(suite, built):
    depends = [one.strip() for one in field(built, "openmpi-rawe", "Depends").split(",")]
    least, below = suite.library_versions
    assert {f"{suite.library} (>= {least})", f"{suite.library} (<< {below})"} <= set(depends)
    assert field(built, "openmpi-rawe", "Version").endswith(suite.version)


def test_no_program_looks_for_libraries_in_places_of_its_own(built, tmp_path):
    for package in built.packages:
        subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    programs = [*tmp_path.rglob("mca_*_rawe.so"), tmp_path / HELPER.lstrip("/")]
    programs += [tmp_path / "usr/bin" / name for name in ("rawe-info", "rawe-ping")]
    for program in programs:
        argv = ["readelf", "--dynamic", program]
        shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        assert "(NEEDED)" in shown and "PATH)" not in shown, shown


def test_the_tools_need_no_open_mpi(built):
    assert "openmpi" not in field(built, "rawe-tools", "Depends")


def test_every_file_has_its_package(suite, built):
    component = contents(built, "openmpi-rawe")
    folder = f"/usr/lib/x86_64-linux-gnu/openmpi/lib/{suite.library.removeprefix('lib')}"
    assert f"{folder}/mca_btl_rawe.so" in component
    assert f"{folder}/mca_coll_rawe.so" in component
    assert {f"/usr/share/doc/openmpi-rawe/{name}" for name in ("copyright", "README.Debian")} <= {
        path.removesuffix(".gz") for path in component
    }
    tools = contents(built, "rawe-tools")
    for name in ("rawe-advise", "rawe-info", "rawe-ping", "rawe-setup", "rawe-top"):
        assert {f"/usr/bin/{name}", f"/usr/share/man/man1/{name}.1.gz"} <= tools
    assert {f"/usr/share/rawe/rawetools/{name}.py" for name in ("hosts", "system")} <= tools
    assert "/usr/lib/x86_64-linux-gnu/wireshark/plugins/rawe.lua" in tools


def test_open_mpi_finds_the_component(system):
    done = system.run(["ompi_info", "--param", "btl", "rawe", "--level", "9"])
    assert "btl_rawe_if_include" in done.stdout, show(done)


def test_no_configuration_of_others_is_touched(system):
    done = system.run(["dpkg", "--verify", "openmpi-common", "openmpi-bin", system.suite.library])
    assert done.returncode == 0 and done.stdout == "", show(done)


def test_what_an_earlier_version_has_diverted_goes_back(system):
    must, file = system.chroot.must, "/usr/share/base-files/motd"
    before = must(["cat", file])
    divert = ["dpkg-divert", "--package", "openmpi-rawe", "--rename", "--divert", f"{file}.distrib"]
    must([*divert, "--add", file])
    must(["/var/lib/dpkg/info/openmpi-rawe.postinst", "configure"])
    assert must(["cat", file]) == before
    assert "motd" not in must(["dpkg-divert", "--list", "openmpi-rawe"])


@pytest.mark.parametrize(
    "tool", ["rawe-advise", "rawe-info", "rawe-ping", "rawe-setup", "rawe-top"]
)
def test_the_tools_run(system, tool):
    done = system.run([tool, "--help"])
    assert done.returncode == 0 and tool in done.stdout, show(done)


def test_the_licence_is_there(system):
    for package in ("openmpi-rawe", "rawe-tools"):
        done = system.run(["cat", f"/usr/share/doc/{package}/copyright"])
        assert done.stdout == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_a_job_over_two_hosts_is_exact(system, lab):
    arguments = ["-np", 2, "--mca", "btl", "rawe,self", "--mca", "btl_rawe_stats", 1]
    program = [system.verify, "--quick", "--only", "pt2pt,outstanding"]
    done = mpirun(system, lab, [*arguments, *program])
    assert done.returncode == 0 and "OK" in done.stdout, show(done)
    assert "rawe: host" in done.stdout + done.stderr, show(done)


def test_a_job_that_asks_for_nothing_uses_rawe(system, lab):
    program = [system.verify, "--quick", "--only", "pt2pt"]
    done = mpirun(system, lab, ["-np", 2, "--mca", "btl_rawe_stats", 1, *program])
    assert done.returncode == 0 and "OK" in done.stdout, show(done)
    assert "rawe: host" in done.stdout + done.stderr, show(done)


def test_the_line_of_readme_debian_leaves_rawe_to_jobs_that_ask(system, lab):
    config = "/etc/openmpi/openmpi-mca-params.conf"
    readme = system.run(["cat", "/usr/share/doc/openmpi-rawe/README.Debian"]).stdout
    (line,) = (line.strip() for line in readme.splitlines() if line.startswith("    btl = "))
    kept = system.chroot.must(["cat", config])
    assert line.removesuffix(",rawe") in kept.splitlines()
    system.chroot.must(["sed", "-i", f"s/^btl = .*/{line}/", config])
    try:
        program = [system.verify, "--quick", "--only", "pt2pt"]
        stats = ["-np", 2, "--mca", "btl_rawe_stats", 1]
        silent = mpirun(system, lab, [*stats, *program])
        assert silent.returncode == 0 and "rawe: host" not in silent.stdout + silent.stderr
        asked = mpirun(system, lab, [*stats, "--mca", "btl", "rawe,self", *program])
        assert asked.returncode == 0 and "rawe: host" in asked.stdout + asked.stderr, show(asked)
    finally:
        system.chroot.must(["sh", "-c", 'printf "%s" "$0" > "$1"', kept, config])


def test_the_helper_is_for_its_group_which_is_empty(system):
    assert system.chroot.must(["stat", "-c", "%U:%G %a", HELPER]).strip() == "root:rawe 750"
    assert system.chroot.must(["getcap", HELPER]).split()[1:] == ["cap_net_raw=ep"]
    assert system.chroot.must(["getent", "group", "rawe"]).strip().endswith(":")


def test_a_capability_that_was_removed_stays_removed(system):
    """Neither an upgrade, which unpacks a new file, nor another configuration restores it."""
    must, scripts = system.chroot.must, "/var/lib/dpkg/info/openmpi-rawe"

    def upgrade():
        must([f"{scripts}.preinst", "upgrade", "0"])
        must(["sh", "-c", f"cp {HELPER} {HELPER}.new && mv {HELPER}.new {HELPER}"])
        must([f"{scripts}.postinst", "configure", "0"])

    upgrade()
    assert must(["getcap", HELPER]).split()[1:] == ["cap_net_raw=ep"]
    must([f"{scripts}.postinst", "configure", "0"])
    assert must(["getcap", HELPER]).split()[1:] == ["cap_net_raw=ep"]
    must(["setcap", "-r", HELPER])
    must([f"{scripts}.postinst", "configure", "0"])
    assert must(["getcap", HELPER]) == ""
    upgrade()
    assert must(["getcap", HELPER]) == ""
    must([f"{scripts}.preinst", "install", "0"])
    must([f"{scripts}.postinst", "configure", "0"])
    assert must(["getcap", HELPER]).split()[1:] == ["cap_net_raw=ep"]


# ---- users without any privilege ----

CONF = "/etc/rawe/helper.conf"
REMEDIES = ("rawe-socket-helper(8)", "--cap-add NET_RAW", "job as root")
SMALL = ("--quick", "--scale", "0.1", "--only", "pt2pt")


@pytest.fixture
def users(system):
    """Users alice, whom the commands of README.Debian let use the helper, and bob."""
    must = system.chroot.must
    for name in ("alice", "bob"):
        must(["useradd", "--create-home", name])
    readme = must(["cat", "/usr/share/doc/openmpi-rawe/README.Debian"])
    helper = readme.partition("Or the helper")[2].partition("rawe-socket-helper(8)")[0]
    for line in helper.splitlines():
        if line.startswith("    "):
            must(["sh", "-c", line.replace("eth1", "eth*")])
    assert CONF in must(["sh", "-c", "ls /etc/rawe/*"])
    yield
    for name in ("alice", "bob"):
        must(["userdel", "--remove", name])


def as_user(name):
    """Return the command by which root becomes a user, as at a login."""
    return ("setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", "--inh-caps=-all")


def places(name, **others):
    """Return an environment with directories that a user may write to."""
    names = ("TMPDIR", "OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
    return {"HOME": f"/home/{name}", **{one: "/tmp" for one in names}, **others}


def test_a_member_of_the_group_runs_jobs_over_two_hosts(system, users):
    with Lab(hosts=3) as lab:
        # mpirun runs as root on the first host, daemons and ranks on the other two as alice.
        agent = lab.directory / "alices-agent"
        agent.write_text(
            f'#!/bin/sh\nhost=$1\nshift\nexec "$RAWE_LAB_DIR/enter-host" "rawe-$host" "$host" '
            f'"$RAWE_LAB_DIR/hosts" {" ".join(as_user("alice"))} '
            'sh -c "id -un >> /tmp/users; $*"\n',
            encoding="utf-8",
        )
        agent.chmod(0o755)
        lab.directory.chmod(0o755)
        agents = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
        variables = places("alice", **{name: str(agent) for name in agents})
        words = ["--nolocal", "-np", 2, "--mca", "btl", "rawe,self"]
        words += ["--mca", "btl_rawe_kind", "packet", system.verify, *SMALL]
        done = mpirun(system, lab, words, variables)
    assert done.returncode == 0 and "OK" in done.stdout, show(done)
    assert system.chroot.must(["cat", "/tmp/users"]).split() == ["alice", "alice"]


def refused(system, lab, name):
    """Return the output of a job over lo of a user who gets no sockets."""
    words = ["-np", 2, "--mca", "btl", "rawe,self", "--mca", "btl_rawe_kind", "packet"]
    words += ["--host", f"{lab.hosts[0].name}:2"]
    for _ in range(8):  # Open MPI 4.1.4 sometimes loses a message
        done = mpirun(
            system, lab, [*words, system.verify, *SMALL], places(name), prefix=as_user(name)
        )
        if "CAP_NET_RAW" in done.stdout + done.stderr:
            break
    assert done.returncode != 0, show(done)
    return done.stdout + done.stderr


def test_who_is_not_in_the_group_is_refused(system, lab, users):
    said = refused(system, lab, "bob")
    assert "only its group" in said, said


def test_without_the_helper_the_message_names_the_three_remedies(system, lab, users):
    system.chroot.must(["mv", HELPER, f"{HELPER}.away"])
    try:
        said = refused(system, lab, "alice")
    finally:
        system.chroot.must(["mv", f"{HELPER}.away", HELPER])
    assert "rawe-socket-helper is not installed" in said, said
    assert all(remedy in said for remedy in REMEDIES), said


def test_purge_leaves_nothing(system):
    assert system.state() != system.before
    system.chroot.must(["sh", "-c", f"mkdir -p {os.path.dirname(CONF)} && touch {CONF}.before"])
    system.chroot.must(["apt-get", "purge", "--yes", "openmpi-rawe", "rawe-tools"])
    after = system.state()
    left = {path: what for path, what in after.items() if system.before.get(path) != what}
    gone = {path: what for path, what in system.before.items() if path not in after}
    assert left == {} and gone == {}
