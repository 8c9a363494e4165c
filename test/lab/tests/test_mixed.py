# SPDX-License-Identifier: BSD-3-Clause
"""rawe beside other BTLs: each pair of processes takes the best that both have."""

from conftest import ETHERTYPE, HANG_SECONDS, assert_success, help_messages

EFFORT = ["--quick", "--scale", "0.1", "--skip", "spawn"]


def test_rawe_between_hosts_and_vader_within(make_lab, build, verify):
    lab = make_lab(hosts=2)
    lab.count_frames(ETHERTYPE)
    arguments = ["-np", 4, "--mca", "btl", "rawe,vader,self", verify, *EFFORT]
    assert_success(lab.mpirun(arguments, timeout=HANG_SECONDS, build=build))
    assert lab.frames(0) > 0 and lab.frames(1) > 0


def test_a_host_without_rawe_is_reached_over_tcp_silently(make_lab, build, verify):
    lab = make_lab(hosts=3)
    lab.set_environment(1, OMPI_MCA_btl="tcp,self")
    lab.count_frames(ETHERTYPE)
    arguments = ["-np", 3, "--mca", "btl", "rawe,tcp,self", verify, *EFFORT]
    result = lab.mpirun(arguments, timeout=HANG_SECONDS, build=build)
    assert_success(result)
    assert help_messages(result) == []
    assert lab.frames(0) > 0 and lab.frames(2) > 0
    assert lab.frames(1) == 0


def test_rawe_is_preferred_to_tcp_where_both_have_it(make_lab, build, endless):
    lab = make_lab(hosts=2)
    lab.count_frames(ETHERTYPE)
    rounds = 200
    # Plain frames, which the count below can tell from those of tcp.
    plain = ["--mca", "btl_rawe_superframes", "0"]
    arguments = ["-np", 2, "--mca", "btl", "rawe,tcp,self", *plain, endless, "rounds", rounds]
    assert_success(lab.mpirun(arguments, timeout=HANG_SECONDS, build=build))
    # 20 000 bytes a round and direction need at least 14 frames of 1500.
    assert lab.frames(0) >= 14 * rounds and lab.frames(1) >= 14 * rounds


def test_several_nics_are_accepted(make_lab, build, verify):
    lab = make_lab(hosts=2, nics=2)
    arguments = ["-np", 2, "--mca", "btl", "rawe,self", verify, "--quick", "--only", "pt2pt,random"]
    assert_success(lab.mpirun(arguments, timeout=HANG_SECONDS, build=build))
