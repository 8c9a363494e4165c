# SPDX-License-Identifier: BSD-3-Clause
"""Captures frames at a host's NIC with tcpdump, detects missing frames, reseals changed ones."""

import re
import signal
import struct
import subprocess
import time
from pathlib import Path

from .command import LabError

# Size of the kernel's buffer: on a busy machine, tcpdump may not be scheduled for a long time.
BUFFER_KIB = 65536
END_SECONDS = 60
COUNTS = re.compile(
    r"(\d+) packets? captured,?\s+(\d+) packets? received by filter,?\s+"
    r"(\d+) packets? dropped by kernel"
)


def command(device, file, expression=(), count=None):
    """Return the tcpdump command that, run on a host, writes a pcap file."""
    limit = ["-c", str(count)] if count else []
    # Unbuffered, and as root: tcpdump's own user could not write to the tests' directories.
    argv = ["tcpdump", "-Z", "root", "-i", device, "-B", str(BUFFER_KIB), "-U", "-n"]
    return [*argv, "-w", str(file), *limit, *expression]


def packets(file):
    """Yield (content, length on the wire) of each packet in a pcap file of tcpdump."""
    content, at = Path(file).read_bytes(), 24
    while at + 16 <= len(content):
        kept, length = struct.unpack_from("=II", content, at + 8)
        yield content[at + 16 : at + 16 + kept], length
        at += 16 + kept


class Capture:
    """A tcpdump that is listening when the constructor returns; end() or stop() ends it."""

    def __init__(self, lab, host, nic, file, expression=(), count=None):
        """Start tcpdump, which ends after `count` frames if that is given."""
        self.where = f"{host.name} {nic.device}"
        self.said = ""  # tcpdump's output, without the counts that _counts() requests
        argv = lab.host_command(host, command(nic.device, file, expression, count))
        self._process = subprocess.Popen(
            argv, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        # Wait until tcpdump prints "listening on", before which it misses frames, or ends.
        for line in self._process.stderr:
            self.said += line
            if "listening on" in line:
                return
        self._process.wait()
        raise LabError(f"tcpdump on {self.where} did not start: {self.said.strip()}")

    def poll(self):
        """Return tcpdump's exit status, or None while it is capturing."""
        return self._process.poll()

    def wait(self, timeout=None):
        """Wait until tcpdump ends, like Popen.wait()."""
        return self._process.wait(timeout)

    def _counts(self):
        """Return the numbers of frames in the file, accepted by the kernel, and dropped by it."""
        self._process.send_signal(signal.SIGUSR1)
        line = self._process.stderr.readline()
        found = COUNTS.search(line)
        if found is None:  # tcpdump has ended, and the counts are in its summary
            self.said += line
            return None
        return tuple(map(int, found.groups()))

    def end(self):
        """End tcpdump once the file holds every frame; return the number of frames.

        Call this when no more frames arrive. Raises LabError if the file lacks frames.
        """
        deadline = time.monotonic() + END_SECONDS
        # The kernel passes frames to tcpdump in blocks, the last one after a timeout, and tcpdump
        # does not read pending frames when a signal ends it.
        while self.poll() is None:
            counts = self._counts()
            if counts is None or counts[0] + counts[2] >= counts[1]:
                break
            if time.monotonic() > deadline:
                raise LabError(f"tcpdump on {self.where} has not caught up: {counts}")
            time.sleep(0.05)
        self.stop()
        found = COUNTS.search(self.said)
        if found is None or int(found.group(3)) > 0:
            raise LabError(f"tcpdump on {self.where} has lost frames: {self.said.strip()}")
        return int(found.group(1))

    def stop(self):
        """End tcpdump now, even if the file lacks frames."""
        if self.poll() is None:
            self._process.terminate()
        self.said += self._process.communicate()[1]


# ---- checksums of plain frames and of batches ----

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
    """Return the frame with correct checksums, or unchanged if it is too short for any."""
    frame = bytearray(frame)
    if frame[12:14] == b"\x08\x00":
        if len(frame) >= ETH + IPV4 + 18:
            _seal_batch(frame)
    elif len(frame) >= ETH + PLAIN:
        end = ETH + PLAIN + struct.unpack_from(">H", frame, ETH + LENGTH_AT)[0]
        if end + CRC <= len(frame):
            struct.pack_into(">I", frame, end, crc32c(frame[ETH:end]))
    return bytes(frame)
