# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the small commands of bench/ on invented outputs, and of tool.py."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

from benchlib import BenchError, page, prepare, tool

BENCH = Path(__file__).resolve().parents[2]
MEMORY = """core memory peers=4 window_frames=512 frames_limit=1000 in_flight=10 bytes=64
core memory state=endpoint heap_bytes=100
core memory state=opened heap_bytes=400 resident_bytes=500
core memory state=connected heap_bytes=4400
core memory state=both heap_bytes=4800
core memory state=active heap_bytes=14400
"""


MAPS = """55c238eeb000-55c238eec000 r--p 00000000 fe:00 12 /usr/bin/rawe-imb
7f0000000000-7f0001000000 rw-s 00000000 00:08 31 socket:[31]
7f0002000000-7f0002040000 rw-s 00000000 00:08 32 socket:[32]
7fffc7e52000-7fffc7e73000 rw-p 00000000 00:00 0 [stack]
7fffc7f52000-7fffc7f73000 rw-p 00000000 00:00 0
"""
PACKET = """sk               RefCnt Type Proto  Iface R Rmem   User   Inode
00000000a1 3      3    88b5   2     1 0      0      31
00000000a2 3      3    0800   2     1 2304   0      32
"""


def script(name):
    """Import a command of bench/ as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # its data classes are looked up there
    loader.exec_module(module)
    return module


def test_instructions__reads_the_total_of_callgrind():
    assert script("instructions").instructions("events: Ir\nsummary: 3391424\n") == 3391424


@pytest.mark.parametrize("listing", ["events: Ir\n", "summary: 0\n"])
def test_instructions__nothing_counted_is_an_error(listing):
    with pytest.raises(BenchError, match="inlined"):
        script("instructions").instructions(listing)


# The counted function is at 0x1000, the link's at 0x2000. The first call of the former calls
# another function, which calls the link; the link touches 0x9000.
LACKEY = """==1== Lackey, an example Valgrind tool
I  00004000,5
 L 00009000,8
 S 1ffe0008,8
I  00001000,4
 M 00008000,8
I  00001004,5
 S 1ffdfff8,8
I  00003000,4
 L 0000803c,8
I  00003004,2
 L 00008100,8
 S 1ffdfff0,8
I  00002000,4
 L 00009000,8
I  00002004,5
 S 1ffdffe8,8
I  00004100,1
 L 1ffdffe8,8
I  00002009,1
 L 1ffdfff0,8
I  00003006,1
 L 1ffdfff8,8
I  00001009,1
 L 1ffe0008,8
I  00004005,5
 L 00009000,8
 S 1ffe0008,8
I  00001000,4
I  00001004,5
 S 1ffdfff8,8
I  00003000,4
 L 1ffdfff8,8
I  00001009,1
 L 1ffe0008,8
I  0000400a,4
 L 00009000,8
"""


def test_instructions__lines_of_each_message_without_the_link():
    command = script("instructions")
    calls = list(command.calls(LACKEY.splitlines(), range(0x1000, 0x1010), range(0x2000, 0x2010)))
    functions = command.functions_of("3000 10 T f\n1000 10 t counted\n2000 10 t link\n", 0)
    objects = [("conn", range(0x8000, 0x8200)), ("conn->tx", range(0x8000, 0x8040))]
    count, rows = command.touched(
        calls, command.finder(functions, "libraries"), command.finder(objects, "other memory")
    )
    assert count == 2
    assert rows["code, lines"] == 2 and rows["code, pages"] == 2  # in both messages
    assert rows["code: f"] == 1 and "code: link" not in rows and "code: libraries" not in rows
    # in the first message: 0x8000, 0x8040 (the second half of an access), 0x8100
    assert rows["data: conn->tx"] == 1 and rows["data: conn"] == 0.5
    assert rows["data: stack"] == (2 + 2) / 2 and rows["data, lines"] == (5 + 2) / 2
    assert "data: other memory" not in rows


def test_instructions__table_of_lines_begins_with_the_sums():
    sent = {"code, lines": 5.0, "code: a": 1.0, "code: b": 4.0}
    heads, *lines = script("instructions").lines_table({"send": sent, "receive": {}}, True)
    assert heads[1:] == ["send", "receive"] and lines[0] == ["code, lines", "5.0", "0.0"]
    assert [line[0] for line in lines[5:]] == ["code: b", "code: a"]


def test_memory__adds_the_endpoint_and_names_the_bound():
    lines, bound = script("memory").table(MEMORY)
    assert [line[1] for line in lines[1:]] == ["100", "500", "4500", "4900", "14500"]
    assert lines[2][2] == "600" and lines[-1][0] == "and 10 messages of 64 B in flight"
    # 4500 idle, and 512 frames of 1000 bytes each
    assert "512 frames of 1000 bytes: 504 KiB" in bound and "1000 frames" in bound


def test_many_ranks__reads_rings_and_sockets_from_proc():
    tool = script("many-ranks")
    assert tool.ring_bytes(MAPS) == (16 << 20) + (256 << 10)
    assert tool.sockets(PACKET) == (2, 2304)
    assert tool.sockets(PACKET.splitlines()[0]) == (0, 0)
    assert tool.rollup("Rss:  8 kB\nPss:     12 kB\n", "Pss") == 12 << 10


def test_many_ranks__waits_for_the_time_of_one_byte():
    head = "# Benchmarking PingPong\n# #processes = 2\n  #bytes #repetitions t[usec] Mbytes/sec\n"
    pair_us = script("many-ranks").pair_us
    assert pair_us(f"{head}  0 1000 1.75 0.00\n") is None
    assert pair_us(f"{head}  0 1000 1.75 0.00\n  1 1000 1.83 0.55\n") == 1.83


def test_many_ranks__compares_with_the_pair_alone():
    tool = script("many-ranks")
    memories = {n: tool.Memory(n, 6 * n, n << 20, 0, 0, 0) for n in (1, 64, 128)}
    heads, alone, both, memory = tool.table({1: [2.0, 1.0, 2.0], 64: [2.2, 2.1, 2.5]}, memories)
    assert alone[:4] == ["1", "2.00", "1.00 to 2.00", "1.00"]
    assert both[:4] == ["64", "2.20", "2.10 to 2.50", "1.10"]
    assert memory[:4] == ["128", "-", "-", "-"]
    assert memory[heads.index("sockets a rank")] == "6.0"
    assert memory[heads.index("rings a host, MiB")] == "128.0"


def test_batch_time__groups_samples_by_symbol():
    shares = script("batch-time").shares(
        " 30 |[kernel.kallsyms] |[k] _copy_from_iter\n"
        " 10 |[kernel.kallsyms] |[k] veth_xmit\n"
        " 20 |mca_btl_rawe.so   |[.] rawe_conn_send\n"
        " 15 |mca_btl_rawe.so   |[.] component_progress\n"
        "  5 |libopen-pal.so.40 |[.] 0x00000000000878b5\n"
        " 20 |libmpi.so.40      |[.] 0x0000000000001234\n"
    )
    assert list(shares.values()) == [0.3, 0.1, 0.2, 0.2, 0.2]


def test_batch_time__nothing_sampled_is_an_error():
    with pytest.raises(BenchError, match="cpu-clock"):
        script("batch-time").shares("")


def test_batch_time__from_rate_and_counters():
    tool = script("batch-time")
    head = "# Benchmarking Uniband\n# #processes = 2\n #bytes #repetitions Mbytes/sec Msg/sec\n"
    stats = (
        "rawe: rank 1: bytes_sent=3 batches_sent=0\nrawe: rank 0: bytes_sent=6000 batches_sent=2"
    )
    # 3000 bytes per batch, at 100 bytes/us
    assert tool.batch_us(f"{head} 65536 10 100.0 7\n", stats, 65536) == 30
    with pytest.raises(BenchError, match="no batches"):
        tool.batch_us(f"{head} 65536 10 100.0 7\n", "bytes_sent=3 batches_sent=0", 65536)


def test_batch_time__sums_what_is_work():
    tool = script("batch-time")
    run = dict(zip(tool.GROUPS, (9.0, 3.0, 2.0, 1.0, 50.0), strict=True))
    lines = tool.table({65536: [{"sender": run, "receiver": run}]})
    assert lines[1] == ["64 KiB, sender", "9.0", "3.0", "2.0", "1.0", "50.0", "6.0"]


def test_others__medians_and_the_ratio_to_tcp():
    tool = script("others")
    values = {"rawe": [], "btl/tcp": [], "MPICH": []}
    for turn in (1, 9, 2):
        for factor, name in enumerate(values, 1):
            values[name].append({key: factor * turn for _, _, key, _, _ in tool.ROWS})
    head, time, *_, rate = tool.table(values, list(values))
    assert head == ["", "rawe", "btl/tcp", "MPICH", "times better"]
    assert time == ["64 B, exchange after computing, us", "2", "4", "6", "2.00"]
    assert rate == ["1 MiB, stream, MB/s", "2", "4", "6", "0.50"]


def test_others__a_library_that_fails_is_named():
    tool = script("others")
    with pytest.raises(BenchError, match="MPICH: status 1: no such host"):
        tool.output_of("MPICH", 1, "", "no such host\n")


def test_output_of__names_what_failed_and_what_is_missing():
    assert tool.output_of([sys.executable, "-c", "print(5)"]) == "5\n"
    with pytest.raises(BenchError, match="status 3 of: .*\nno luck"):
        tool.output_of([sys.executable, "-c", "import sys; print('no luck'); sys.exit(3)"])
    with pytest.raises(BenchError, match="install-deps"):
        tool.output_of(["no-such-program-anywhere"])


def test_program__without_a_build_says_so(tmp_path):
    with pytest.raises(BenchError, match="--no-build"):
        prepare.program(tmp_path, "core/core-memory")


def test_fields__only_of_the_lines_asked_for():
    assert tool.fields("a b=1 c=2\nd b=3\na x\n", "a ") == [{"b": "1", "c": "2"}, {}]


def test_aligned__words_left_numbers_right():
    assert page.aligned([["size", "tcp"], ["1 B", "4.00"]]) == "size   tcp\n1 B   4.00"
