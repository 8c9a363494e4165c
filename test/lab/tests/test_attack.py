# SPDX-License-Identifier: BSD-3-Clause
"""A host on the same switch attacks a running job: every byte stays right, nothing crashes."""

import pytest
from conftest import assert_success, show, thorough

from rawelab import attack

JOB_SECONDS = 180
# Counters that each kind of attack must increment. Frames without the key are dropped by the
# kernel's filter, which does not count them.
REJECTIONS = {
    "random": [],
    "replay": ["duplicates"],
    "blind": [],
    "forged": [
        "dropped_outside",
        "dropped_ack",
        "dropped_type",
        "dropped_connection",
        "dropped_length",
        "dropped_short",
        "dropped_source",
    ],
}


def run(make_lab, build, tmp_path, seconds, kind, options=()):
    """Attack a job for `seconds`, and assert that it verified everything."""
    lab = make_lab(hosts=attack.HOSTS)
    lab.pin_addresses()
    file = tmp_path / "frames.pcap"
    outcome = attack.run(
        lab, build, seconds, kind=kind, file=file, timeout=JOB_SECONDS + seconds, options=options
    )
    assert_success(outcome.result)
    assert "rawe-verify: OK" in outcome.result.output, show(outcome.result)
    return outcome


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [thorough("random"), "replay", thorough("blind"), "forged"])
def test_an_attacked_job_is_right_to_the_last_byte(make_lab, build, tmp_path, kind, seconds):
    outcome = run(make_lab, build, tmp_path, seconds, kind)
    assert outcome.sent.get(kind, 0) >= attack.LEAST_FRAMES, outcome.attack
    rejected = outcome.rejected()
    for name in REJECTIONS[kind]:
        assert rejected.get(name, 0) > 0, f"{name} is 0: {rejected}\n{outcome.attack}"


def test_a_quiet_job_rejects_nothing(make_lab, build):
    lab = make_lab(hosts=attack.HOSTS)
    outcome = attack.run(lab, build, 1, timeout=JOB_SECONDS)
    assert_success(outcome.result)
    assert set(outcome.rejected()) <= {"dropped_connection"}, outcome.rejected()
