# SPDX-License-Identifier: BSD-3-Clause
"""Checksums of plain frames and of batches."""

import struct

ETH, IPV4, PLAIN, CRC = 14, 20, 24, 4  # bytes
LENGTH_AT = 20  # in a frame header
TCP = 6


def _table():
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = _table()


def crc32c(data):
    """Return the CRC32C of RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def internet(data):
    """Return the Internet checksum of RFC 1071."""
    data = bytes(data) + bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _seal_batch(frame):
    ip, tcp = ETH, ETH + IPV4
    struct.pack_into(">H", frame, ip + 10, 0)
    struct.pack_into(">H", frame, ip + 10, internet(frame[ip:tcp]))
    end = ip + struct.unpack_from(">H", frame, ip + 2)[0]
    struct.pack_into(">H", frame, tcp + 16, 0)
    pseudo = frame[ip + 12 : tcp] + struct.pack(">HH", TCP, end - tcp)
    struct.pack_into(">H", frame, tcp + 16, internet(pseudo + frame[tcp:end]))


def seal(frame):
    """Return the frame with correct checksums; unchanged if it is too short for them."""
    frame = bytearray(frame)
    if frame[12:14] == b"\x08\x00":
        if len(frame) >= ETH + IPV4 + 18:
            _seal_batch(frame)
    elif len(frame) >= ETH + PLAIN:
        end = ETH + PLAIN + struct.unpack_from(">H", frame, ETH + LENGTH_AT)[0]
        if end + CRC <= len(frame):
            struct.pack_into(">I", frame, end, crc32c(frame[ETH:end]))
    return bytes(frame)
