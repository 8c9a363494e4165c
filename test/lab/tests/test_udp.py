# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose frames are UDP datagrams, without any privilege; btl_rawe_kind."""

import re
import shlex
import socket
import subprocess
import sys
import time

import pytest
from conftest import (
    BEYOND_OPEN_MPI,
    ETHERTYPE,
    HANG_SECONDS,
    MASQUERADE,
    RAWE,
    STATS,
    UntilJob,
    assert_failure,
    assert_one_message,
    assert_success,
    counted,
    help_messages,
    public_place,
    reports,
    run_as_user,
    run_job,
    run_verify,
    show,
    thorough,
    until_told,
    wait_until,
)

from rawelab import launch

PACKET = ("--mca", "btl_rawe_kind", "packet")
UDP = ("--mca", "btl_rawe_kind", "udp")
AUTO = ("--mca", "btl_rawe_kind", "auto")  # the default
VERBOSE = ("--mca", "btl_base_verbose", "1")
NO_RIGHT = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
EFFORT = ["--quick", "--scale", "0.1", "--skip", BEYOND_OPEN_MPI]


def verify_over_udp(lab, ranks, *words, **options):
    """Run the verification program over UDP; no raw frame may leave a host."""
    lab.count_frames(ETHERTYPE)
    result = run_verify(lab, ranks, *UDP, *STATS, *words, **options)
    assert all(lab.frames(host) == 0 for host in lab.hosts)
    assert counted(result, "link_frames_received") > 0
    assert help_messages(result) == [], show(result)


def of_kind(kind):
    """Return words before a program, for its process alone."""
    return ["env", f"OMPI_MCA_btl_rawe_kind={kind}"]


def by_rank(*starters):
    """Return words before a program that start each rank's with that rank's words.

    mpirun has a syntax for this (":"), but that of 5.0.7 crashes if both parts set parameters.
    """
    cases = [f'{rank}) exec {shlex.join(words)} "$@";;' for rank, words in enumerate(starters)]
    return ["sh", "-c", f"case $OMPI_COMM_WORLD_RANK in {' '.join(cases)} esac", "sh"]


def run_alone(lab, ranks, *words):
    """Run a job that may fail, over rawe alone."""
    return lab.mpirun(["-np", ranks, *RAWE, *words], timeout=HANG_SECONDS, build=lab.build)


@pytest.mark.parametrize(
    "ranks, hosts, options",
    [
        (2, 2, {}),
        (2, 2, {"nic": "cut"}),
        (2, 2, {"nic": "plain"}),
        (2, 2, {"mtu": 9000, "nic": "cut"}),
        (2, 2, {"loss": 1}),
        (2, 2, {"nics": 2}),
        (4, 2, {}),
        (8, 4, {"loss": 1}),
        (2, 1, {}),
    ],
)
def test_every_byte_arrives(make_lab, verify, ranks, hosts, options):
    verify_over_udp(make_lab(hosts=hosts, **options), ranks, verify, *EFFORT)


def test_every_byte_arrives_over_a_bad_wire(make_lab, verify):
    wire = "delay=100us,reorder=5%:1ms,duplicate=2%,loss=1%,corrupt=1%,truncate=1%"
    verify_over_udp(make_lab(hosts=2, topology="wire", wire=wire), 2, verify, *EFFORT)


def test_every_byte_arrives_one_sided(make_lab, verify):
    effort = ["--quick", "--scale", "0.1", "--max-bytes", "70000", "--only", "onesided,windows"]
    verify_over_udp(make_lab(hosts=2), 2, verify, *effort)


def test_every_byte_arrives_with_threads(make_lab, verify):
    effort = ["--quick", "--scale", "0.1", "--only", "threads", "--thread-level", "multiple"]
    verify_over_udp(make_lab(hosts=2), 2, verify, *effort)


def test_a_user_without_any_right_runs_it(make_lab, build, verify):
    with public_place(build, verify) as place:
        result = run_as_user(make_lab(hosts=1), place, *UDP)
    assert_success(result)
    assert help_messages(result) == [], show(result)


def test_datagrams_of_one_length_share_calls(make_lab, verify):
    """A long message is many frames: without UDP_SEGMENT and UDP_GRO each takes a system call."""
    lab = make_lab(hosts=2, nic="cut")
    result = run_job(lab, 2, *UDP, *STATS, verify, "--quick", "--scale", "0.1", "--only", "pt2pt")
    frames = sum(counters["frames_sent"] for counters in reports(result.errors).values())
    assert frames > 1000, show(result)


def test_processes_of_both_kinds_refuse_each_other(make_lab, verify):
    lab = make_lab(hosts=2)
    each = by_rank(of_kind("packet"), of_kind("udp"))
    result = until_told(lambda: run_alone(lab, 2, *each, verify, "--quick"))
    assert result.returncode != 0 and not result.timed_out
    assert "btl_rawe_kind" in "".join(help_messages(result)), show(result)


@pytest.mark.parametrize(
    "options, said",
    [
        (("--mca", "btl_rawe_kind", "tcp"), "packet, udp"),
        ((*UDP, "--mca", "btl_rawe_udp_port_min", "60000"), "btl_rawe_udp_port_range"),
    ],
)
def test_a_bad_value_is_refused(make_lab, verify, options, said):
    lab = make_lab(hosts=1)
    result = until_told(lambda: run_alone(lab, 2, *options, verify, "--quick"))
    assert result.returncode != 0
    assert_one_message(result, said)


@pytest.mark.parametrize(
    "kind, right, said",
    [("udp", True, "IPv4 address"), ("auto", False, "CAP_NET_RAW"), ("auto", True, None)],
)
def test_an_interface_without_ipv4_is_named(make_lab, verify, kind, right, said):
    """With auto, a failure is reported only if no kind can be used."""
    lab = make_lab(hosts=1)
    lab.run(0, ["ip", "address", "flush", "dev", "eth0"], check=True)
    words = ["--mca", "btl_rawe_kind", kind, *([] if right else NO_RIGHT), verify, *EFFORT]
    if said is None:
        assert help_messages(run_verify(lab, 2, *words)) == []
        return
    result = until_told(lambda: run_alone(lab, 2, *words))
    assert result.returncode != 0 and not result.timed_out
    assert said in "".join(help_messages(result)), show(result)


def test_an_interface_without_ipv4_that_was_not_named_is_passed_by(make_lab, verify):
    lab = make_lab(hosts=1, nics=2)
    lab.run(0, ["ip", "address", "flush", "dev", "eth1"], check=True)
    not_named = ["--mca", "btl_rawe_if_exclude", "ctl0"]
    assert help_messages(run_verify(lab, 2, *UDP, *not_named, verify, *EFFORT)) == []


def test_the_address_in_the_named_subnet_is_used(make_lab, verify):
    """The first address of both hosts is the same, so it leads nowhere."""
    lab = make_lab(hosts=2)
    for host in (0, 1):
        nic = lab.nic(host, 0)
        lab.run(host, ["ip", "address", "flush", "dev", "eth0"], check=True)
        for address in ("192.168.50.7/24", f"{nic.address}/{nic.subnet.prefix_bits}"):
            lab.run(host, ["ip", "address", "add", address, "dev", "eth0"], check=True)
    words = ["--mca", "btl_rawe_if_include", nic.subnet.prefix]
    verify_over_udp(lab, 2, *words, verify, *EFFORT)


@pytest.mark.parametrize("subnet", ["10.90.0.{}/24", "fd00:90::{}/64"])
def test_each_of_two_nics_in_a_subnet_is_used(make_lab, verify, subnet):
    """The kernel's routes lead to the first one only."""
    lab = make_lab(hosts=2, nics=2, topology="switch")
    if ":" in subnet:
        lab.use_ipv6()
    for host in (0, 1):
        lab.at_switch("ip", "link", "set", lab.nic(host, 1).port, "master", "br0")
        for nic in (0, 1):
            device = ["dev", f"eth{nic}"]
            add = ["ip", "address", "add", subnet.format(1 + host + 10 * nic), *device]
            add += ["metric", 100 + nic, *(["nodad"] if ":" in subnet else [])]
            lab.run(host, ["ip", "address", "flush", *device, "scope", "global"], check=True)
            lab.run(host, add, check=True)
    verify_over_udp(lab, 2, verify, *EFFORT)
    for host in (0, 1):
        files = [f"/sys/class/net/eth{nic}/statistics/tx_bytes" for nic in (0, 1)]
        sent = [int(count) for count in lab.run(host, ["cat", *files]).stdout.split()]
        assert min(sent) > max(sent) / 10, sent


# Passes packets between a tunnel's interface, which is not Ethernet, and a socket to its other end.
TUNNEL = """
import fcntl, os, select, struct, sys
end = int(sys.argv[1])
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"tun0", 0x1001))  # TUNSETIFF; IFF_TUN, IFF_NO_PI
print(flush=True)
while True:
    for ready in select.select([tun, end], [], [])[0]:
        packet = os.read(ready, 65536)
        if not packet:
            sys.exit()
        os.write(end if ready == tun else tun, packet)
"""


@pytest.fixture(name="tunnel")
def fixture_tunnel(make_lab):
    """Two hosts with a tunnel between them, as of a VPN."""
    lab = make_lab(hosts=2)
    processes = []
    for host, end in enumerate(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)):
        argv = lab.host_command(host, [sys.executable, "-c", TUNNEL, end.fileno()])
        one = subprocess.Popen(argv, stdout=subprocess.PIPE, pass_fds=[end.fileno()])
        end.close()
        processes.append(one)
        assert one.stdout.readline()
        lab.run(host, ["ip", "address", "add", f"10.9.0.{host + 1}/24", "dev", "tun0"], check=True)
        lab.run(host, ["ip", "link", "set", "tun0", "mtu", "1420", "up"], check=True)
    yield lab
    for one in processes:
        one.kill()
        one.communicate()


@pytest.mark.parametrize(
    "kind, named, shown",
    [
        ("udp", "tun0", "used for UDP"),
        ("auto", "tun0", "used for UDP; no raw frames: not Ethernet"),
        ("packet", "tun0", "not used: not Ethernet"),
        ("udp", "10.9.0.0/24", "used for UDP"),
    ],
)
def test_an_interface_that_is_not_ethernet(tunnel, verify, info, kind, named, shown):
    settings = {"btl_rawe_kind": kind, "btl_rawe_if_include": named}
    settings["mca_base_component_path"] = launch.component_path(tunnel.build)
    argv = ["env", *(f"OMPI_MCA_{name}={value}" for name, value in settings.items()), info]
    assert re.findall(r"^  tun0 +(.*)$", tunnel.run(0, argv).stdout, re.MULTILINE) == [shown]
    words = ["--mca", "btl_rawe_kind", kind, "--mca", "btl_rawe_if_include", named]
    words += [*STATS, verify, *EFFORT]
    if shown.startswith("used"):
        result = run_verify(tunnel, 2, *words)
        assert counted(result, "link_frames_received") > 0
        assert help_messages(result) == [], show(result)
        return
    result = until_told(lambda: run_alone(tunnel, 2, *words))
    assert result.returncode != 0 and not result.timed_out
    assert "btl_rawe_kind udp" in "".join(help_messages(result)), show(result)


def test_a_subnet_does_not_choose_what_raw_frames_cannot_use(tunnel, verify):
    words = [*PACKET, "--mca", "btl_rawe_if_include", "10.81.0.0/16,10.9.0.0/24"]
    assert help_messages(run_verify(tunnel, 2, *words, verify, *EFFORT)) == []


def test_ports_stay_in_the_range(make_lab, verify):
    """Four ranks need two ports each; with fewer, a rank says what it could not open."""
    lab = make_lab(hosts=1)
    few = [*UDP, "--mca", "btl_rawe_udp_port_min", 41000, "--mca", "btl_rawe_udp_port_range"]
    run_verify(lab, 4, *few, 40, verify, *EFFORT)
    result = until_told(lambda: run_alone(lab, 4, *few, 3, verify, "--quick"))
    assert result.returncode != 0 and not result.timed_out
    message = "".join(help_messages(result))
    assert "bind to a UDP port" in message and "btl_rawe_udp_port_range" in message, show(result)


def interfaces_used(lab, *words):
    """Run two ranks; return what carried messages."""
    result = run_job(lab, 2, *STATS, *words, "--quick", "--scale", "0.1", "--only", "pt2pt")
    assert help_messages(result) == [], show(result)
    return {
        interface
        for (_, interface), counters in reports(result.errors).items()
        if counters["messages_sent"] > 0
    }


@pytest.mark.parametrize(
    "kinds, rights, used",
    [
        (("auto", "auto"), (True, True), {"eth0"}),
        (("auto", "auto"), (True, False), {"eth0/udp"}),
        (("auto", "auto"), (False, True), {"eth0/udp"}),
        (("auto", "auto"), (False, False), {"eth0/udp"}),
        ((None, None), (True, True), {"eth0"}),
        ((None, None), (False, False), {"eth0/udp"}),
        (("auto", "packet"), (True, True), {"eth0"}),
        (("auto", "udp"), (True, True), {"eth0/udp"}),
        (("udp", "auto"), (True, False), {"eth0/udp"}),
    ],
)
def test_auto_chooses_for_each_pair(make_lab, verify, kinds, rights, used):
    """Raw frames where both processes may send them, UDP otherwise."""
    each = by_rank(
        *(
            [*(of_kind(kind) if kind else []), *([] if right else NO_RIGHT)]
            for kind, right in zip(kinds, rights, strict=True)
        )
    )
    assert interfaces_used(make_lab(hosts=2), *each, verify) == used
    on_lo = {name.replace("eth0", "lo") for name in used}
    assert interfaces_used(make_lab(hosts=1), *each, verify) == on_lo


def test_auto_needs_no_udp_where_raw_frames_pass(make_lab, verify):
    lab = make_lab(hosts=2)
    lab.run(1, ["nft", DROP_UDP], check=True)
    words = [*AUTO, "--mca", "btl_rawe_connect_timeout_ms", 600000]
    assert interfaces_used(lab, *words, verify) == {"eth0"}


def test_auto_needs_no_more_descriptors_than_raw_frames(make_lab, build, exchange):
    """The smallest limit under which raw frames alone work must suffice."""
    lab = make_lab(hosts=2, nics=2)

    def works(kind, limit):
        words = [*kind, "sh", "-c", 'ulimit -n "$0" && exec "$@"', limit, exchange, "rounds", 20]
        result = lab.mpirun(["-np", 2, *RAWE, *words], timeout=HANG_SECONDS, build=build)
        return result.returncode == 0

    assert works(AUTO, next(limit for limit in range(28, 80, 2) if works(PACKET, limit)))


def test_auto_with_several_ranks_and_interfaces(make_lab, verify):
    lab = make_lab(hosts=2, nics=2)
    result = run_verify(lab, 4, *AUTO, *STATS, verify, *EFFORT)
    used = {key[1] for key, counters in reports(result.errors).items() if counters["frames_sent"]}
    assert {"eth0", "eth1"} <= used and not any("udp" in name for name in used), show(result)


@pytest.mark.parametrize("btls, datagrams", [("rawe,tcp,self", True), ("^vader,sm", False)])
def test_a_job_that_does_not_name_rawe_uses_no_udp(make_lab, verify, btls, datagrams):
    words = [*AUTO, *VERBOSE, verify, "--quick", "--scale", "0.1", "--only", "pt2pt"]
    said = run_job(make_lab(hosts=2), 2, *words, btls=("--mca", "btl", btls)).errors
    assert "uses eth0" in said
    assert ("for UDP" in said) == datagrams, said


@pytest.mark.parametrize(
    "kind, address, said",
    [("packet", True, "CAP_NET_RAW"), ("auto", False, "CAP_NET_RAW")],
)
def test_a_user_without_any_right_is_told_what_is_missing(make_lab, verify, kind, address, said):
    lab = make_lab(hosts=2)
    if not address:
        for host in (0, 1):
            lab.run(host, ["ip", "address", "add", "10.7.0.1/24", "dev", "lo"], check=True)
            lab.run(host, ["ip", "address", "flush", "dev", "eth0"], check=True)
    words = ["-np", 1, *RAWE, "--mca", "btl_rawe_kind", kind, *NO_RIGHT, verify, "--quick"]
    host = ["--host", lab.hosts[0].name]
    result = until_told(lambda: lab.mpirun([*host, *words], timeout=HANG_SECONDS, build=lab.build))
    assert said in "".join(help_messages(result)), show(result)


# ---- with a router between the hosts ----


def fragments(lab):
    """Return how many IPv4 packets the router has fragmented, or refused to fragment."""
    names, values = [
        line.split() for line in lab.at_switch("grep", "^Ip:", "/proc/net/snmp").stdout.splitlines()
    ]
    counters = dict(zip(names, values))
    return int(counters["FragCreates"]), int(counters["FragFails"])


@pytest.mark.parametrize(
    "ranks, hosts, options",
    [(2, 2, {}), (4, 4, {}), (2, 2, {"nic": "cut"}), (4, 2, {"loss": 1}), (2, 2, {"nics": 2})],
)
def test_every_byte_arrives_over_a_router(make_lab, verify, ranks, hosts, options):
    lab = make_lab(hosts=hosts, topology="routed", **options)
    verify_over_udp(lab, ranks, verify, *EFFORT)
    assert fragments(lab) == (0, 0)


@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
def test_the_smaller_mtu_of_a_router_is_found(make_lab, verify, nic):
    lab = make_lab(hosts=2, topology="routed", router_mtu=1400, nic=nic)
    result = until_told(lambda: run_verify(lab, 2, *UDP, verify, *EFFORT))
    assert_one_message(result, "MTU of both ends:  1500", "MTU that passes:   1400")
    created, failed = fragments(lab)
    assert created == 0
    assert failed > 0, "nothing was too long: the test shows nothing"


def test_an_mtu_that_a_router_lowers_is_found(make_lab, exchange):
    lab = make_lab(hosts=2, topology="routed")
    job = UntilJob(lab, exchange, *UDP)
    lab.at_switch("ip", "link", "set", lab.nic(1).subnet.bridge, "mtu", "1400")
    # 150 rounds of messages; probing the MTU takes a tenth of these bytes.
    before = [lab.statistic(host, "rx_bytes") for host in (0, 1)]
    wait_until(
        lambda: all(lab.statistic(host, "rx_bytes") > before[host] + 3_000_000 for host in (0, 1)),
        "message that passes",
    )
    for message in help_messages(job.end()):
        assert "MTU that passes:   1400" in message, message
    assert fragments(lab)[0] == 0


# ---- over IPv6 ----


def ipv6_counter(lab, name):
    """Return one of the kernel's IPv6 counters, summed over all hosts and the router."""
    places = [lab.run(host, ["cat", "/proc/net/snmp6"]).stdout for host in lab.hosts]
    places.append(lab.at_switch("cat", "/proc/net/snmp6").stdout)
    return sum(
        int(line.split()[1])
        for text in places
        for line in text.splitlines()
        if line.split()[0] == name
    )


@pytest.mark.parametrize(
    "ranks, hosts, options",
    [
        (2, 2, {}),
        (2, 2, {"nic": "cut"}),
        (2, 2, {"mtu": 9000, "nic": "plain"}),
        (4, 2, {"nics": 2, "loss": 1}),
        (2, 2, {"topology": "routed"}),
        (4, 4, {"topology": "routed", "nic": "cut", "loss": 1}),
    ],
)
def test_every_byte_arrives_over_ipv6(make_lab, verify, ranks, hosts, options):
    lab = make_lab(hosts=hosts, **options)
    lab.use_ipv6()
    verify_over_udp(lab, ranks, verify, *EFFORT)
    assert ipv6_counter(lab, "Ip6FragCreates") == 0


@pytest.mark.parametrize("nic", ["whole", "cut", "plain"])
def test_the_smaller_mtu_of_an_ipv6_router_is_found(make_lab, verify, nic):
    lab = make_lab(hosts=2, topology="routed", router_mtu=1280, nic=nic)
    lab.use_ipv6()
    result = until_told(lambda: run_verify(lab, 2, *UDP, verify, *EFFORT))
    assert_one_message(result, "MTU of both ends:  1500", "MTU that passes:   1280")
    assert ipv6_counter(lab, "Ip6FragCreates") == 0
    assert ipv6_counter(lab, "Ip6InTooBigErrors") > 0, "nothing was too long"


def test_hosts_without_a_common_version_of_ip_say_so(make_lab, verify):
    lab = make_lab(hosts=2)
    lab.use_ipv6(1)
    result = until_told(lambda: run_alone(lab, 2, *UDP, verify, "--quick"))
    assert result.returncode != 0 and not result.timed_out
    said = "".join(help_messages(result))
    assert "IP version" in said and "no IPv4" in said, show(result)


@pytest.mark.parametrize("rights, used", [(True, "eth0"), (False, "eth0/udp")])
def test_auto_uses_ipv6_only_without_raw_frames(make_lab, verify, rights, used):
    lab = make_lab(hosts=2)
    lab.use_ipv6()
    words = [*AUTO, *([] if rights else NO_RIGHT)]
    assert interfaces_used(lab, *words, verify) == {used}


def test_an_ipv6_subnet_chooses_interfaces(make_lab, verify):
    lab = make_lab(hosts=2, nics=2)
    lab.use_ipv6()
    words = [*UDP, "--mca", "btl_rawe_if_include", lab.nic(0, 1).subnet.ipv6_prefix]
    assert interfaces_used(lab, *words, verify) == {"eth1/udp"}


def stop_forwarding(lab):
    """Let the router drop everything; return a function that ends this."""
    lab.at_switch("sysctl", "-w", "net.ipv4.ip_forward=0")
    return lambda: lab.at_switch("sysctl", "-w", "net.ipv4.ip_forward=1")


def take_router_down(lab):
    """Take a NIC of the router down, so that it answers that the network is unreachable."""
    bridge = lab.nic(1).subnet.bridge
    lab.at_switch("ip", "link", "set", bridge, "down")
    return lambda: lab.at_switch("ip", "link", "set", bridge, "up")


@pytest.mark.parametrize("seconds", [5, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("stop", [stop_forwarding, take_router_down])
def test_a_router_that_stops_for_seconds_is_survived(make_lab, exchange, stop, seconds):
    lab = make_lab(hosts=2, topology="routed")
    job = UntilJob(lab, exchange, *UDP)
    resume = stop(lab)
    time.sleep(0.1)
    before = lab.statistic(1, "rx_bytes")
    time.sleep(seconds)
    assert lab.statistic(1, "rx_bytes") == before, "the router still forwards"
    resume()
    wait_until(lambda: lab.statistic(1, "rx_bytes") > before + 3_000_000, "message that passes")
    assert help_messages(job.end()) == []


# Only the user who made the namespaces may enter them, so the ranks stay root on several hosts.
LOST_RIGHTS = "-net_raw,-net_admin"
NO_NETWORK_RIGHTS = ("setpriv", f"--bounding-set={LOST_RIGHTS}", f"--inh-caps={LOST_RIGHTS}")


def test_ranks_without_network_rights_cross_a_router(make_lab, verify):
    """Nothing is set but rawe's name; a line says what carries frames, and why."""
    lab = make_lab(hosts=2, topology="routed")
    lab.count_frames(ETHERTYPE)
    result = run_verify(lab, 2, *VERBOSE, verify, *EFFORT, prefix=NO_NETWORK_RIGHTS)
    assert all(lab.frames(host) == 0 for host in lab.hosts)
    assert help_messages(result) == [], show(result)
    lines = [line for line in result.errors.splitlines() if "uses UDP, because raw" in line]
    assert len(lines) == 2 and all("no CAP_NET_RAW" in line for line in lines), show(result)


# Give up a peer that never answers sooner than by default, where nothing but rawe is left.
SOON = ("--mca", "btl_rawe_connect_timeout_ms", "900", "--mca", "btl_rawe_peer_timeout", "4")


def run_cut_off(lab, kind, btls, verify):
    """Run a job between hosts that rawe cannot connect; return its result."""
    options = ["--mca", "btl", btls, "--mca", "btl_rawe_kind", kind]
    options += [] if "tcp" in btls else SOON
    words = ["-np", 2, *options, verify, "--quick", "--only", "pt2pt"]
    return until_told(lambda: lab.mpirun(words, timeout=HANG_SECONDS, build=lab.build))


with_and_without_tcp = pytest.mark.parametrize(
    "btls, check, limit",
    [("rawe,self", assert_failure, "4000 ms"), ("rawe,tcp,self", assert_success, "1000 ms")],
)


@with_and_without_tcp
def test_raw_frames_do_not_cross_a_router(make_lab, verify, btls, check, limit):
    result = run_cut_off(make_lab(hosts=2, topology="routed"), "packet", btls, verify)
    check(result)
    assert_one_message(result, "do not cross routers", "eth0", "UDP", f" {limit}")


def test_the_timeout_that_the_user_set_holds_beside_tcp(make_lab, verify):
    lab = make_lab(hosts=2, topology="routed")
    words = ["--mca", "btl_rawe_kind", "packet", *SOON, verify, "--quick", "--only", "pt2pt"]
    words = ["-np", 2, "--mca", "btl", "rawe,tcp,self", *words]
    result = until_told(lambda: lab.mpirun(words, timeout=HANG_SECONDS, build=lab.build))
    assert_success(result)
    assert_one_message(result, " 900 ms")


# The rules of a host's firewall that drops UDP. TCP passes.
DROP_UDP = """
table ip firewall {
    chain incoming {
        type filter hook input priority 0
        iifname "eth0" udp dport 32768-60767 drop
    }
}
"""
REJECT_UDP = DROP_UDP.replace("drop", "reject")
# The default of ufw and firewalld.
ANSWERS_ONLY = DROP_UDP.replace("iifname", "ct state established,related accept\n iifname")
MASQUERADE_IPV6 = MASQUERADE.replace("ip protocol", "meta l4proto").replace(" ip ", " ip6 ")


@with_and_without_tcp
@pytest.mark.parametrize(
    "kind, topology, rules",
    [
        ("udp", "pair", DROP_UDP),
        thorough("udp", "pair", REJECT_UDP),
        ("auto", "routed", DROP_UDP),
        ("udp", "pair", ANSWERS_ONLY),
        ("udp", "routed", MASQUERADE),
        thorough("udp", "routed", MASQUERADE_IPV6),
        thorough("auto", "routed", MASQUERADE),
    ],
    ids=[
        "drop",
        "reject",
        "auto-drop",
        "answers-only",
        "masquerade",
        "masquerade-ipv6",
        "auto-masquerade",
    ],
)
def test_a_firewall_and_nat_are_named(make_lab, verify, kind, topology, rules, btls, check, limit):
    lab = make_lab(hosts=2, topology=topology)
    if rules == MASQUERADE_IPV6:
        lab.use_ipv6()
    if rules in (MASQUERADE, MASQUERADE_IPV6):
        lab.at_switch("nft", rules)
    else:
        lab.run(1, ["nft", rules], check=True)
    result = run_cut_off(lab, kind, btls, verify)
    check(result)
    # With auto, the search by raw frames has asked over UDP as well, so another one is brief.
    limit = "500 ms" if kind == "auto" else limit
    said = ("UDP ports:  32768 to 60767", "btl_rawe_udp_port_min", "NAT", "0x88B5", f" {limit}")
    assert_one_message(result, *said)


def test_auto_uses_udp_over_a_router(make_lab, verify):
    """The search by raw frames ends when UDP finds the peer, long before its timeout."""
    words = [*AUTO, "--mca", "btl_rawe_connect_timeout_ms", 600000]
    lab = make_lab(hosts=2, topology="routed")
    assert interfaces_used(lab, *words, verify) == {"eth0/udp"}
