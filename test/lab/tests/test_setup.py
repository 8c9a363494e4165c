# SPDX-License-Identifier: BSD-3-Clause
"""rawe-setup checks a host, sets the helper up, and restores what was there before."""

import grp
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from conftest import (
    HANG_SECONDS,
    NOBODY,
    assert_success,
    build_helper,
    give_capability,
    help_messages,
    public_place,
    run_as_user,
    show,
)

from rawelab import launch

PROGRAM = Path(__file__).resolve().parents[3] / "tools/rawe-setup"
GROUP = grp.getgrgid(NOBODY).gr_name
HELPER = ("--rights", "helper", "--group", GROUP)
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


def run(lab, place, *options, status=0, prefix=(), **others):
    """Run it on host 0, without a terminal; return its output."""
    variables = {**settings(place, Path(lab.build).resolve()), **others}
    argv = [
        *prefix,
        "env",
        *(f"{name}={value}" for name, value in variables.items()),
        PROGRAM,
        *options,
    ]
    done = lab.run(0, argv, timeout=HANG_SECONDS, stdin=subprocess.DEVNULL)
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
    assert "it loads rawe for Open MPI" in text and "interface eth0: raw frames; up, MTU 4000" in text
    assert "has no CAP_NET_RAW: rawe-setup --rights helper" in text
    assert f"no access list ({place}/helper.conf): rawe-setup --rights helper" in text
    assert "interface lo" not in text

    assert "no component rawe" in run(lab, place, status=1, OMPI_MCA_mca_base_component_path="/")
    assert "no Open MPI" in run(lab, place, status=1, PATH="/nowhere")
    assert "btl_rawe_kind udp" in run(lab, place, "--rights", "none")
    lab.link_down(0)
    assert "no interface" in run(lab, place, *HELPER, "--yes", status=1)
    assert "btl_rawe_kind udp" in run(lab, place, "--rights", "none", status=1)
    run(lab, place, "--rights", "all", status=2)
    run(lab, place, "--rights", "none", "--undo", status=2)


def test_what_is_wrong_with_a_helper_or_its_list(make_lab, place):
    lab, helper, conf = make_lab(hosts=1), place / "rawe-socket-helper", place / "helper.conf"
    run(lab, place, *HELPER, "--yes")
    conf.write_text(f"group {GROUP}\ninterface lo # eth0\n", encoding="utf-8")
    assert "lacks interface eth0" in run(lab, place, status=1)
    conf.write_text(f"group {GROUP}\ninterface lo eth*\n", encoding="utf-8")
    assert "[fail]" not in run(lab, place)
    conf.chmod(0o666)
    assert "others than root may write" in run(lab, place, status=1)
    conf.unlink()
    conf.symlink_to("/dev/null")
    assert "is no regular file" in run(lab, place, status=1)
    conf.unlink()
    subprocess.run(["setcap", "cap_net_admin=ep", helper], check=True)
    assert "another capability" in run(lab, place, status=1)
    helper.chmod(0o755)
    subprocess.run(["setcap", "cap_net_raw=ep", helper], check=True)
    assert "its group alone should run it" in run(lab, place, status=1)
    helper.unlink()
    assert "install all of rawe" in run(lab, place, *HELPER, "--yes", status=1)


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--dry-run", "--yes"]], ids=str)
def test_a_dry_run_changes_nothing(make_lab, place, options):
    lab, before = make_lab(hosts=1), (state(place), times(place))
    text = run(lab, place, *HELPER, *options)
    assert "setcap cap_net_raw=ep" in text and "interface lo eth0" in text
    assert "Nothing has been changed" in text
    assert (state(place), times(place)) == before


def test_a_user_without_privilege_runs_a_job_after_it(make_lab, place):
    lab = make_lab(hosts=1)
    by_helper = {"OMPI_MCA_btl_rawe_helper": str(place / "rawe-socket-helper")}
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
    assert "interface lo eth0 eth1\n" in (place / "helper.conf").read_text()
    # A second set-up, for other interfaces, is undone with the first.
    run(lab, place, *HELPER, "--yes", OMPI_MCA_btl_rawe_if_exclude="ctl0,eth0")
    assert "interface lo eth1\n" in (place / "helper.conf").read_text()
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
    run(lab, place, *HELPER, "--yes")
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


@pytest.mark.parametrize("answer, done", [(b"y\n", True), (b"n\n", False)])
def test_on_a_terminal_it_asks(make_lab, place, answer, done):
    lab = make_lab(hosts=1)
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    variables = settings(place, Path(lab.build).resolve())
    argv = ["env", *(f"{name}={value}" for name, value in variables.items()), PROGRAM, *HELPER]
    result = lab.run(0, argv, timeout=HANG_SECONDS, stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert result.returncode == 0 and "Do this?" in result.stdout, result.stderr
    assert (place / "helper.conf").exists() == done
