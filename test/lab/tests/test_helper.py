# SPDX-License-Identifier: BSD-3-Clause
"""rawe-socket-helper: jobs without CAP_NET_RAW get their sockets, and no other process gets any."""

import array
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    KIND,
    NOBODY,
    USER,
    as_user,
    assert_one_message,
    build_helper,
    give_capability,
    help_messages,
    public_place,
    put_program,
    run_as_user,
    run_job,
    run_verify,
    show,
    thorough,
    until_told,
    variables,
    wait_until,
    write_agent,
)
from test_many_ranks import SOCKETS_A_RANK, SurvivingJob

# Request and answer: linux/packet/rawe_helper.h.
PLACES = 510
LINK, RESPONDER, BULK, MIDDLE = range(4)
GRANTED = 0
BAD_REQUEST = 2
NO_LIST = 3
UNSAFE_LIST = 4
USER_REFUSED = 6
INTERFACE_REFUSED = 7
ETHERTYPE_REFUSED = 8
INTERFACE_UNKNOWN = 9
NO_CAPABILITY = 10
NO_LOG = 12
LIST = f"# who may use rawe\ngroup {NOBODY}\ninterface lo eth*\n"
SO_LOCK_FILTER = 44


@pytest.fixture
def place(build, verify):
    """A directory that every user can read, with the helper and its list."""
    with public_place(build, verify) as directory:
        give_capability(build_helper(directory))
        (directory / "helper.conf").write_text(LIST, encoding="utf-8")
        yield directory


def by_helper(place):
    """Return the environment variables for jobs that depend on the helper: without UDP."""
    helper = str(place / "rawe-socket-helper")
    return {"OMPI_MCA_btl_rawe_helper": helper, KIND: "packet"}


# ---- jobs ----


def run_between_hosts(lab, place, *words):
    """Run a program as the user on all hosts but the first; it succeeds without a help message."""
    # mpirun runs as root on the first host, daemons and ranks on the others as the user.
    settings = variables(place, **write_agent(place, *USER), **by_helper(place))
    options = {"build": place, "variables": settings, "timeout": 2 * HANG_SECONDS}
    result = run_job(lab, len(lab.hosts) - 1, "--nolocal", *words, **options)
    assert help_messages(result) == [], show(result)
    return result


def test_every_byte_arrives_between_hosts_of_a_user_without_privilege(make_lab, place):
    words = [place / "rawe-verify", "--quick", "--only", "pt2pt,onesided"]
    result = run_between_hosts(make_lab(hosts=3), place, *words)
    assert "checks, OK" in result.output, show(result)


def test_collectives_of_such_a_user_are_not_multicast(make_lab, place, bcasts):
    """The helper opens no socket for groups."""
    program = put_program(place, bcasts)
    say = ("--mca", "coll_base_verbose", "10")
    result = run_between_hosts(make_lab(hosts=5), place, *say, program, "sizes")
    assert "multicasts what fits a frame" not in result.errors
    assert result.errors.count("a member cannot receive what is sent to groups") == 4


def as_nobody(place):
    """Return options for a job of the user, whose ranks get their sockets from the helper."""
    settings = variables(place, **by_helper(place))
    return {"build": place, "prefix": USER, "variables": settings}


def start_survivors(make_lab, place, exchange, dying):
    """Start a job of the user on one host, in which a rank dies once `go_file` exists."""
    program, options = put_program(place, exchange), as_nobody(place)
    return SurvivingJob(make_lab(hosts=1), (), program, (dying,), 4, place / "tmp", **options)


@pytest.mark.parametrize("dying", [1, 0])
def test_ranks_form_groups_and_reopen_their_sockets(make_lab, place, exchange, dying):
    job = start_survivors(make_lab, place, exchange, dying)
    job.go_file.touch()
    job.end()


# A name service that answers one query at a time and takes 0.3 s for each.
SLOW_NAMES = r"""
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <unistd.h>
struct group *__real_getgrnam(const char *name);
struct group *__wrap_getgrnam(const char *name)
{
    const int turn = open("@TURN@", O_RDONLY | O_CLOEXEC);
    (void)flock(turn, LOCK_EX);
    usleep(300000);
    close(turn);
    return __real_getgrnam(name);
}
"""


@pytest.mark.thorough
def test_many_ranks_start_although_names_are_slow(make_lab, place):
    ranks = 32
    turn, source = place / "turn", place / "names.c"
    turn.write_text("")
    source.write_text(SLOW_NAMES.replace("@TURN@", str(turn)), encoding="utf-8")
    give_capability(build_helper(place, source, "-Wl,--wrap=getgrnam"))
    (place / "helper.conf").write_text("group nogroup\ninterface lo eth*\n", encoding="utf-8")
    lab = make_lab(hosts=1)
    program = [place / "rawe-verify", "--quick", "--scale", "0.01", "--only", "unexpected"]
    result = run_verify(lab, ranks, *program, timeout=3 * HANG_SECONDS, **as_nobody(place))
    assert "CAP_NET_RAW" not in result.output + result.errors, show(result)


def test_sockets_that_no_helper_opens_at_once_are_opened_later(make_lab, place, exchange):
    asked = place / "tmp" / "asked"
    helper, mine = place / "rawe-socket-helper", place / "its-place"
    job = start_survivors(make_lab, place, exchange, 1)
    mine.write_text(f"#!/bin/sh\necho asked >> {asked}\n", encoding="utf-8")
    mine.chmod(0o755)
    helper.rename(place / "helper-away")
    mine.rename(helper)
    job.go_file.touch()
    wait_until(
        lambda: asked.exists() and len(asked.read_text().split()) > 3 * SOCKETS_A_RANK,
        "second request for each socket",
    )
    (place / "helper-away").rename(helper)
    job.end()
    assert "rawe BTL" not in job.said(), job.said()


def refused(make_lab, place, *words, user=USER, **others):
    """Assert that a job without sockets ends, with one message that contains the words."""
    lab = make_lab(hosts=1)
    settings = {**by_helper(place), **others}
    result = until_told(lambda: run_as_user(lab, place, user=user, **settings), tries=8)
    assert result.returncode != 0 and not result.timed_out, show(result)
    assert_one_message(result, "CAP_NET_RAW", *words)


def test_without_a_helper_the_message_names_the_three_remedies(make_lab, place):
    (place / "rawe-socket-helper").unlink()
    remedies = ("rawe-socket-helper(8)", "--cap-add NET_RAW", "job as root")
    refused(make_lab, place, "rawe-socket-helper is not installed", str(place), *remedies)


@pytest.mark.parametrize(
    "words, options",
    [
        ("btl_rawe_helper is empty", {"OMPI_MCA_btl_rawe_helper": ""}),
        ("only its group", {"user": as_user(NOBODY - 1, NOBODY - 1)}),
        ("bounding set", {"user": ("setpriv", "--bounding-set=-net_raw", *USER)}),
    ],
)
def test_why_there_are_no_sockets_is_in_the_message(make_lab, place, words, options):
    refused(make_lab, place, words, **options)


def test_what_the_list_refuses_is_in_the_message(make_lab, place):
    (place / "helper.conf").write_text(f"group {NOBODY - 1}\ninterface *\n", encoding="utf-8")
    refused(make_lab, place, "neither this user nor a group of it")


# ---- requests ----


def request(version=2, what=LINK, interface=b"lo", ethertype=ETHERTYPE, **fields):
    """Return the bytes of a request."""
    places = fields.get("places", ())
    head = struct.pack(
        "=II16sHHHHII",
        version,
        what,
        interface,
        ethertype,
        fields.get("port", 7),
        fields.get("ping_port", 0),
        len(places),
        fields.get("key", 8),
        fields.get("ping_key", 0),
    )
    body = b"".join(struct.pack("=II", *place) for place in places)
    return head + body.ljust(8 * PLACES, b"\0")


def founder(*places, **fields):
    """Return the request for the first socket of a group."""
    return request(port=0, key=0, places=places, **fields)


def ask(place, data, user=USER, program="rawe-socket-helper", descriptors=()):
    """Send these bytes to the helper as user; return its status (None: no answer), descriptors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            argv = [*user, place / program]
            process = subprocess.Popen(argv, stdin=theirs, stderr=subprocess.DEVNULL)
        if data is not None:
            socket.send_fds(ours, [data], descriptors)
        answer, granted, _, _ = socket.recv_fds(ours, 100, 8)
    process.wait(HANG_SECONDS)
    return (struct.unpack("=IIi", answer)[1] if answer else None), granted


def close(descriptors):
    """Close the granted descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


GOOD = {
    "link": request(),
    "bulk": request(what=BULK, ethertype=0),
    "middle bulk": request(what=MIDDLE, ethertype=0),
    "responder": request(what=RESPONDER, ping_port=3, ping_key=4),
    "founder": founder((1, 0), (2, 1)),
    "full group": founder(*((3 * i, i % 255) for i in range(PLACES))),
}
BRIEF = ("bulk", "founder")  # the others resemble these
# test/unit/test_socket_helper.c has what check_request() and the list refuse.
HOSTILE = {
    "much more": (request() + bytes(60000), BAD_REQUEST),
    "interface as pattern": (request(interface=b"eth*"), INTERFACE_UNKNOWN),
    "interface not there": (request(interface=b"eth77"), INTERFACE_UNKNOWN),
    "IPv4": (request(ethertype=0x0800), ETHERTYPE_REFUSED),
}


@pytest.mark.parametrize("name", [name if name in BRIEF else thorough(name) for name in GOOD])
def test_what_is_granted_cannot_be_widened(place, name):
    status, granted = ask(place, GOOD[name])
    assert (status, len(granted)) == (GRANTED, 1)
    with socket.socket(fileno=granted[0]) as packets:
        assert packets.family == socket.AF_PACKET and packets.type == socket.SOCK_RAW
        # The process binds the two for batches itself, in a certain order.
        assert packets.getsockname()[0] == ("" if "bulk" in name else "lo")
        with pytest.raises(PermissionError):
            packets.setsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER, 0)
        with pytest.raises(PermissionError):
            packets.setsockopt(socket.SOL_SOCKET, 27, array.array("i", [0]))  # SO_DETACH_FILTER


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_gets_nothing(place, name):
    data, expected = HOSTILE[name]
    assert ask(place, data) == (expected, [])


def test_descriptors_sent_to_it_are_not_taken(place):
    with open("/dev/null", "rb") as file:
        status, granted = ask(place, request(), descriptors=[file.fileno()] * 8)
    assert (status, len(granted)) == (GRANTED, 1)
    close(granted)


def test_it_ends_when_nothing_is_asked(place):
    assert ask(place, None) == (None, [])


def test_it_ends_when_its_standard_input_is_no_conversation(place):
    done = subprocess.run(
        [*USER, place / "rawe-socket-helper"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 2 and b"man page" in done.stderr


def test_it_prints_the_path_of_its_list_and_does_nothing_else(place):
    helper = place / "rawe-socket-helper"
    for words, status in ((["--access-list"], 0), (["--access-list", "x"], 2), (["--help"], 2)):
        done = subprocess.run(
            [*USER, helper, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stdout) == (status, f"{place}/helper.conf\n" * (status == 0))
    with open("/dev/full", "wb") as full:
        assert subprocess.run([helper, "--access-list"], stdout=full, check=False).returncode == 1


def test_without_a_list_or_with_an_empty_one_nothing_is_granted(place):
    (place / "helper.conf").write_text("", encoding="utf-8")
    assert ask(place, request()) == (USER_REFUSED, [])
    (place / "helper.conf").unlink()
    assert ask(place, request()) == (NO_LIST, [])


def replace_by_folder(file):
    """Replace a file by a folder."""
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o664),
        lambda file: file.chmod(0o646),
        lambda file: os.chown(file, NOBODY, NOBODY),
        replace_by_folder,
    ],
    ids=["group writes", "others write", "of another user", "folder"],
)
def test_a_list_that_is_not_roots_alone_counts_for_nothing(place, spoil):
    spoil(place / "helper.conf")
    assert ask(place, request()) == (UNSAFE_LIST, [])


@pytest.mark.thorough
def test_the_group_of_a_user_counts_wherever_it_stands(place):
    for user in (as_user(4711, NOBODY), as_user(4711, 4712, 4713, NOBODY)):
        status, granted = ask(place, request(), user)
        assert status == GRANTED
        close(granted)


def test_without_its_capability_it_says_so(place):
    subprocess.run(["setcap", "-r", place / "rawe-socket-helper"], check=True)
    assert ask(place, request()) == (NO_CAPABILITY, [])


def test_a_user_who_may_not_raise_privileges_gets_nothing(place):
    user = (*USER, "setpriv", "--no-new-privs")
    assert ask(place, request(), user) == (NO_CAPABILITY, [])


def test_its_list_cannot_be_replaced_in_a_namespace_of_the_user(place):
    if subprocess.run([*USER, "unshare", "--user", "true"], check=False).returncode != 0:
        pytest.skip("there are no user namespaces here: user_namespaces(7), nor in a chroot")
    mine = place / "tmp" / "mine"
    mine.write_text("group 0\nuser 0\ninterface *\n", encoding="utf-8")
    (place / "helper.conf").write_text("interface *\n", encoding="utf-8")
    script = f"mount --bind {mine} {place}/helper.conf && exec {place}/rawe-socket-helper"
    user = (*USER, "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    status, granted = ask(place, request(), user, program="")
    assert status != GRANTED and granted == []


# A host with its own log, on a socket of the given type. Each further argument is a request; "+"
# fills the queue of the log first. The command that starts the helper follows "--".
LOGGED = """
import socket, struct, subprocess, sys
at = sys.argv.index("--")
kind, requests, helper = getattr(socket, sys.argv[1]), sys.argv[2:at], sys.argv[at + 1 :]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev"], check=True)
subprocess.run(["mknod", "-m", "666", "/dev/null", "c", "1", "3"], check=True)
log = socket.socket(socket.AF_UNIX, kind)
log.bind("/dev/log")
subprocess.run(["chmod", "666", "/dev/log"], check=True)
log.settimeout(60)
if kind == socket.SOCK_STREAM:
    log.listen()
for request in requests:
    other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.setblocking(False)
    filled = 0
    try:
        while request[0] == "+":
            other.sendto(b"full", "/dev/log")
            filled += 1
    except BlockingIOError:
        pass
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(bytes.fromhex(request.strip("+")))
    process = subprocess.Popen(helper, stdin=theirs)
    theirs.close()
    print(struct.unpack("=IIi", ours.recv(12))[1], end=" ")
    ours.close()
    for _ in range(filled):
        log.recv(1000)
    process.wait()
    lines = log.accept()[0] if kind == socket.SOCK_STREAM else log
    print(lines.recv(1000).decode().rstrip(chr(0)))
"""


def ask_and_read_log(place, *requests, starter=(), kind="SOCK_DGRAM"):
    """Return the status of the answer, and the log line, for each request."""
    argv = ["unshare", "--mount", sys.executable, "-c", LOGGED, kind]
    argv += [*requests, "--", *USER, *starter, place / "rawe-socket-helper"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    return [(int(line.split()[0]), line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_STREAM"])
def test_grant_and_refusal_are_logged(place, kind):
    (granted, line), (refused_, other) = ask_and_read_log(
        place, request().hex(), request(interface=b"wlan0").hex(), kind=kind
    )
    assert granted == GRANTED and refused_ == INTERFACE_REFUSED
    assert f"granted (uid {NOBODY}, gid {NOBODY}): link on lo, EtherType 0x88B5" in line
    assert "refused: interface not listed" in other and "wlan0" in other


def test_nothing_is_granted_that_the_log_does_not_take(place):
    """Otherwise a user could end the helper before it writes the line."""
    ((status, line),) = ask_and_read_log(place, "+" + request().hex())
    assert status == NO_LOG
    assert "refused: the log takes no line" in line


def test_a_limit_of_descriptors_keeps_no_grant_from_the_log(place):
    ((status, line),) = ask_and_read_log(
        place, request().hex(), starter=("prlimit", "--nofile=8:1024")
    )
    assert status == GRANTED and "granted" in line


# ---- documents ----


def test_the_man_page_has_the_commands_of_these_tests():
    text = (Path(__file__).resolve().parents[3] / "tools/rawe-socket-helper.8").read_text()
    assert "chgrp rawe" in text and "chmod 0750" in text and "setcap cap_net_raw=ep" in text
