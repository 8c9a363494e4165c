# SPDX-License-Identifier: BSD-3-Clause
"""rawe-info shows how the component behaves on a host; compared with the lab and with jobs."""

import errno
import os
import platform
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from conftest import (
    ETHERTYPE,
    HANG_SECONDS,
    KIND,
    NOBODY,
    USER,
    build_helper,
    give_capability,
    public_place,
    run_job,
    variables,
)

from rawelab import launch

ROOT = Path(__file__).resolve().parents[3]
WIRE = ROOT / "opal/mca/btl/rawe/core/base/rawe_wire.h"


def run(lab, info, *options, prefix=(), build=None, **others):
    """Run it on host 0, with the component of a build directory."""
    component = f"OMPI_MCA_mca_base_component_path={launch.component_path(build or lab.build)}"
    settings = [component, *(f"{name}={value}" for name, value in others.items())]  # last wins
    argv = [*prefix, "env", *settings, info, *options]
    return lab.run(0, argv, timeout=HANG_SECONDS)


def fields(pattern, text):
    """Return the named groups of a pattern that must match the whole text."""
    match = re.fullmatch(pattern, text, re.DOTALL)
    assert match, text
    return match.groupdict()


HEAD = (
    r"(?P<host>\S+): Linux (?P<kernel>\S+), user (?P<user>\S+) \((?P<uid>\d+)\), "
    r"rawe-info \S+ with wire version (?P<wire_version>\d+)"
)
PARAMETERS = (
    r"(  as (?P<source>\S+) shows them|  no ompi_info shows .*: these are defaults)\n"
    r"  kind (?P<kind>\S+), if_include (?P<if_include>\S+), if_exclude (?P<if_exclude>\S+), "
    r"loopback (?P<loopback>\w+), EtherType (?P<ethertype>\w+), "
    r"socket priority (?P<socket_priority>\d+)"
    r"(\n  refused: (?P<refusal>.*))?"
)
INTERFACE = (
    r"  (?P<name>\S+) +"
    r"(?:(?P<use>used(?: between ranks of this host)?) for (?P<kinds>[^\n;]*)"
    r"(?P<helper>; socket by rawe-socket-helper)?(?:; no (?P<lacking>[^\n]*))?"
    r"|not used: (?P<why_not>[^\n]*))\n"
    r" +(?P<state>[\w ]+), MTU (?P<mtu_bytes>\d+), [\w /]+, "
    r"TSO (?P<tso>\w+), GSO (?P<gso>\w+), GRO (?P<gro>\w+), (?P<mac>\S+)"
)
PRIVILEGES = (
    r"  CAP_NET_RAW (?P<cap_net_raw>\w+), in the bounding set (?P<bounding_set>\w+), "
    r"no_new_privs (?P<no_new_privs>\w+)\n"
    r"  packet socket of its own: (?P<packet_socket>[^\n]*)\n"
    r"  rawe-socket-helper [^:]+(: (?P<helper_refusal>.*))?"
)
OPEN_MPI = (
    r"  (?P<ompi_info>\S+): Open MPI (?P<version>\S+)\n"
    r"    loads (rawe for Open MPI (?P<component_version>\S+), wire version (?P<wire_version>\S+)"
    r"|no component rawe)(?P<files>(\n    \S+)*)"
)


def read(text):
    """Return its output as dictionaries of texts."""
    head, *sections = text.rstrip("\n").split("\n\n")
    bodies = [section.partition("\n")[::2] for section in sections]
    assert [title for title, _ in bodies] == ["Parameters", "Interfaces", "Privileges", "Open MPI"]
    parameters, interfaces, privileges, open_mpi = (body for _, body in bodies)
    return {
        **fields(HEAD, head),
        "parameters": fields(PARAMETERS, parameters),
        "interfaces": [fields(INTERFACE, one) for one in re.findall(r"  \S.*\n.*", interfaces)],
        "privileges": fields(PRIVILEGES, privileges),
        "open_mpi": [
            fields(OPEN_MPI, one) for one in re.findall(r"  /\S+: .*(?:\n    .*)*", open_mpi)
        ],
    }


def look(lab, info, status=0, **others):
    """Return its output on host 0."""
    done = run(lab, info, **others)
    assert done.returncode == status, done.stderr
    return read(done.stdout)


def interface(shown, name):
    """Return the entry of an interface."""
    (one,) = (one for one in shown["interfaces"] if one["name"] == name)
    return one


def test_a_host_is_as_the_lab_made_it(make_lab, info):
    lab = make_lab(hosts=2, nics=2, mtu=4000, nic="plain")
    on = [word for name in ("tx", "sg", "tso", "gro") for word in (name, "on")]
    lab.run(0, ["ethtool", "-K", "eth1", *on], check=True)
    lab.link_down(0, nic=1)
    shown = look(lab, info)
    assert shown["host"] == lab.hosts[0].name
    assert shown["kernel"] == platform.release()
    assert shown["uid"] == "0" and shown["user"] == "root"

    eth0, eth1 = (interface(shown, name) for name in ("eth0", "eth1"))
    assert eth0["use"] == "used" and eth0["helper"] is None and eth0["state"] == "up"
    assert (eth0["mtu_bytes"], eth0["mac"]) == ("4000", lab.nic(0).mac)
    assert (eth0["tso"], eth0["gso"], eth0["gro"]) == ("off", "off", "off")
    assert eth1["why_not"] == "down or without carrier" and eth1["state"] == "down"
    assert (eth1["tso"], eth1["gro"]) == ("on", "on")
    assert interface(shown, "lo")["use"] == "used between ranks of this host"

    lab.link_up(0, nic=1)
    lab.link_down(1, nic=1)
    eth1 = interface(look(lab, info), "eth1")
    assert eth1["why_not"] and eth1["state"] == "no carrier"


def test_the_component_that_open_mpi_loads(make_lab, info, build):
    shown = look(make_lab(hosts=1), info)
    wire = re.search(r"#define RAWE_WIRE_VERSION (\d+)u", WIRE.read_text()).group(1)
    (first, *_) = shown["open_mpi"]
    assert first["ompi_info"] == shutil.which("ompi_info") == shown["parameters"]["source"]
    assert tuple(map(int, first["version"].split(".")[:2])) == launch.open_mpi()
    # Components know only the numbers of "6.0.0rc2".
    assert first["component_version"] == re.match(r"[\d.]+", first["version"]).group()
    assert first["wire_version"] == shown["wire_version"] == wire
    file = build.resolve() / launch.COMPONENT / "mca_btl_rawe.so"
    assert first["files"].split()[0] == str(file)


def add_bridge(lab, member):
    """Create a bridge on host 0 with one of its interfaces, and wait for its carrier."""
    for words in ("add br7 type bridge", f"set {member} master br7", "set br7 up"):
        lab.run(0, ["ip", "link", *words.split()], check=True)
    deadline = time.monotonic() + HANG_SECONDS
    while "state UP" not in lab.run(0, ["ip", "link", "show", "br7"], check=True).stdout:
        assert time.monotonic() < deadline, "br7 does not come up"
        time.sleep(0.05)


NO_RIGHT = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
BOTH = "raw frames, and UDP to peers that these do not reach"
NO_IP = "it has no IPv4 or global IPv6 address for UDP"


@pytest.mark.parametrize(
    "kind, right, address, kinds, said",
    [
        ("packet", True, True, "raw frames", ""),
        ("udp", False, True, "UDP", ""),
        ("udp", True, False, None, NO_IP),
        ("auto", True, True, BOTH, ""),
        ("auto", True, False, "raw frames", f"UDP: {NO_IP}"),
        ("auto", False, True, "UDP", "is not installed"),
        ("auto", False, False, None, f"{NO_IP}, and no socket for raw frames can be opened: "),
    ],
)
def test_the_kind_and_why(make_lab, info, verify, kind, right, address, kinds, said):
    lab = make_lab(hosts=1)
    if not address:
        lab.run(0, ["ip", "address", "flush", "dev", "eth0"], check=True)
    values = {"kind": kind, "helper": "/nowhere/helper", "if_include": "eth0"}
    settings = {f"OMPI_MCA_btl_rawe_{name}": value for name, value in values.items()}
    shown = look(lab, info, prefix=() if right else NO_RIGHT, **settings)
    eth0, lo = interface(shown, "eth0"), interface(shown, "lo")
    assert shown["parameters"]["kind"] == kind
    assert eth0["kinds"] == kinds and (lo["why_not"] is None) == (kinds is not None)
    assert said in (eth0["lacking"] or eth0["why_not"] or "")
    if right:
        ports = found_by_a_job(lab, verify, settings)[1]
        assert ("eth0" in ports) == (kinds in ("raw frames", BOTH))
        assert ("eth0 for UDP" in ports) == (kinds in ("UDP", BOTH))


def found_by_a_job(lab, verify, settings):
    """Return why a rank on host 0 refuses each interface, and which ones it uses."""
    words = ["--mca", "btl_base_verbose", 1, verify, "--quick", "--only", "pt2pt"]
    # By default the lab sets if_include to its NICs.
    settings = {"OMPI_MCA_btl_rawe_if_include": "", **settings}
    result = run_job(lab, 1, *words, variables=settings)
    said = result.errors + result.output
    (found,) = re.findall(r"btl:rawe: found (.*)$", said, re.MULTILINE)
    used = set(re.findall(r"btl:rawe: uses (.*)$", said, re.MULTILINE))
    return dict(re.findall(r"(\S+) \(([^)]*)\)", found)), used


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"if_include": "eth1"},
        {"if_include": "eth*,br7", "loopback": "0"},
        {"if_exclude": "eth0"},
        {"if_include": "10.0.0.0/8,lo", "ethertype": "35000", "socket_priority": "6"},
    ],
    ids=str,
)
def test_it_decides_as_the_component_of_a_job_does(make_lab, info, verify, settings):
    lab = make_lab(hosts=2, nics=4)
    lab.link_down(0, nic=2)
    add_bridge(lab, "eth3")
    names = {f"OMPI_MCA_btl_rawe_{name}": value for name, value in settings.items()}
    shown = look(lab, info, **names)
    for name in ("if_include", "if_exclude"):
        assert shown["parameters"][name] == settings.get(name, "(empty)")
    assert (shown["parameters"]["loopback"] == "on") == (settings.get("loopback") != "0")
    assert int(shown["parameters"]["ethertype"], 0) == int(settings.get("ethertype", ETHERTYPE))
    assert shown["parameters"]["socket_priority"] == settings.get("socket_priority", "0")

    refusals, used = found_by_a_job(lab, verify, names)
    assert set(refusals) == {one["name"] for one in shown["interfaces"]}
    for one in shown["interfaces"]:
        assert (one["use"] == "used") == (refusals[one["name"]] == "tried")
        assert (one["why_not"] is None) == (one["name"] in used), one
        if one["why_not"] is not None and one["name"] != "lo":
            assert one["why_not"] == refusals[one["name"]]


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"if_include": "eth0,eth7"}, ("btl_rawe_if_include", "eth7")),
        ({"if_exclude": "eth8"}, ("btl_rawe_if_exclude", "eth8")),
        ({"if_include": "eth0", "if_exclude": "lo"}, ("if_include", "if_exclude", "both")),
    ],
    ids=str,
)
def test_parameters_that_the_component_refuses(make_lab, info, settings, words):
    lab = make_lab(hosts=1)
    names = {f"OMPI_MCA_btl_rawe_{name}": value for name, value in settings.items()}
    shown = look(lab, info, **names)
    assert all(word in shown["parameters"]["refusal"] for word in words)
    assert all(one["why_not"] == "the parameters are refused" for one in shown["interfaces"])


def test_without_open_mpi_the_defaults_hold(make_lab, info):
    lab = make_lab(hosts=1)
    done = run(lab, info, PATH="/nowhere")
    shown = read(done.stdout)
    assert shown["open_mpi"] == [] and shown["parameters"]["source"] is None
    assert interface(shown, "eth0")["use"] == "used"
    assert "there is no ompi_info" in done.stdout


def test_an_open_mpi_without_the_component(make_lab, info):
    lab = make_lab(hosts=1)
    own = {"OMPI_MCA_mca_base_component_path": "SYSTEM_DEFAULT", "OMPI_MCA_btl": "^rawe"}
    shown = look(lab, info, **own)
    (first, *_) = shown["open_mpi"]
    assert first["version"] and first["component_version"] is None
    assert shown["parameters"]["source"] is None


def test_an_ompi_info_that_fails_is_reported(make_lab, info, tmp_path):
    lab = make_lab(hosts=1)
    broken = tmp_path / "ompi_info"
    broken.write_text("#!/bin/sh\nexit 3\n", encoding="ascii")
    broken.chmod(0o755)
    done = run(lab, info, OMPI_INFO=broken)
    shown = read(done.stdout)
    assert done.returncode == 1
    assert done.stderr == f"rawe-info: {broken} --parsable --all: it failed\n"
    assert shown["open_mpi"][0]["ompi_info"] == str(broken)
    assert shown["open_mpi"][0]["version"] == "unknown"
    assert shown["parameters"]["source"] == shutil.which("ompi_info")
    done = run(lab, info, OMPI_INFO="/nowhere/ompi_info")
    assert done.returncode == 1 and "/nowhere/ompi_info" in done.stderr


def test_it_needs_neither_sys_nor_proc(make_lab, info):
    lab = make_lab(hosts=1)
    hide = 'mount -t tmpfs tmpfs /sys && mount -t tmpfs tmpfs /proc && exec "$@"'
    done = run(lab, info, prefix=("unshare", "--mount", "sh", "-c", hide, "sh"))
    assert done.stderr == "" and done.returncode == 0
    eth0 = interface(read(done.stdout), "eth0")
    assert eth0["use"] == "used" and eth0["mac"] == lab.nic(0).mac


# A seccomp filter without netlink sockets, as containers and RestrictAddressFamilies= install it.
NO_NETLINK = """
import ctypes, os, struct, sys
SOCKET, AF_NETLINK, EAFNOSUPPORT = 41, 16, 97
load, equal, allow, refuse = 0x20, 0x15, 0x7FFF0000, 0x00050000 | EAFNOSUPPORT
code = [(load, 0, 0, 0), (equal, 0, 3, SOCKET), (load, 0, 0, 16), (equal, 0, 1, AF_NETLINK)]
code += [(6, 0, 0, refuse), (6, 0, 0, allow)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
pointer = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program))
assert libc.prctl(22, 2, ctypes.c_char_p(pointer), 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has numbers of x86-64")
def test_interfaces_that_cannot_be_listed_are_reported(make_lab, info):
    lab = make_lab(hosts=1)
    done = run(lab, info, prefix=(sys.executable, "-c", NO_NETLINK))
    shown = read(done.stdout)
    assert done.returncode == 1
    assert "rawe-info: cannot list the network interfaces: Address family" in done.stderr
    assert shown["interfaces"] == [] and shown["open_mpi"]
    assert shown["privileges"]["no_new_privs"] == "yes"


# ---- users without privilege ----


@pytest.fixture
def place(build, verify, info):
    """A directory that every user can read, with component, helper and program."""
    with public_place(build, verify) as directory:
        give_capability(build_helper(directory))
        shutil.copy(info, directory)
        (directory / "rawe-info").chmod(0o755)
        yield directory


def look_as_user(lab, place, **others):
    """Return its output for a user without capabilities who has the helper, and no UDP."""
    helper = {"OMPI_MCA_btl_rawe_helper": place / "rawe-socket-helper", KIND: "packet"}
    settings = variables(place, **{**helper, **others})
    return look(lab, place / "rawe-info", prefix=USER, build=place, **settings)


def test_a_user_whom_the_access_list_admits(make_lab, place):
    lab = make_lab(hosts=2, nics=2)
    (place / "helper.conf").write_text(f"group {NOBODY}\ninterface lo eth0\n", encoding="ascii")
    shown = look_as_user(lab, place)
    privileges = shown["privileges"]
    assert shown["uid"] == str(NOBODY)
    assert privileges["cap_net_raw"] == "no"
    assert privileges["packet_socket"] == os.strerror(errno.EPERM)
    assert (privileges["bounding_set"], privileges["no_new_privs"]) == ("yes", "no")
    assert privileges["helper_refusal"] is None
    eth0, eth1, lo = (interface(shown, name) for name in ("eth0", "eth1", "lo"))
    assert eth0["use"] == "used" and eth0["helper"]
    assert lo["use"] == "used between ranks of this host" and lo["helper"]
    assert "no socket can be opened: " in eth1["why_not"]
    assert "does not name this interface" in eth1["why_not"]


def test_a_user_whom_the_access_list_does_not_admit(make_lab, place):
    lab = make_lab(hosts=1)
    (place / "helper.conf").write_text("user root\ninterface lo eth0\n", encoding="ascii")
    shown = look_as_user(lab, place)
    eth0 = interface(shown, "eth0")
    assert "no socket can be opened: " in eth0["why_not"]
    assert "names neither this user nor a group" in eth0["why_not"]
    assert interface(shown, "lo")["why_not"]


def test_a_user_without_a_helper(make_lab, place):
    lab = make_lab(hosts=1)
    shown = look_as_user(lab, place, OMPI_MCA_btl_rawe_helper="/nowhere/helper")
    assert shown["privileges"]["helper_refusal"] == "not found"
    assert "is not installed" in interface(shown, "eth0")["why_not"]
    (place / "rawe-socket-helper").chmod(0o700)
    shown = look_as_user(lab, place)
    assert shown["privileges"]["helper_refusal"] == "this user may not run it"
    assert "may not run" in interface(shown, "eth0")["why_not"]


# ---- what is shown ----


def test_the_text_has_what_matters_on_a_screen(make_lab, info):
    lab = make_lab(hosts=2, nics=2)
    add_bridge(lab, "eth1")
    done = run(lab, info)
    assert done.returncode == 0 and done.stderr == ""
    assert len(done.stdout.splitlines()) <= 27
    assert re.search(r"eth0 +used for raw frames, and UDP to peers", done.stdout, re.MULTILINE)
    assert re.search(r"lo +used between ranks of this host for raw ", done.stdout, re.MULTILINE)
    assert re.search(r"br7 +not used: it is a bridge$", done.stdout, re.MULTILINE)
    assert f"Linux {platform.release()}, user root (0)" in done.stdout
    assert "CAP_NET_RAW yes" in done.stdout and lab.nic(0).mac in done.stdout


def test_wrong_use(make_lab, info):
    lab = make_lab(hosts=1)
    for wrong in ("eth0", "--nonsense"):
        done = run(lab, info, wrong)
        assert done.returncode == 2 and done.stdout == "" and "Usage" in done.stderr
    assert "Usage" in run(lab, info, "--help").stdout
    assert re.match(r"rawe-info \d+\.\d+\.\d+, wire version \d+$", run(lab, info, "-V").stdout)
