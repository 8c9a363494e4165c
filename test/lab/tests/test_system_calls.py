# SPDX-License-Identifier: BSD-3-Clause
"""System calls per message in a program that computes between its messages."""

import re

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show

TRACE = 'exec strace -f -c -U name,calls -o "$0.$OMPI_COMM_WORLD_RANK" "$@"'
SET_UP = 60  # calls at the start of a process


def counted(file):
    """Return how many times a process made each system call, by name."""
    lines = re.findall(r"^(\w+) +(\d+)$", file.read_text(), re.MULTILINE)
    return {name: int(number) for name, number in lines}


@pytest.mark.parametrize("size", [64, 16384])
def test_a_message_sets_no_timer_and_wakes_no_thread(make_lab, build, tmp_path, size):
    calls = tmp_path / "calls"
    program = build / "bench/programs/after-computing"
    words = ["sh", "-c", TRACE, calls, program, "exchange", 1000, 1 << 20, 3, size]
    result = make_lab().mpirun(["-np", 2, *RAWE, *words], timeout=HANG_SECONDS, build=build)
    assert_success(result)
    rounds = re.search(rf"^ *{size} +(\d+) ", result.output, re.MULTILINE)
    assert rounds is not None, show(result)
    for rank in range(2):
        found = counted(calls.with_name(f"calls.{rank}"))
        waking = {name: found.get(name, 0) for name in ("timerfd_settime", "epoll_ctl", "write")}
        assert sum(waking.values()) < SET_UP + int(rounds.group(1)) / 20, waking
        # One call sends the message, and at most one sends its acknowledgement.
        sending = found.get("sendto", 0) + found.get("sendmsg", 0)
        assert sending < SET_UP + 2.5 * int(rounds.group(1)), found
