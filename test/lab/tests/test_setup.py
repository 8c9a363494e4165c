# SPDX-License-Identifier: BSD-3-Clause
"""rawe-setup checks a host, sets the helper up, and restores what was there before."""

import argparse
import grp
import itertools
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    KIND,
    MASQUERADE,
    NOBODY,
    ROOT,
    STATS,
    USER,
    assert_success,
    build_helper,
    counted,
    give_capability,
    help_messages,
    load_program,
    public_place,
    run_as_user,
    run_verify,
    show,
    variables,
)

from rawelab import launch

PROGRAM = ROOT / "tools/rawe-setup"
GROUP = grp.getgrgid(NOBODY).gr_name
HELPER = ("--rights", "helper", "--group", GROUP)
LOOPBACK = "OMPI_MCA_btl_rawe_loopback"
OLD_LIST = b"# caf\xe9\nuser 4711\ninterface wlan0\n"


@pytest.fixture
def place(build, verify):
    """A directory that every user can read, with a helper as `make install` leaves it."""
    with public_place(build, verify) as directory:
        helper = build_helper(directory)
        give_capability(helper)  # skips where files have no capabilities
        subprocess.run(["setcap", "-r", helper], check=True)
        os.chown(helper, 0, 0)
        helper.chmod(0o755)
        yield directory


def settings(place, build):
    """Return the variables with which Open MPI and the program find the parts of rawe."""
    return {
        "PATH": f"{build / 'tools'}:{os.environ['PATH']}",
        "OMPI_MCA_mca_base_component_path": launch.component_path(place),
        "OMPI_MCA_btl_rawe_helper": place / "rawe-socket-helper",
        "OMPI_MCA_btl_rawe_if_exclude": "ctl0",  # the lab's own
    }


def run(
    lab, place, *options, status=0, program=PROGRAM, prefix=(), stdin=subprocess.DEVNULL, **others
):
    """Run it on host 0, by default without a terminal; return its output."""
    variables = {**settings(place, Path(lab.build).resolve()), **others}
    argv = [
        *prefix,
        "env",
        *(f"{name}={value}" for name, value in variables.items()),
        program,
        *options,
    ]
    done = lab.run(0, argv, timeout=HANG_SECONDS, stdin=stdin)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def state(place):
    """Return owner, mode, change time, capability and content of all that it might change."""
    found = {}
    for path in place.rglob("*"):
        status = path.lstat()
        capable = subprocess.run(["getcap", path], capture_output=True, check=True).stdout
        content = path.read_bytes() if path.is_file() else None
        found[path] = (status.st_uid, status.st_gid, status.st_mode, capable, content)
    return found


def times(place):
    """Return when each file was changed last."""
    return {path: path.lstat().st_ctime_ns for path in place.rglob("*")}


def test_what_it_checks(make_lab, place):
    lab = make_lab(hosts=1, mtu=4000)
    text = run(lab, place, status=1)
    assert "it loads rawe for Open MPI" in text
    assert (
        "interface eth0: raw frames, and UDP to peers that these do not reach; up, MTU 4000" in text
        and "interface lo" not in text
    )
    assert "UDP needs no rights" in run(lab, place, "--rights", "none")
    lab.link_down(0)
    assert "UDP needs no rights" in run(lab, place, "--rights", "none", status=1)
    run(lab, place, "--rights", "all", status=2)
    run(lab, place, "--rights", "none", "--undo", status=2)


def test_it_ends_with_a_ping_pong_within_the_host(make_lab, place, build, tmp_path):
    lab = make_lab(hosts=1)
    path = f"{build / 'bench/imb-runs'}:{settings(place, build)['PATH']}"
    shown = "^Half a round trip of 8 bytes between two ranks of this host, by rawe-imb: "
    times = rf"{shown}tcp [\d.]+ us, rawe [\d.]+ us$"
    for options, status in (((), 1), (("--rights", "none"), 0), ((*HELPER, "--yes"), 0)):
        text = run(lab, place, *options, status=status, PATH=path)
        assert re.search(times, text, re.MULTILINE), text
        for words, others in ((("--no-ping-pong",), {}), ((), {LOOPBACK: 0})):
            text = run(lab, place, *options, *words, status=status, PATH=path, **others)
            assert "Half a round trip" not in text
    (tmp_path / "rawe-imb").write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    (tmp_path / "rawe-imb").chmod(0o755)
    text = run(lab, place, status=1, PATH=f"{tmp_path}:{path}")
    assert re.search(f"{shown}.*, rawe failed, see above$", text, re.MULTILINE), text


def failures(text):
    """Return [(what, remedy)] of the checks that failed."""
    lines = re.findall(r"^\[fail\] (.*)$", text, re.MULTILINE)
    return [line.rpartition(": ")[::2] for line in lines]


# Variables etc., the check that fails because of them, and what to do.
HOST_FAILURES = [
    (
        {"prefix": ("setarch", os.uname().machine, "--uname-2.6")},
        "Linux 2.6 is too old",
        "install a newer kernel",
    ),
    ({"PATH": "/nowhere"}, "no Open MPI", "put its ompi_info on PATH"),
    (
        {"OMPI_MCA_mca_base_component_path": "/"},
        "no component rawe",
        "install rawe for this Open MPI",
    ),
    ({"PATH": os.environ["PATH"]}, "no rawe-info", "install all of rawe"),
    ({"OMPI_MCA_btl_rawe_if_exclude": "ctl0,eth0"}, "no interface that rawe", "bring one up"),
]


def test_a_failed_check_says_what_to_do_and_nothing_is_set_up(make_lab, place):
    lab, before = make_lab(hosts=1), state(place)
    for others, what, remedy in HOST_FAILURES:
        text = run(lab, place, *HELPER, "--yes", status=1, **others)
        assert any(what in said and remedy in to_do for said, to_do in failures(text)), text
        assert "not set up" in text and state(place) == before


def write_list(text):
    """Return a function that writes an access list."""
    return lambda place: (place / "helper.conf").write_text(text, encoding="utf-8")


def set_capability(words):
    """Return a function that gives the helper a capability, or takes it."""
    return lambda place: subprocess.run(["setcap", words, place / "rawe-socket-helper"], check=True)


def open_helper(place):
    """Let every user run the helper, with its capability."""
    (place / "rawe-socket-helper").chmod(0o755)
    set_capability("cap_net_raw=ep")(place)


def old_helper(place):
    """Put a helper that does not know --access-list."""
    (place / "rawe-socket-helper").write_text("#!/bin/sh\nexit 2\n", encoding="ascii")


SET_UP = "rawe-setup --rights helper"
# How to spoil what was set up, the check that fails then, and what to do.
HELPER_FAILURES = [
    (set_capability("-r"), "has no CAP_NET_RAW", SET_UP),
    (set_capability("cap_net_admin=ep"), "has another capability", SET_UP),
    (open_helper, "its group alone should run it", SET_UP),
    (lambda place: (place / "helper.conf").unlink(), "no access list", SET_UP),
    (write_list(f"group {GROUP}\ninterface lo # eth0\n"), "lacks interface eth0", SET_UP),
    (lambda place: (place / "helper.conf").chmod(0o666), "others than root may write", SET_UP),
    (
        write_list(f"group {GROUP}\ninterface lo eth0\nusers 4711\n"),
        "line 3 is wrong",
        "correct it",
    ),
    (write_list(f"group {GROUP}\ninterface lo eth0\nuser\n"), "line 3 is wrong", "correct it"),
    (write_list(f"interface lo eth0\n#{510 * '-'}\n"), "line 2 is wrong", "correct it"),
    (write_list("interface lo eth0\n"), "admits no user", SET_UP),
    (write_list(f"group {GROUP}\ninterface lo e*0\n"), "lacks interface eth0", SET_UP),
    (
        write_list(f"group {GROUP} nosuchgroup 4711\ninterface lo eth0\n"),
        "admits group nosuchgroup, which does not exist",
        "correct it",
    ),
    (lambda place: (place / "helper.conf").chmod(0o600), "users may not read", "chmod a+r"),
    (lambda place: place.chmod(0o700), "users may not read", "chmod a+x"),
    (old_helper, "no helper says where its access list is", "install all of this release"),
    (
        lambda place: (place / "rawe-socket-helper").unlink(),
        "no rawe-socket-helper",
        "install all of rawe",
    ),
]


def test_what_is_wrong_with_a_helper_or_its_list(make_lab, place):
    lab = make_lab(hosts=1)
    for spoil, what, remedy in HELPER_FAILURES:
        repaired = "install" not in remedy
        if repaired:
            place.chmod(0o755)
            (place / "helper.conf").unlink(missing_ok=True)
            assert failures(run(lab, place, *HELPER, "--yes")) == []
        spoil(place)
        text = run(lab, place, *([] if repaired else [*HELPER, "--yes"]), status=1)
        assert any(what in said and remedy in to_do for said, to_do in failures(text)), text


def test_a_list_that_is_accepted_and_one_that_is_no_file(make_lab, place):
    lab = make_lab(hosts=1)
    run(lab, place, *HELPER, "--yes")
    # The last byte of the comment's letter is a line end to Python.
    write_list(f"group {GROUP} # \u00c5land\ninterface lo eth*\n")(place)
    assert failures(run(lab, place)) == []
    (place / "helper.conf").chmod(0o640)
    os.chown(place / "helper.conf", 0, NOBODY)
    assert failures(run(lab, place)) == []
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,nosuid "$0" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, place)
    assert "mounted nosuid: remount it" in run(lab, place, status=1, prefix=prefix)
    (place / "helper.conf").unlink()
    (place / "helper.conf").symlink_to("/dev/null")
    assert "is no regular file; move it away" in run(lab, place, status=1)


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--dry-run", "--yes"]], ids=str)
def test_a_dry_run_changes_nothing(make_lab, place, options):
    lab, before = make_lab(hosts=1), (state(place), times(place))
    text = run(lab, place, *HELPER, *options)
    assert "setcap cap_net_raw=ep" in text and "interface lo eth0" in text
    assert "Nothing has been changed" in text
    assert (state(place), times(place)) == before


def test_a_user_without_privilege_runs_a_job_after_it(make_lab, place):
    lab = make_lab(hosts=1)
    by_helper = {"OMPI_MCA_btl_rawe_helper": str(place / "rawe-socket-helper"), KIND: "packet"}
    assert run_as_user(lab, place, **by_helper).returncode != 0
    run(lab, place, *HELPER, "--yes")
    assert (place / "helper.conf").read_text() == f"group {GROUP}\ninterface lo eth0\n"
    result = run_as_user(lab, place, **by_helper)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_a_group_that_does_not_exist_is_created(make_lab, place, tmp_path):
    etc = tmp_path / "etc"
    subprocess.run(["cp", "--archive", "/etc", etc], check=True)
    prefix = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', etc)
    options = ("--rights", "helper", "--group", "rawe-test", "--yes")
    text = run(make_lab(hosts=1), place, *options, prefix=prefix)
    assert "groupadd --system rawe-test" in text and "[fail]" not in text
    (number,) = re.findall(r"^rawe-test:x:(\d+):$", (etc / "group").read_text(), re.MULTILINE)
    assert (place / "rawe-socket-helper").stat().st_gid == int(number)
    assert (place / "helper.conf").read_text().startswith("group rawe-test\n")


def test_a_second_run_changes_nothing(make_lab, place):
    lab = make_lab(hosts=1)
    run(lab, place, *HELPER, "--yes")
    before = (state(place), times(place))
    assert "To do" not in run(lab, place, *HELPER, "--yes")
    assert (state(place), times(place)) == before
    assert "[fail]" not in run(lab, place)


def old_list(place):
    """Let there be an access list."""
    (place / "helper.conf").write_bytes(OLD_LIST)
    (place / "helper.conf").chmod(0o640)
    os.chown(place / "helper.conf", 0, 4711)


def test_a_list_keeps_the_lines_of_the_administrator(make_lab, place):
    lab, file = make_lab(hosts=1, nics=2), place / "helper.conf"
    mine = f"group {GROUP} # us\nuser 4711\nethertype 0x88B5\ninterface lo eth0"
    write_list(mine)(place)
    run(lab, place, *HELPER, "--yes")
    assert file.read_text() == f"{mine}\ninterface eth1\n"
    file.write_text("user 4712\n" + file.read_text())
    os.chown(file, 0, NOBODY)
    file.chmod(0o640)
    before = state(place)
    assert "To do" not in run(lab, place, *HELPER, "--yes")
    assert state(place) == before
    # A list that others wrote is not taken over.
    os.chown(file, 4711, 4711)
    run(lab, place, *HELPER, "--yes")
    assert file.read_text() == f"group {GROUP}\ninterface lo eth0 eth1\n"


def old_capability(place):
    """Let the helper have another capability, owner and mode."""
    os.chown(place / "rawe-socket-helper", 4711, 4712)
    (place / "rawe-socket-helper").chmod(0o700)
    command = ["setcap", "cap_net_raw,cap_net_admin=eip", place / "rawe-socket-helper"]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("prepare", [lambda place: None, old_list, old_capability])
def test_undo_restores_what_was_there(make_lab, place, prepare):
    lab = make_lab(hosts=1, nics=2)
    prepare(place)
    before = state(place)
    run(lab, place, *HELPER, "--yes")
    assert "interface lo eth0 eth1\n" in (place / "helper.conf").read_bytes().decode("latin-1")
    # A second set-up, for another group, is undone with the first.
    run(lab, place, "--rights", "helper", "--group", "daemon", "--yes")
    assert "group daemon\n" in (place / "helper.conf").read_bytes().decode("latin-1")
    middle = state(place)
    assert middle != before
    assert "Nothing has been changed" in run(lab, place, "--undo")
    assert state(place) == middle
    run(lab, place, "--undo", "--yes")
    assert state(place) == before
    assert "Nothing to undo" in run(lab, place, "--undo", "--yes")


def test_a_directory_that_it_has_made_is_removed(make_lab, place):
    lab, folder = make_lab(hosts=1), place / "etc"
    helper = place / "rawe-socket-helper"
    data = helper.read_bytes()  # the list is at another path of the same length
    helper.write_bytes(data.replace(b"/helper.conf", b"/etc/rawe.co"))
    umask = ("sh", "-c", 'umask 077 && exec "$@"', "sh")
    assert failures(run(lab, place, *HELPER, "--yes", prefix=umask)) == []
    assert list(folder.iterdir()) and folder.stat().st_mode & 0o777 == 0o755
    run(lab, place, "--undo", "--yes")
    assert not folder.exists()


def test_a_record_that_others_can_write_is_not_used(make_lab, place):
    lab = make_lab(hosts=1)
    run(lab, place, *HELPER, "--yes")
    (place / "helper.conf.before").chmod(0o666)
    before = state(place)
    assert "others than root may write" in run(lab, place, "--undo", "--yes", status=1)
    assert state(place) == before


def test_a_file_system_without_capabilities(make_lab, place):
    lab = make_lab(hosts=1)
    script = 'mount -t ramfs none "$0/fs" && cp -p "$0/rawe-socket-helper" "$0/fs" && exec "$@"'
    (place / "fs").mkdir()
    prefix = ("unshare", "--mount", "sh", "-c", script, place)
    helper = {"OMPI_MCA_btl_rawe_helper": place / "fs/rawe-socket-helper"}
    text = run(lab, place, *HELPER, "--yes", status=1, prefix=prefix, **helper)
    assert "install rawe on a local one" in text and "--undo restores" in text


def test_open_mpi_is_found_beside_it_without_path(make_lab, place):
    lab, here = make_lab(hosts=1), place / "bin"
    here.mkdir()
    shutil.copy(PROGRAM, here)
    shutil.copytree(PROGRAM.with_name("rawetools"), here / "rawetools")
    for name in ("ompi_info", "rawe-info"):
        found = shutil.which(name, path=settings(place, Path(lab.build).resolve())["PATH"])
        (here / name).write_text(f'#!/bin/sh\nexec {found} "$@"\n', encoding="ascii")
        (here / name).chmod(0o755)
    text = run(lab, place, status=1, program=here / "rawe-setup", PATH="/usr/sbin:/sbin:/nowhere")
    assert "it loads rawe for Open MPI" in text


def run_on_a_terminal(function, answer):
    """Run it on a terminal where this answer is typed; return its output."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    try:
        return function(*HELPER, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


ANSWERS = [(b"y\n", True), (b"n\n", False)]


@pytest.mark.parametrize("answer, done", ANSWERS)
def test_on_a_terminal_it_asks(make_lab, place, answer, done):
    lab = make_lab(hosts=1)
    text = run_on_a_terminal(lambda *words, **others: run(lab, place, *words, **others), answer)
    assert "Do this?" in text and (place / "helper.conf").exists() == done


# ---- several hosts ----

FRONT = 0  # runs rawe-setup and mpirun; the others are set up


class Cluster:
    """Virtual hosts that each have their own copy of a place, and remote shells that enter them."""

    def __init__(self, lab, place, roots):
        self.lab, self.place, self.roots = lab, place, roots
        self.names = [host.name for host in lab.hosts if host.index != FRONT]
        self.shell = self._write_shell("shell")
        self.user_shell = self._write_shell("user-shell", *USER)
        for name in self.names:
            subprocess.run(["cp", "--archive", place, roots / name], check=True)
        self.file = roots.parent / "hostfile"
        lines = [f"{name} slots=1 # comment" for name in [*self.names, self.names[0]]]
        self.file.write_text("\n".join(["# hosts", "", *lines, ""]), encoding="ascii")

    def _write_shell(self, name, *user):
        """Write a program that is called like ssh, fails like it, and passes on no parameters."""
        file = self.place / name
        hook = 'if [ -e "$0.sh" ]; then . "$0.sh"; fi'
        enter = f'mount --bind "$0" {self.place} && {hook} && exec "$@"'
        file.write_text(
            f"""#!/bin/sh
host=${{1##*@}}
shift
[ -e "/run/netns/rawe-$host" ] || exit 255
unset $(env | sed -n 's/^\\(OMPI_MCA_[a-z_]*\\)=.*/\\1/p')
exec "$RAWE_LAB_DIR/enter-host" "rawe-$host" "$host" "$RAWE_LAB_DIR/hosts" \\
    sh -c '{enter}' "{self.roots}/$host" {" ".join(user)} sh -c "$*"
""",
            encoding="ascii",
        )
        file.chmod(0o755)
        return file

    def at_entry(self, host, script):
        """Let the shells run a script on a host, in its own mount namespace, at first."""
        (self.roots / f"{self.lab.host(host).name}.sh").write_text(script, encoding="ascii")

    def run(self, *options, status=0, **others):
        """Run rawe-setup for all hosts, on the front; return its output."""
        # The settings have if_exclude.
        setting = launch.environment(self.lab, ["btl_rawe_if_exclude"], build=self.place)
        changed = {name: value for name, value in setting.items() if os.environ.get(name) != value}
        changed |= {"RAWE_RSH": self.shell, **others}
        words = ("--hosts", self.file, *options)
        return run(self.lab, self.place, *words, status=status, **changed)

    def run_job(self, *words):
        """Run the verification program on all hosts as a user without privilege."""
        agents = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
        settings = {name: str(self.user_shell) for name in agents}
        settings["OMPI_MCA_btl_rawe_helper"] = str(self.place / "rawe-socket-helper")
        settings[KIND] = "packet"
        return run_verify(
            self.lab,
            len(self.names),
            "--nolocal",
            *STATS,
            self.place / "rawe-verify",
            *words,
            build=self.place,
            variables=variables(self.place, **settings),
        )

    def table(self, text):
        """Return {host: result and what to do} of the table at the end of the output."""
        return dict(re.findall(rf"^({'|'.join(self.names)})  +(.*)$", text, re.MULTILINE))


@pytest.fixture
def make_cluster(make_lab, place, tmp_path):
    """A function that returns the front and a number of bare hosts."""
    (tmp_path / "roots").mkdir()

    def make(hosts, **options):
        return Cluster(make_lab(hosts=hosts + 1, **options), place, tmp_path / "roots")

    return make


@pytest.fixture
def cluster(make_cluster):
    """Three bare hosts, and the front."""
    return make_cluster(3)


def test_three_bare_hosts_run_a_job_and_no_trace_is_left(cluster, build):
    first, *others = cluster.names
    before = (state(cluster.roots), times(cluster.roots))
    path = f"{build / 'bench/imb-runs'}:{settings(cluster.place, build)['PATH']}"

    text = cluster.run(*HELPER)
    assert all(f"{name}:     setcap cap_net_raw=ep" in text for name in cluster.names), text
    assert all(said.startswith("not changed") for said in cluster.table(text).values())
    assert (state(cluster.roots), times(cluster.roots)) == before

    text = cluster.run(*HELPER, "--yes", PATH=path)
    assert cluster.table(text) == dict.fromkeys(cluster.names, "ok"), text
    for name in others:
        for one, other in ((first, name), (name, first)):
            assert f"{one} eth0 to {other} eth0: raw frames pass, MTU 1500, round trip" in text
    times_shown = rf"between {first} and {others[0]}, .*: tcp [\d.]+ us, rawe [\d.]+ us$"
    assert re.search(times_shown, text, re.MULTILINE), text

    result = cluster.run_job("--quick", "--scale", "0.1", "--only", "pt2pt")
    assert counted(result, "link_frames_received") > 0 and help_messages(result) == []

    done = (state(cluster.roots), times(cluster.roots))
    assert "To do" not in cluster.run(*HELPER, "--yes")
    assert (state(cluster.roots), times(cluster.roots)) == done

    assert cluster.table(cluster.run("--undo", "--yes")) == dict.fromkeys(cluster.names, "ok")
    assert state(cluster.roots) == before[0]


HIDE = f"mount -t tmpfs none '{PROGRAM.parent}'"
OLD = f"{HIDE} && printf '#!/bin/sh\nexit 2\n' > '{PROGRAM}' && chmod 755 '{PROGRAM}'"
# How to hurt a host, the result, and what to do.
HURT = [
    (lambda lab, host: None, "ok", ""),
    (lambda lab, host: lab.link_down(host), "failed", "bring one up"),
    (lambda lab, host: lab.blackhole(host, 1, ETHERTYPE), "ok", "raw frames do not cross"),
    (lambda lab, host: lab.set_mtu(host, 1400), "failed", "see above what to check"),
]


def test_what_to_do_about_each_host_is_in_the_table(make_cluster):
    cluster = make_cluster(len(HURT) + 2)
    expected = [(result, remedy) for _, result, remedy in HURT]
    for host, (hurt, _, _) in enumerate(HURT, FRONT + 1):
        hurt(cluster.lab, host)
    for script, *row in ((HIDE, "no rawe-setup", "make install"), (OLD, "another release", "this")):
        cluster.at_entry(len(expected) + FRONT + 1, script)
        expected.append(row)
    cluster.names.append("nowhere")
    expected.append(("not reached", "nowhere true"))
    cluster.file.write_text("\n".join(cluster.names), encoding="ascii")
    text = cluster.run(*HELPER, "--yes", status=1)
    found = cluster.table(text)
    assert list(found) == cluster.names, text
    for (result, remedy), row in zip(expected, found.values(), strict=True):
        assert row.startswith(result) and remedy in row, text
    assert "NO ANSWER" in text and "LARGE FRAMES DO NOT PASS" in text


def test_hosts_in_two_subnets_use_udp(make_cluster, build):
    cluster = make_cluster(2, topology="routed")
    first, second = cluster.names
    path = f"{build / 'bench/imb-runs'}:{settings(cluster.place, build)['PATH']}"
    text = cluster.run(*HELPER, "--yes", PATH=path)
    ends = f"{first} eth0 and {second} eth0"
    assert cluster.table(text) == {
        first: "ok",
        second: f"ok      raw frames do not cross between {ends}: jobs use UDP there",
    }
    assert udp_pairs(text) == {(first, second), (second, first)}
    assert re.search(rf"between {first} and {second}, .* rawe [\d.]+ us$", text, re.MULTILINE)


@pytest.mark.parametrize("answer, done", ANSWERS)
def test_on_a_terminal_it_asks_once_for_all_hosts(cluster, answer, done):
    text = run_on_a_terminal(cluster.run, answer)
    assert text.count("Do this on 3 hosts?") == text.count("Do this") == 1
    result = "ok" if done else "not changed  --yes does it"
    assert cluster.table(text) == dict.fromkeys(cluster.names, result)


def test_interfaces_that_ping_each_other():
    module = load_program("rawe-setup").hosts
    for ours, others, pairs in (
        ("a b", "a b", "aa bb"),
        ("a b", "b c", "bb ac"),
        ("a b", "c d e", "ac bd"),
        ("a b c", "b", "bb"),
        ("", "a", ""),
    ):
        found = module.partners(ours.split(), others.split())
        assert found == [tuple(pair) for pair in pairs.split()]


def test_the_table_has_the_error_and_not_what_was_printed_last():
    remote = load_program("rawe-setup").hosts.Remote("node1", 1)
    remote.lines = ["rawe-setup: only root can do this", "To do:", "    rm /etc/rawe/helper.conf"]
    assert remote.judge(None) == ("failed", "rawe-setup: only root can do this")


def test_a_host_that_goes_away_holds_nothing_up(tmp_path, monkeypatch):
    module = load_program("rawe-setup").hosts
    monkeypatch.setattr(module, "HOST_SECONDS", 1)
    shell = tmp_path / "shell"
    shell.write_text(
        "#!/bin/sh\necho listening on this host is logged\nexec sleep 1000\n", encoding="ascii"
    )
    shell.chmod(0o755)
    options = argparse.Namespace(rsh=str(shell), rights=None)
    hosts = (module.Remote("one"), module.Remote("two"))
    said = module.ping(options, 1, False, hosts[0], "eth0", hosts[1], "eth0")
    assert "no end within 1 s" in said


def test_a_host_file_names_users(cluster, build):
    lines = [f"root@{name} slots=1\n" for name in cluster.names[:2]]
    cluster.file.write_text("".join(lines), encoding="ascii")
    path = f"{build / 'bench/imb-runs'}:{settings(cluster.place, build)['PATH']}"
    text = cluster.run("--rights", "none", PATH=path)
    times_shown = r"^Half a round trip .*: tcp [\d.]+ us, rawe [\d.]+ us$"
    assert re.search(times_shown, text, re.MULTILINE), text


@pytest.mark.parametrize(
    "text, said", [("# none\n\n", "names no host"), ("-oProxyCommand=x slots=2\n", "is no host")]
)
def test_a_host_file_that_is_wrong(cluster, text, said):
    cluster.file.write_text(text, encoding="ascii")
    assert said in cluster.run(status=1)


def udp_pairs(text):
    """Return the ordered pairs of hosts between which UDP passes, as the output says."""
    return set(re.findall(r"^(\S+) eth0 to (\S+) eth0: UDP passes, MTU 1500, ", text, re.MULTILINE))


def test_hosts_need_no_right_for_udp(cluster):
    text = cluster.run("--rights", "none")
    assert text.count("UDP needs no rights") == len(cluster.names)
    assert cluster.table(text) == dict.fromkeys(cluster.names, "ok")
    assert "raw frames pass" not in text
    assert udp_pairs(text) == set(itertools.permutations(cluster.names, 2))


def test_a_firewall_between_two_hosts_is_in_the_table(cluster):
    first, second, third = cluster.names
    rule = f"ip saddr {cluster.lab.nic(third).address} udp dport 32768-60767 drop"
    chain = f"type filter hook input priority 0\n{rule}\n"
    rules = f"table ip firewall {{\nchain incoming {{\n{chain}}}\n}}\n"
    cluster.lab.run(second, ["nft", rules], check=True)
    text = cluster.run("--rights", "none", status=1)
    assert cluster.table(text) == {
        first: "ok",
        second: "ok",
        third: f"failed  UDP does not cross between {second} eth0 and {third} eth0; let UDP ports "
        "32768 to 60767 pass in the firewalls of both hosts and between them, and have no "
        "addresses translated (NAT)",
    }
    assert {(first, second), (first, third)} <= udp_pairs(text)


def test_translated_addresses_are_in_the_table(make_cluster):
    cluster = make_cluster(3, topology="routed")
    first, second, third = cluster.names
    cluster.lab.at_switch("nft", MASQUERADE)
    text = cluster.run("--rights", "none", status=1)
    table = cluster.table(text)
    # A bridge may also pass datagrams between the first and the third through the rules.
    for one, other in ((first, second), (second, third)):
        assert f"UDP does not cross between {one} eth0 and {other} eth0" in table[other], text
    assert table[first] == "ok" and "it was translated (NAT)" in text
