# SPDX-License-Identifier: BSD-3-Clause
"""Tests of transports.py: order in a round, mpirun's arguments."""

from pathlib import Path

from benchlib import transports


def test_arguments__ranks_of_one_host_share_memory():
    assert "tcp,self" in transports.arguments("tcp")
    assert "tcp,vader,self" in transports.arguments("tcp", None, True)
    assert "vader,self" in transports.arguments("vader", None, True)


def test_arguments__each_transport_is_bound_to_the_interface():
    for name in set(transports.TRANSPORTS) - {transports.SHARED_MEMORY}:
        words = transports.arguments(name, "eth7", against=Path("/b"))
        assert any("eth7" in word for word in words), name


def test_arguments__only_the_old_build_is_loaded_from_elsewhere(tmp_path):
    ours = [tmp_path / "opal/mca/btl/rawe/.libs", tmp_path / "ompi/mca/coll/rawe/.libs"]
    ours[0].mkdir(parents=True)
    old, new = (transports.arguments(name, None, True, tmp_path) for name in ("old", "rawe"))
    assert f"{ours[0]}:SYSTEM_DEFAULT:USER_DEFAULT" in old
    ours[1].mkdir(parents=True)
    both = transports.arguments("old", None, True, tmp_path)
    assert f"{ours[0]}:{ours[1]}:SYSTEM_DEFAULT:USER_DEFAULT" in both
    assert old[: len(new)] == new and transports.COMPONENT_PATH not in new


def test_base_of__the_old_build_tcp_or_the_first():
    assert transports.base_of(["tcp", "old", "rawe"]) == "old"
    assert transports.base_of(["rawe", "tcp"]) == "tcp"
    assert transports.base_of(["ucx", "rawe"]) == "ucx"
