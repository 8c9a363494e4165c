# SPDX-License-Identifier: BSD-3-Clause
"""Commands and their output as messages on a stream: the protocol of the agent.

    0       4      5         9
    | job   | kind | length  | payload ...      big endian

START opens a job with a number that the client chooses; its payload is JSON: argv, env, cwd. The
agent answers with any number of OUT and ERR and ends the job with EXIT: JSON, {"status": N} or
{"error": TEXT}. SIGNAL has the signal's number in one byte, for the job's process group.
"""

import json
import struct

HEADER = struct.Struct("!IBI")
START, OUT, ERR, EXIT, SIGNAL = range(1, 6)
PORT = 7000  # of the agent, on the control network


def encode(job, kind, payload=b""):
    """Return the bytes of a message; encode a dictionary as JSON."""
    if isinstance(payload, dict):
        payload = json.dumps(payload).encode()
    return HEADER.pack(job, kind, len(payload)) + payload


def read(read_bytes):
    """Return the next message as (job, kind, payload), or None at the end of the stream.

    read_bytes(n) returns up to n bytes, none at the end.
    """

    def exactly(count):
        data = b""
        while len(data) < count:
            piece = read_bytes(count - len(data))
            if not piece:
                return None
            data += piece
        return data

    header = exactly(HEADER.size)
    if header is None:
        return None
    job, kind, length = HEADER.unpack(header)
    payload = exactly(length)
    return None if payload is None else (job, kind, payload)
