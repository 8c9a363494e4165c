# SPDX-License-Identifier: BSD-3-Clause
"""The Wireshark dissector shows the fields of frames, and marks malformed ones."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import ETHERTYPE, HANG_SECONDS, RAWE, assert_success

from rawelab.capture import crc32c

ROOT = Path(__file__).resolve().parents[3]
DISSECTOR = ROOT / "tools/rawe.lua"
WIRE = (ROOT / "opal/mca/btl/rawe/core/base/rawe_wire.h").read_text(encoding="utf-8")
VERSION = int(re.search(r"define RAWE_WIRE_VERSION (\d+)", WIRE).group(1)) & 0xF
TO, FROM = bytes.fromhex("027261000002"), bytes.fromhex("027261000001")
DATA, BULK, ACK, PROBE, CONNECT, CLOSE, PING, PONG = range(1, 9)
GROUP_DATA = 10
pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def header(kind, payload_bytes, flags=0, seq=7, ack=100, version=VERSION):
    """Return a frame header, as drawn in doc/protocol.md, section 1."""
    first = version << 4 | kind
    words = (first, flags, 0x1234, 0xABCDEF01, 2 << 20 | 5, seq, ack, payload_bytes, 512)
    return struct.pack(">BBHIIIIHH", *words)


def frame(kind, payload=b"", **fields):
    """Return a whole frame without its Ethernet header."""
    whole = header(kind, len(payload), **fields) + payload
    return whole if kind in (PING, PONG) else whole + struct.pack(">I", crc32c(whole))


def message(data):
    """Return a MESSAGE fragment, padded to 4 bytes."""
    fragment = struct.pack(">BBH", 1, 65, len(data)) + data
    return fragment + bytes(-len(fragment) % 4)


def ethernet(content, ethertype=ETHERTYPE, pad=True):
    """Return an Ethernet frame as a NIC sends it: at least 60 bytes."""
    whole = TO + FROM + struct.pack(">H", ethertype) + content
    return whole + bytes(max(0, 60 - len(whole))) if pad else whole


def group(payload=b"", of=0, flags=0, version=VERSION):
    """Return a frame of a group, as drawn in doc/protocol.md, section 13."""
    words = (version << 4 | GROUP_DATA, flags, 3, 0x1122334455667788, 7, of, len(payload), 0)
    return struct.pack(">BBHQIIHH", *words) + payload + bytes(4)


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
    """Return a packet with this part of a batch, as drawn in doc/protocol.md, section 4. `what` is
    the length of the message, or the key of the handle."""
    head = struct.pack(">HHIIHHHHHH", 5, 0x1234, at, 100, 0xF010, segment, 0, 0, 0xFE28, 0x5257)
    head += struct.pack(">BBBBIHH", version << 4 | type_, 0, kind, 65, 0xABCDEF01, 2 << 4, 512)
    head += struct.pack(">IIQHIBB", 7, 4, what, 0, 1000, frames, 0)
    total = 20 + len(head) + data_bytes
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, total, 0, 0x4000, 1, 6, 0, 0xFFFFFFFF, 2)
    return ethernet(ip + head + bytes(data_bytes), 0x0800)


def group_batch(data_bytes, at=0, frames=1, of=6000, flags=0):
    """Return a packet with a part of a batch to a group, as drawn in section 13."""
    head = struct.pack(">HHIIHHHHHH", 3, 0x7788, at, 0, 0xF010, 1420, 0, 0, 0xFE28, 0x5257)
    head += struct.pack(">BBHIQ", VERSION << 4 | 10, flags, 0, 0, 0x1122334455667788)
    head += struct.pack(">IIB11x", 7, of, frames)
    total = 20 + len(head) + data_bytes
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, total, 0, 0x4000, 1, 6, 0, 0xFFFFFFFF, 0xE00000FE)
    return ethernet(ip + head + bytes(data_bytes), 0x0800)


def write_pcap(file, packets):
    """Write a capture file in the classic format."""
    with open(file, "wb") as out:
        out.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in enumerate(packets):
            out.write(struct.pack("=IIII", 1000, number, len(packet), len(packet)) + packet)
    return file


def tshark(file, *options):
    """Return the output lines of tshark with the dissector.

    Since Wireshark 4.4, tshark loads no scripts as root. Both files are opened here because another
    user may not have access to their directories.
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


def fields(file, names):
    """Return what tshark shows for each packet: a list of values for each name."""
    options = [word for name in names for word in ("-e", f"rawe.{name}")]
    truth = {"True": "1", "False": "0"}  # as some versions show it
    return [
        [[truth.get(one, one) for one in value.split(",")] for value in line.split("\t")]
        for line in tshark(file, "-T", "fields", *options)
    ]


WHO = struct.pack(">IIIIHBBIQ", 0xAA0001, 3, 1 << 20 | 9, 0x55667788, 0x4321, 1, 0, 1472, 99)
ANSWER_TO = struct.pack(">IHHQ", 0x55667788, 0x4321, 0, 0xFEDCBA9876543210)
KEY = 0x1122334455667788
IN_MESSAGE = {"part.message": "4", "part.at": "1000", "part.of": "5000", "fragment.len": "10"}
IN_BATCH = {"batch.segment": "1420", "part.message": "4", "part.of": "6000"}
IN_MEMORY = {"put.handle": "6", "put.key": f"{KEY:#x}", "put.at": "4096", "fragment.len": "16"}
SENDER = {"group.member": "3", "group.id": f"{KEY:#x}"}


def in_message(kind):
    """Return a BULK frame with a fragment of this kind, and the fields shown."""
    fragment = struct.pack(">BBHIII", kind, 65, 10, 4, 1000, 5000) + bytes(10)
    shown = {"type": "2", "fragment": str(kind), "fragment.tag": "65", **IN_MESSAGE}
    return frame(BULK, fragment), shown


PUT_FRAGMENT = struct.pack(">BBHIQQ", 3, 0, 16, 6, KEY, 4096) + bytes(16)
CONTROL = struct.pack(">BBHIQQ", 9, 0, 16, 0, KEY, 0) + struct.pack(">BBHIQ", 3, 1, 2, 77, 0)
CONNECTED = [
    (
        frame(DATA, CONTROL),
        {"fragment": "9", "put.key": f"{KEY:#x}", "control": "3", "control.seq": "77"},
    ),
    (
        frame(DATA, message(b"x" * 18) + message(b"y")),
        {"type": "1", "fragment.tag": "65,65", "fragment.len": "18,1"},
    ),
    in_message(PART),
    in_message(BUNDLE),
    in_message(VALIDATION),
    (frame(BULK, PUT_FRAGMENT, flags=0x11), {"ack_now": "1", "resent": "1", **IN_MEMORY}),
    (frame(BULK, PUT_FRAGMENT, flags=0x40), {"more": "1", "resent": "0"}),
    (frame(ACK, flags=0x10), {"type": "3", "credit": "512", "len": "0", "refused": "1"}),
    (frame(ACK, bytes([0x71, 1])), {"ack": "100", "len": "2", "sack": "7101"}),
    (frame(ACK, flags=2), {"seq": "7", "probe_answer": "1"}),
    (frame(PROBE, WHO), {"type": "4", "seq": "7", "connect.rank": "3"}),
    (
        frame(CONNECT, WHO, flags=4),
        {
            "type": "5",
            "reply": "1",
            "connect.job": "0x00aa0001",
            "connect.rank": "3",
            "connect.conn": "0x00100009",
            "connect.key": "0x55667788",
            "connect.port": "0x4321",
            "connect.lane": "1",
            "connect.choice": "0",
            "connect.payload_max": "1472",
            "connect.incarnation": "99",
        },
    ),
    (frame(CLOSE, flags=0x44), {"type": "6", "reply": "1", "finalizing": "1"}),
    (frame(CLOSE, flags=0x01), {"type": "6", "given_up": "1"}),
    (frame(ACK), {"checksum": f"{crc32c(header(ACK, 0)):#010x}"}),
    (
        frame(PING, ANSWER_TO),
        {
            "type": "7",
            "ping.port": "0x4321",
            "ping.key": "0x55667788",
            "ping.token": "0xfedcba9876543210",
        },
    ),
    (frame(PONG, ANSWER_TO + bytes(100), flags=0x40), {"type": "8", "len": "116", "serviced": "1"}),
    (frame(PONG, ANSWER_TO, flags=0x01), {"type": "8", "given_up": "1"}),
]
CONNECTED = [(ethernet(one), shown) for one, shown in CONNECTED] + [
    (
        batch(3000, frames=3),
        {"seq": "7", "batch.here": "3", "batch.frames": "3", "part.at": "1000", **IN_BATCH},
    ),
    (
        batch(2840, at=1420, frames=4),
        {"seq": "8", "batch.at": "1420", "batch.here": "2", "part.at": "2420", **IN_BATCH},
    ),
    (
        batch(10, at=1420, frames=2, kind=PUT, what=KEY),
        {"seq": "8", "put.handle": "4", "put.key": f"{KEY:#x}", "put.at": "2420"},
    ),
    (batch(10, kind=BUNDLE), {"fragment": "5", "fragment.tag": "65", "fragment.len": "10"}),
    (batch(10, kind=VALIDATION), {"fragment": "4"}),
    (batch(0, type_=CLOSE, segment=0), {"type": "6"}),
]
TO_GROUPS = [
    (
        group(b"content", of=5000, flags=3),
        {"len": "7", "group.of": "5000", "group.ask": "1", "group.last": "1"},
    ),
    (group(b"content", of=5000), {"data": b"content".hex(), "checksum": "0x00000000"}),
    (group(), {"len": "0", "group.of": "0", "group.ask": "0", "group.shared": "0"}),
    (
        group(b"\0\3abc\0\0\0\1d", of=10, flags=0x20),
        {"group.shared": "1", "group.message": "3,0,1", "data": "616263,64"},
    ),
]
TO_GROUPS = [(ethernet(one), {"seq": "7", **shown}) for one, shown in TO_GROUPS] + [
    (group_batch(3000, frames=3), {"seq": "7", "batch.here": "3", "group.of": "6000"}),
    (
        group_batch(2840, at=1420, frames=4, flags=1),
        {"seq": "8", "batch.at": "1420", "batch.here": "2", "group.ask": "1", "group.last": "0"},
    ),
]
RECEIVER = {"port": "0x1234", "key": "0xabcdef01", "conn.index": "5", "conn.generation": "2"}
FRAMES = [(one, {**RECEIVER, **shown}) for one, shown in CONNECTED]
FRAMES += [(one, {**SENDER, **shown}) for one, shown in TO_GROUPS]


def test_the_fields_of_frames_are_shown(tmp_path):
    file = write_pcap(tmp_path / "frames.pcap", [one for one, _ in FRAMES])
    names = sorted({name for _, shown in FRAMES for name in shown})
    for values, (_, shown) in zip(fields(file, names), FRAMES, strict=True):
        found = {name: ",".join(value) for name, value in zip(names, values)}
        assert {name: found[name] for name in shown} == shown
    assert tshark(file, "-Y", "rawe.malformed") == []


MALFORMED = [
    frame(DATA, message(b"x"), version=2),
    frame(14),
    header(DATA, 2000),
    frame(DATA, bytes([10, 0, 0, 0, 0, 0, 0, 0])),
    frame(DATA, struct.pack(">BBHI", 1, 65, 100, 0)),
    frame(DATA, message(bytes(8)) + bytes([2, 0, 0])),
    frame(CONNECT, bytes(8)),
    frame(PING, bytes(8)),
    group(b"x", of=1, version=2),
    group(of=1),
    group(bytes(20), of=10),
    group(b"\0\3abc\0", of=6, flags=0x20),
    group(b"\0\3abc", of=6, flags=0x20),
    group(bytes(100), of=1000)[:60],
]
MALFORMED = [ethernet(one) for one in MALFORMED] + [
    batch(10, version=2),
    batch(10, kind=10),
    batch(2000, frames=1),
    batch(10, frames=2),
    batch(10, at=10, frames=2),
    batch(10, what=1009 << 32),
    batch(10, segment=0),
    group_batch(10, at=10),
    group_batch(10, of=9),
    group_batch(10, flags=0x20),
    ethernet(bytes(10), pad=False),
]


def test_what_is_malformed_is_marked(tmp_path):
    packets = [packet for one in MALFORMED for packet in (one, ethernet(frame(CLOSE)))]
    file = write_pcap(tmp_path / "bad.pcap", packets)
    marked = tshark(file, "-Y", "rawe.malformed", "-T", "fields", "-e", "frame.number")
    assert [int(number) for number in marked] == list(range(1, len(packets), 2))


@pytest.mark.parametrize(
    "kind, nic, ipv6",
    [
        ("packet", "whole", False),
        ("udp", "whole", False),
        ("udp", "plain", False),
        ("udp", "plain", True),
    ],
)
def test_the_frames_of_a_job_are_right(make_lab, build, verify, tmp_path, kind, nic, ipv6):
    """The network loses frames, so that retransmissions are among them."""
    lab = make_lab(hosts=2, loss=2, nic=nic)
    if ipv6:
        lab.use_ipv6()
    capture = lab.capture(1, tmp_path / "job.pcap")
    job = ["--mca", "btl_rawe_kind", kind, verify, "--quick", "--scale", "0.05", "--only", "pt2pt"]
    assert_success(lab.mpirun(["-np", 2, *RAWE, *job], HANG_SECONDS, build=build))
    capture.end()
    types, resent = zip(*fields(tmp_path / "job.pcap", ["type", "resent"]))
    found = [int(one) for shown in types for one in shown if one]
    assert set(found) >= {DATA, BULK, ACK, CONNECT, PING} and found.count(BULK) > 100
    assert any("1" in shown for shown in resent)
    assert tshark(tmp_path / "job.pcap", "-Y", "rawe.malformed") == []


def test_the_dissector_leaves_tcp_alone(tmp_path):
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40, 0, 0x4000, 64, 6, 0, 0x0A000001, 0x0A000002)
    tcp = struct.pack(">HHIIHHHH", 4000, 5000, 1, 0, 0x5002, 1000, 0, 0)
    file = write_pcap(tmp_path / "tcp.pcap", [ethernet(ip + tcp, 0x0800), batch(10)])
    fields = ["-T", "fields", "-e", "tcp.dstport", "-e", "rawe.type"]
    assert [line.strip() for line in tshark(file, *fields)] == ["5000", "2"]
