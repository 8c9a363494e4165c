# SPDX-License-Identifier: BSD-3-Clause
"""rawe-dump and the Wireshark dissector show frames as they are, also malformed ones."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, RAWE, assert_success

ROOT = Path(__file__).resolve().parents[3]
DISSECTOR = ROOT / "tools/rawe.lua"
WIRE = (ROOT / "opal/mca/btl/rawe/core/base/rawe_wire.h").read_text(encoding="utf-8")
VERSION = int(re.search(r"define RAWE_WIRE_VERSION (\d+)", WIRE).group(1))
TO, FROM = bytes.fromhex("027261000002"), bytes.fromhex("027261000001")
TYPES = ("DATA", "BULK", "ACK", "PROBE", "CONNECT", "CLOSE", "PING", "PONG", "SLICE")
DATA, BULK, ACK, PROBE, CONNECT, CLOSE, PING, PONG = range(1, 9)
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@pytest.fixture(scope="session")
def dump(build):
    """The path of rawe-dump."""
    program = build / "tools/rawe-dump"
    assert program.exists(), f"{program} is missing: install libpcap-dev and build, test/run does"
    return program


def header(kind, payload_bytes, flags=0, seq=7, ack=100, version=VERSION):
    """A frame header, as doc/protocol.md section 1 draws it."""
    first = version << 4 | kind
    words = (first, flags, 0x1234, 0xABCDEF01, 2 << 20 | 5, seq, ack, payload_bytes, 512)
    return struct.pack(">BBHIIIIHH", *words)


def frame(kind, payload=b"", **fields):
    """A whole frame behind the Ethernet header."""
    return header(kind, len(payload), **fields) + payload


def message(data, tag=65):
    """A MESSAGE fragment, padded to 8 bytes."""
    fragment = struct.pack(">BBHI", 1, tag, len(data), 0) + data
    return fragment + bytes(-len(fragment) % 8)


def ethernet(content, ethertype=ETHERTYPE, pad=True):
    """An Ethernet frame as it comes from a NIC: at least 60 bytes."""
    whole = TO + FROM + struct.pack(">H", ethertype) + content
    return whole + bytes(max(0, 60 - len(whole))) if pad else whole


def group(kind, payload=b"", of=0, flags=0, root=0xFFFF, version=VERSION):
    """A frame of a group, as doc/protocol.md section 13 draws it."""
    words = (version << 4 | kind, flags, 3, 0xABCDEF01, 0x1122334455667788, 7, len(payload))
    return struct.pack(">BBHIQIHHII", *words, root, 100, of) + payload


PART, PUT, VALIDATION, BUNDLE = 2, 3, 4, 5


def batch(
    data_bytes,
    at=0,
    frames=1,
    segment=1420,
    kind=PART,
    what=6000 << 32,
    type_=BULK,
    version=VERSION,
):
    """A packet with this part of a batch, as doc/protocol.md section 4 draws it. `what` is the
    length of the message, or the handle's key."""
    head = struct.pack(">HHIIHHHHHH", 5, 0x1234, at, 100, 0xF010, segment, 0, 0, 0xFE28, 0x5257)
    head += struct.pack(">BBBBIHH", version << 4 | type_, 0, kind, 65, 0xABCDEF01, 2 << 4, 512)
    head += struct.pack(">IIQHIBB", 7, 4, what, 0, 1000, frames, 0)
    total = 20 + len(head) + data_bytes
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, total, 0, 0x4000, 1, 6, 0, 0xFFFFFFFF, 2)
    return ethernet(ip + head + bytes(data_bytes), 0x0800)


def group_batch(data_bytes, at=0, frames=1, segment=1420, of=6000, flags=0, root=0xFFFF):
    """The same of a batch to a group, section 13."""
    head = struct.pack(">HHIIHHHHHH", 3, 0xEF01, at, 100, 0xF010, segment, 0, 0, 0xFE28, 0x5257)
    head += struct.pack(">BBHIQ", VERSION << 4 | 10, flags, root, 0xABCDEF01, 0x1122334455667788)
    head += struct.pack(">IIB11x", 7, of, frames)
    total = 20 + len(head) + data_bytes
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, total, 0, 0x4000, 1, 6, 0, 0xFFFFFFFF, 0xE00000FE)
    return ethernet(ip + head + bytes(data_bytes), 0x0800)


def write_pcap(file, packets, captured=65535):
    """A capture file in the classic format, each packet cut off behind `captured` bytes."""
    with open(file, "wb") as out:
        out.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets):
            kept = packet[:captured]
            out.write(struct.pack("=IIII", 1000, number, len(kept), len(packet)) + kept)
    return file


def lines_of(dump, file, *options):
    """What rawe-dump shows of a file, and what it says in the end."""
    done = subprocess.run([dump, "-r", file, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_each_type_is_shown_with_its_content(dump, tmp_path):
    who = (0xAA0001, 3, 1 << 20 | 9, 0x55667788, 0x4321, 1, 0, 1472, 99)
    identity = struct.pack(">IIIIHBBIQ", *who)
    ping = struct.pack(">IHHQ", 0x55667788, 0x4321, 0, 0xFEDCBA9876543210)
    part = struct.pack(">BBHIII", 2, 65, 10, 4, 1000, 5000) + bytes(10)
    bundle = struct.pack(">BBHIII", 5, 0, 10, 4, 1000, 5000) + bytes(10)
    validation = struct.pack(">BBHIII", 4, 0, 10, 0, 1000, 5000) + bytes(10)
    put = struct.pack(">BBHIQQ", 3, 0, 16, 6, 0x1122334455667788, 4096) + bytes(16)
    expected = [
        (
            frame(DATA, message(b"x" * 18) + message(b"y")),
            "message tag=65 bytes=18 message tag=65 bytes=1",
        ),
        (frame(BULK, part), "part tag=65 message=4 at=1000 bytes=10 of=5000"),
        (frame(BULK, bundle), "bundle tag=0 message=4 at=1000 bytes=10 of=5000"),
        (frame(BULK, validation), "validation at=1000 bytes=10 of=5000"),
        (
            frame(BULK, put, flags=0x11),
            "flags=ACK_NOW,RESENT put handle=6 key=1122.. at=4096 bytes=16",
        ),
        (frame(BULK, part, flags=0x40), "flags=MORE part"),
        (frame(ACK, flags=0x10), "credit=512 len=0 flags=REFUSED"),
        (frame(ACK, bytes([0b01110001, 0b1])), "ack=100 credit=512 len=2 sack=101,105-107,109"),
        (frame(ACK, flags=2), "seq=7 ack=100 credit=512 len=0 flags=PROBE_ANSWER"),
        (frame(PROBE, identity), "seq=7"),
        (
            frame(CONNECT, identity, flags=4),
            "flags=REPLY from rank=3 job=00aa0001 port=4321 key=5566.. conn=9.1 lane=bulk "
            "choice=0 payload_max=1472 incarnation=99",
        ),
        (frame(CLOSE), "ack=100 credit=512 len=0"),
        (frame(CLOSE, flags=0x44), "ack=100 credit=512 len=0 flags=REPLY,FINALIZING"),
        (frame(PING, ping), "len=16 answer_to port=4321 key=5566.. token=fedcba.."),
        (frame(PONG, ping + bytes(100), flags=0x40), "len=116 flags=SERVICED answer_to"),
    ]
    file = write_pcap(tmp_path / "all.pcap", [ethernet(one) for one, _ in expected])
    lines, said = lines_of(dump, file)
    assert len(lines) == len(expected) and "15 frames, 0 of them malformed" in said
    for line, (one, words) in zip(lines, expected):
        assert re.match(r"0\.0000\d\d 02:72:61:00:00:01 > 02:72:61:00:00:02 ", line)
        assert f" {TYPES[(one[0] & 15) - 1]} " in line
        assert "port=1234 key=abcd.. conn=5.2" in line and words in line, line
    # No key or token is shown as a whole.
    text = "".join(lines)
    assert not re.search("abcdef01|55667788|fedcba98", text)


BATCH = [
    (
        batch(3000, frames=3),
        "seq=7-9 ack=100 credit=512 len=3000 frames=1-3 last segment=1420 "
        "part tag=65 message=4 at=1000 bytes=3000 of=6000",
    ),
    (
        batch(2840, at=1420, frames=4),
        "seq=8-9 ack=100 credit=512 len=2840 frames=2-3 segment=1420 part tag=65 message=4 at=2420",
    ),
    (
        batch(10, at=1420, frames=2, kind=PUT, what=0x1122334455667788),
        "seq=8 ack=100 credit=512 len=10 frames=2 last segment=1420 "
        "put handle=4 key=1122.. at=2420 bytes=10",
    ),
    (batch(10, kind=BUNDLE), "bundle tag=65 message=4 at=1000 bytes=10 of=6000"),
    (batch(10, kind=VALIDATION), "validation at=1000 bytes=10 of=6000"),
    (batch(0, type_=CLOSE, segment=0), "CLOSE   port=1234"),
]


def test_packets_of_batches_are_shown(dump, tmp_path):
    lines, said = lines_of(dump, write_pcap(tmp_path / "batch.pcap", [one for one, _ in BATCH]))
    assert "9 frames, 0 of them malformed; 9 of them in 6 batch packets" in said
    assert len(lines) == len(BATCH)
    for line, (_, words) in zip(lines, BATCH):
        assert " batch " in line and "port=1234 key=abcd.. conn=5.2" in line
        assert words in line, line


GROUP = [
    (group(10, b"content", of=5000), "DATA      id=1122.. key=abcd.. member=3 seq=7 len=7 of=5000"),
    (group(10, b"x", 1, 0x11, root=2), "seq=7 root=2 ack=100 len=1 of=1 flags=ASK,RESENT"),
    (group(10), "member=3 seq=7 len=0 of=0"),
    (group(10, b"\0\3abc\0\0\0\1d", 10, 0x20), "len=10 of=10 messages=3,0,1 flags=SHARED"),
    (group(11, struct.pack(">HH", 5, 700)), "HEARTBEAT id=1122.. key=abcd.. member=3 seq=7 len=4"),
    (group(11, struct.pack(">HH", 5, 700)), "asks=5,700"),
    (group(12, bytes([0b01110001, 1]), root=2), "root=2 ack=100 len=2 missing=100,104-106,108"),
    (group(13, flags=2, root=2), "ACK       id=1122.. key=abcd.. member=3 root=2 ack=100 len=0"),
    (group(13, flags=8, root=2) + bytes(4), "flags=CHECKSUM checksum=WRONG"),
]


def test_frames_of_groups_are_shown(dump, tmp_path):
    file = write_pcap(tmp_path / "group.pcap", [ethernet(one) for one, _ in GROUP])
    lines, said = lines_of(dump, file)
    assert f"{len(GROUP)} frames, 0 of them malformed" in said
    for line, (_, words) in zip(lines, GROUP, strict=True):
        assert " group " in line and words in line, line
    assert not re.search("abcdef01|55667788", "".join(lines))


GROUP_BATCH = [
    (group_batch(3000, frames=3), "member=3 seq=7-9 len=3000 of=6000 segment=1420"),
    (group_batch(2840, at=1420, frames=4, flags=1, root=2), "seq=8-9 root=2 ack=100 len=2840"),
    (group_batch(10, flags=1), "seq=7 len=10 of=6000 segment=1420 flags=ASK"),
]


def test_batches_to_groups_are_shown(dump, tmp_path):
    packets = [one for one, _ in GROUP_BATCH]
    lines, said = lines_of(dump, write_pcap(tmp_path / "batch.pcap", packets))
    assert "6 frames, 0 of them malformed; 6 of them in 3 batch packets" in said
    for line, (_, words) in zip(lines, GROUP_BATCH, strict=True):
        assert " batch group DATA      id=1122.. key=abcd.. member=3" in line
        assert words in line, line


def test_other_packets_are_left_out(dump, tmp_path):
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 28, 0, 0, 64, 17, 0, 0x0A000001, 2)
    packets = [ethernet(ip + bytes(8), 0x0800), ethernet(frame(CLOSE))]
    packets.append(ethernet(frame(CLOSE), 0x88B6))
    file = write_pcap(tmp_path / "other.pcap", packets)
    assert len(lines_of(dump, file)[0]) == 1
    assert len(lines_of(dump, file, "-e", "88b6")[0]) == 1
    assert lines_of(dump, file, "-a")[0][0].startswith("1000.00000")


def test_a_full_disk_is_said(dump, tmp_path):
    file = write_pcap(tmp_path / "one.pcap", [ethernet(frame(CLOSE))])
    with open("/dev/full", "wb") as full:
        argv = [dump, "-r", file]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "standard output: it cannot be written" in done.stderr


MALFORMED = [
    (frame(DATA, message(b"x"), version=2), "another wire version"),
    (frame(14), "unknown type or flags"),
    (frame(DATA, flags=0x80), "unknown type or flags"),
    (header(DATA, 2000), "payload longer than the frame"),
    (frame(DATA, bytes([9, 0, 0, 0, 0, 0, 0, 0])), "fragment at 0"),
    (frame(DATA, struct.pack(">BBHI", 1, 65, 100, 0)), "fragment at 0"),
    (frame(DATA, message(bytes(8)) + bytes([2, 0, 0])), "fragment at 16"),
    (frame(CONNECT, bytes(8)), "identity cut short"),
    (frame(PING, bytes(8)), "cut short"),
    (group(10, b"x", of=1, version=2), "another wire version"),
    (group(13, flags=0x80), "unknown type or flags"),
    (group(10, of=1), "lengths that do not add up"),
    (group(10, bytes(20), of=10), "lengths that do not add up"),
    (group(10, b"\0\3abc\0", of=6, flags=0x20), "lengths that do not add up"),
    (group(10, b"\0\3abc", of=6, flags=0x20), "lengths that do not add up"),
    (group(11, bytes(3)), "lengths that do not add up"),
    (group(12), "lengths that do not add up"),
    (group(12, bytes(129)), "lengths that do not add up"),
    (group(13, bytes(1)), "lengths that do not add up"),
    (group(10, bytes(100), of=1000)[:60], "lengths that do not add up"),
]
MALFORMED = [(ethernet(one), words) for one, words in MALFORMED] + [
    (batch(10, version=2), "another wire version"),
    (batch(10, kind=9), "unknown type or flags"),
    (batch(2000, frames=1), "lengths that do not add up"),
    (batch(10, frames=2), "lengths that do not add up"),
    (batch(10, at=10, frames=2), "lengths that do not add up"),
    (batch(10, what=1009 << 32), "lengths that do not add up"),
    (batch(10, segment=0), "lengths that do not add up"),
    (group_batch(10, at=10), "lengths that do not add up"),
    (group_batch(10, of=9), "lengths that do not add up"),
    (group_batch(10, flags=0x20), "unknown type or flags"),
]


@pytest.mark.parametrize("one, words", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_malformed_is_said(dump, tmp_path, one, words):
    file = write_pcap(tmp_path / "bad.pcap", [one, ethernet(frame(CLOSE))])
    lines, _ = lines_of(dump, file)
    assert len(lines) == 2
    assert "MALFORMED" in lines[0] and words in lines[0], lines[0]
    assert "MALFORMED" not in lines[1]


def test_a_frame_shorter_than_a_header(dump, tmp_path):
    file = write_pcap(tmp_path / "short.pcap", [ethernet(bytes(10), pad=False)])
    assert "shorter than a header" in lines_of(dump, file)[0][0]


@pytest.mark.parametrize("captured", range(14, 140, 5))
def test_a_capture_cut_short_is_no_malformed_frame(dump, tmp_path, captured):
    packets = [ethernet(frame(DATA, message(bytes(30)) + message(bytes(30))))]
    packets += [batch(3000, frames=3), batch(10)]
    packets += [ethernet(group(kind, bytes(30), of=30)) for kind in (10, 11, 12)]
    file = write_pcap(tmp_path / "cut.pcap", packets, captured)
    lines, _ = lines_of(dump, file)
    assert lines and not [line for line in lines if "MALFORMED" in line], lines


def test_wrong_use_is_told(dump, tmp_path):
    (tmp_path / "text").write_text("no capture", encoding="ascii")
    for arguments, word in (
        ([], "name an interface"),
        (["-r", tmp_path / "nosuch"], "nosuch"),
        (["-r", tmp_path / "text"], "tcpdump -w"),
        (["-i", "nosuch0"], "nosuch0"),
        (["-r", "x", "-c", "0"], "--count"),
        (["-r", "x", "-e", "zz"], "--ethertype"),
    ):
        done = subprocess.run([dump, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and word in done.stderr, done.stderr


def capture_a_job(make_lab, build, verify, file, *options):
    """Run a job over a network with loss, with tcpdump on host 1."""
    lab = make_lab(hosts=2, loss=2)
    capture = lab.capture(1, file)
    effort = ["--quick", "--scale", "0.05", "--only", "pt2pt"]
    result = lab.mpirun(["-np", 2, *RAWE, *options, verify, *effort], HANG_SECONDS, build=build)
    assert_success(result)
    capture.end()
    return file


def types_in(lines):
    """How many frames of each type are in the lines of rawe-dump."""
    words = [re.search(r"> \S+ (?:batch )?(\w+)", line).group(1) for line in lines]
    return {kind: words.count(kind) for kind in set(words)}


def test_frames_of_a_job_with_checksums(make_lab, build, verify, dump, tmp_path):
    checksum = ["--mca", "btl_rawe_checksum", "1"]
    file = capture_a_job(make_lab, build, verify, tmp_path / "job.pcap", *checksum)
    lines, said = lines_of(dump, file)
    assert " 0 of them malformed" in said
    checked = [line for line in lines if "CHECKSUM" in line]
    assert len(checked) > 50
    assert all("checksum=right" in line for line in checked if "capture ends" not in line)
    assert all(kind in types_in(lines) for kind in ("DATA", "BULK", "ACK", "CONNECT", "PING"))
    # One bit in the content of a frame that has a checksum.
    content = bytearray(file.read_bytes())
    at = content.index(TO + FROM + struct.pack(">HB", ETHERTYPE, VERSION << 4 | DATA))
    content[at + 14 + 24 + 8] ^= 1
    file.write_bytes(content)
    again, _ = lines_of(dump, file)
    assert sum("checksum=WRONG" in line for line in again) == 1


def test_a_running_interface_is_shown(make_lab, dump):
    lab = make_lab(hosts=2)
    process = subprocess.Popen(
        lab.host_command(1, [dump, "-i", "eth0", "-c", "1"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "listening on eth0" in process.stderr.readline()
    address = bytes.fromhex(lab.nic(1).mac.replace(":", ""))
    packet = (address + FROM + b"\x88\xb5" + frame(CLOSE)).hex()
    send = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
        f"s.bind(('eth0', 0)); s.send(bytes.fromhex('{packet}'))"
    )
    lab.run(0, ["/usr/bin/python3", "-c", send], check=True)
    output = process.communicate(timeout=HANG_SECONDS)[0]
    assert process.returncode == 0 and "CLOSE" in output


def tshark(file, *options):
    """Lines that tshark shows with the dissector.

    Since Wireshark 4.4 it loads no script for root. Another user may not enter the directories of
    the two files, which are therefore opened here.
    """
    with DISSECTOR.open("rb") as script, file.open("rb") as capture:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "tshark", "-n"]
            + ["-X", f"lua_script:/dev/fd/{script.fileno()}", "-r", "-", *options],
            stdin=capture,
            pass_fds=[script.fileno()],
            env={**os.environ, "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@needs_tshark
def test_the_dissector_sees_what_rawe_dump_sees(make_lab, build, verify, dump, tmp_path):
    file = capture_a_job(make_lab, build, verify, tmp_path / "job.pcap")
    lines, _ = lines_of(dump, file)
    found = {}
    for line in tshark(file, "-T", "fields", "-e", "rawe.type"):
        for number in filter(None, line.split(",")):
            kind = TYPES[int(number) - 1]
            found[kind] = found.get(kind, 0) + 1
    assert found == types_in(lines) and found["BULK"] > 100
    assert tshark(file, "-Y", "rawe.malformed") == []
    resent = sum(
        word == "1"
        for line in tshark(file, "-T", "fields", "-e", "rawe.resent")
        for word in line.replace("True", "1").split(",")
    )
    assert resent == sum("RESENT" in line for line in lines)


# Of unknown flags the dissector shows those that it knows.
MARKED = [one for one, _ in MALFORMED if one[15] != 0x80]


@needs_tshark
@pytest.mark.parametrize("one", MARKED, ids=range(len(MARKED)))
def test_the_dissector_marks_what_is_malformed(tmp_path, one):
    file = write_pcap(tmp_path / "bad.pcap", [one, ethernet(frame(CLOSE))])
    assert len(tshark(file, "-Y", "rawe.malformed")) == 1


@needs_tshark
def test_the_dissector_reads_the_fields(tmp_path):
    put = struct.pack(">BBHIQQ", 3, 0, 16, 6, 0x1122334455667788, 4096) + bytes(16)
    packed = batch(3000, at=1420, frames=4, kind=PUT, what=0x1122334455667788)
    file = write_pcap(tmp_path / "put.pcap", [ethernet(frame(BULK, put)), packed])
    expected = {
        "seq": ("7", "8"),
        "conn.index": ("5", "5"),
        "conn.generation": ("2", "2"),
        "put.handle": ("6", "4"),
        "put.key": ("0x1122334455667788", "0x1122334455667788"),
        "put.at": ("4096", "2420"),
        "fragment.len": ("16", "3000"),
        "batch.at": ("", "1420"),
        "batch.segment": ("", "1420"),
        "batch.frames": ("", "4"),
        "batch.here": ("", "3"),
    }
    options = [word for name in expected for word in ("-e", f"rawe.{name}")]
    lines = tshark(file, "-T", "fields", *options)
    assert [line.split("\t") for line in lines] == [list(one) for one in zip(*expected.values())]


@needs_tshark
def test_the_dissector_reads_frames_of_groups(tmp_path):
    packets = [
        group(10, b"content", of=5000, flags=0x11, root=2),
        group(11, struct.pack(">HH", 5, 700)),
        group(12, bytes([0x71, 1]), root=2),
        group(13, flags=10, root=2) + bytes(4),
        group(10, b"\0\3abc\0\2de", of=9, flags=0x20),
    ]
    file = write_pcap(tmp_path / "group.pcap", [ethernet(one) for one in packets])
    assert tshark(file, "-Y", "rawe.malformed") == []
    expected = {
        "type": ("10", "11", "12", "13", "10"),
        "group.member": ("3",) * 5,
        "group.key": ("0xabcdef01",) * 5,
        "group.id": ("0x1122334455667788",) * 5,
        "group.root": ("2", "65535", "2", "2", "65535"),
        "ack": ("100",) * 5,
        "len": ("7", "4", "2", "0", "9"),
        "group.of": ("5000", "0", "0", "0", "9"),
        "data": (b"content".hex(), "", "", "", "616263,6465"),
        "group.message": ("", "", "", "", "3,2"),
        "group.asks": ("", "5,700", "", "", ""),
        "group.missing": ("", "", "7101", "", ""),
        "checksum": ("", "", "", "0x00000000", ""),
    }
    options = [word for name in expected for word in ("-e", f"rawe.{name}")]
    lines = tshark(file, "-T", "fields", *options)
    assert [line.split("\t") for line in lines] == [list(one) for one in zip(*expected.values())]
    flags = ("resent", "group.ask", "group.subtree", "group.excluded", "has_checksum")
    flags += ("group.shared",)
    options = [word for name in flags for word in ("-e", f"rawe.{name}")]
    lines = tshark(file, "-T", "fields", *options)
    shown = [line.replace("True", "1").replace("False", "0").split("\t") for line in lines]
    assert shown == [list(one) for one in ("110000", "000000", "000000", "001010", "000001")]


@needs_tshark
def test_the_dissector_leaves_tcp_alone(tmp_path):
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40, 0, 0x4000, 64, 6, 0, 0x0A000001, 0x0A000002)
    tcp = struct.pack(">HHIIHHHH", 4000, 5000, 1, 0, 0x5002, 1000, 0, 0)
    file = write_pcap(tmp_path / "tcp.pcap", [ethernet(ip + tcp, 0x0800), batch(10)])
    fields = ["-T", "fields", "-e", "tcp.dstport", "-e", "rawe.type"]
    assert [line.strip() for line in tshark(file, *fields)] == ["5000", "2"]
