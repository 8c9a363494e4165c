# SPDX-License-Identifier: BSD-3-Clause
"""Jobs with the component under the thread sanitizer: no two threads race on its memory.

`test/run threads` builds such a component. Open MPI and the programs are not instrumented, so their
own races are not found.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, RAWE, assert_success, show
from test_many_ranks import EACH_HOST, RANKS, SurvivingJob
from test_nics import PulledJob, await_both, cut_behind, host_down, host_up, mend_behind

pytestmark = pytest.mark.instrumented
# Suppressions of the sanitizer.
SUPPRESSIONS = """
# Open MPI's free lists, inlined: a reader takes the head optimistically, and verifies it by a
# compare-and-exchange of both words, pointer and counter.
race:opal_lifo_pop_atomic
race:opal_lifo_push_atomic
race:opal_read_counted_pointer
# Its caller constructs new items, and passes the rest to other threads through such a list, in code
# that is not instrumented.
race:opal_free_list_grow_st
"""
SLOWER = 5  # factor by which the sanitizer slows a job down

# MPI_THREAD_MULTIPLE, with a mutex as lock; and a single thread beside the progress thread.
LEVELS = ("multiple", "single")


@pytest.fixture(scope="session")
def sanitizer():
    """The path of the thread sanitizer's library."""
    words = ["gcc", "-print-file-name=libtsan.so"]
    return Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def watched(sanitizer, tmp_path):
    """Return the command that runs a program under the sanitizer."""
    suppressions = tmp_path / "suppressions"
    suppressions.write_text(SUPPRESSIONS, encoding="utf-8")
    options = f"log_path={tmp_path}/report suppressions={suppressions}"
    # The sanitizer intercepts memcpy and malloc in Open MPI, but does not see its synchronization.
    options += " ignore_noninstrumented_modules=1 history_size=5 exitcode=0"
    # The sanitizer cannot place its shadow memory under full address randomisation.
    words = ["setarch", "--addr-no-randomize", "env"]
    return [*words, f"LD_PRELOAD={sanitizer}", f"TSAN_OPTIONS={options}"]


def assert_nobody_met(tmp_path):
    """Assert that the sanitizer has reported no race."""
    reports = [file.read_text(errors="replace") for file in tmp_path.glob("report.*")]
    assert not reports, "\n".join(reports)[:8000]


def run(lab, instrumented, sanitizer, tmp_path, *program, btl=RAWE):
    """Run four ranks; they must succeed without a race."""
    arguments = ["-np", 4, *btl, *watched(sanitizer, tmp_path), *program]
    result = lab.mpirun(arguments, timeout=SLOWER * HANG_SECONDS, build=instrumented)
    assert_nobody_met(tmp_path)
    assert_success(result)
    return result


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("level", LEVELS)
def test_verification(make_lab, instrumented, sanitizer, verify, tmp_path, level, loss):
    words = ["--quick", "--scale", "0.1", "--thread-level", level]
    words += ["--skip", "spawn" if level == "multiple" else "spawn,threads"]
    result = run(make_lab(loss=loss), instrumented, sanitizer, tmp_path, verify, *words)
    assert "checks, OK" in result.output, show(result)


def test_asynchronous_progress(make_lab, instrumented, sanitizer, verify, tmp_path):
    words = ["--quick", "--scale", "0.1", "--thread-level", "single", "--skip", "spawn,threads"]
    btl = (*RAWE, "--mca", "btl_rawe_async_progress", "1")
    result = run(make_lab(loss=1), instrumented, sanitizer, tmp_path, verify, *words, btl=btl)
    assert "checks, OK" in result.output, show(result)


def test_threads_under_load(make_lab, instrumented, sanitizer, verify, tmp_path):
    words = ["--only", "threads", "--scale", "1"]
    result = run(make_lab(loss=1), instrumented, sanitizer, tmp_path, verify, *words)
    assert "checks, OK" in result.output, show(result)


def test_windows_of_ranks_that_share_memory(make_lab, instrumented, sanitizer, verify, tmp_path):
    """The first access opens lo, or the service thread of the target."""
    shared = ("--mca", "btl", "rawe,vader,self", "--map-by", "ppr:2:node")
    words = ["--only", "windows", "--quick", "--scale", "0.1"]
    result = run(make_lab(), instrumented, sanitizer, tmp_path, verify, *words, btl=shared)
    assert "checks, OK" in result.output, show(result)


def test_cables_are_pulled(make_lab, instrumented, sanitizer, pulled, tmp_path):
    lab = make_lab(hosts=2, nics=2)
    words = watched(sanitizer, tmp_path)
    job = PulledJob(lab, words[0], *words[1:], pulled, ranks=4, build=instrumented)
    await_both(lab, job)
    for nic, pull, mend in ((1, host_down, host_up), (0, cut_behind, mend_behind)):
        pull(lab, nic)
        job.go_on()
        mend(lab, nic)
        await_both(lab, job)
    job.end_well()
    assert_nobody_met(tmp_path)


def test_a_group_breaks(make_lab, instrumented, sanitizer, exchange, tmp_path):
    words = [*EACH_HOST, *watched(sanitizer, tmp_path)]
    job = SurvivingJob(make_lab(), words, exchange, (1,), RANKS, build=instrumented)
    job.go_file.touch()
    job.end()
    assert_nobody_met(tmp_path)
