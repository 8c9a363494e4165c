# SPDX-License-Identifier: BSD-3-Clause
"""Tests of transports.py: order in a round, mpirun's arguments."""

from benchlib import transports


def test_order__every_second_round_is_reversed():
    assert [transports.order(("tcp", "rawe"), n) for n in (1, 2, 3)] == [
        ("tcp", "rawe"),
        ("rawe", "tcp"),
        ("tcp", "rawe"),
    ]


def test_arguments__ranks_of_one_host_share_memory():
    assert "tcp,self" in transports.arguments("tcp")
    assert "tcp,vader,self" in transports.arguments("tcp", None, True)
    assert "vader,self" in transports.arguments("vader", None, True)


def test_arguments__each_transport_is_bound_to_the_interface():
    for name in set(transports.TRANSPORTS) - {transports.SHARED_MEMORY}:
        assert any("eth7" in word for word in transports.arguments(name, "eth7")), name


def test_base_of__tcp_or_the_first():
    assert transports.base_of(["rawe", "tcp"]) == "tcp"
    assert transports.base_of(["ucx", "rawe"]) == "ucx"
