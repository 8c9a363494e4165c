# SPDX-License-Identifier: BSD-3-Clause
"""Jobs with the component under the thread sanitizer: no two threads meet in a word of its memory.

`test/run threads` builds such a component. Open MPI and the programs are as they always are: what
they do among themselves is not seen.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, HERE, RAWE, assert_success, show

pytestmark = pytest.mark.instrumented
SLOWER = 5  # than without

# MPI_THREAD_MULTIPLE, where the lock is a mutex; and one thread, beside the progress thread.
LEVELS = ("multiple", "single")


@pytest.fixture(scope="session")
def sanitizer():
    """The path of the thread sanitizer's library."""
    words = ["gcc", "-print-file-name=libtsan.so"]
    return Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def run(lab, instrumented, sanitizer, tmp_path, *program):
    """Run four ranks to their good end; no thread may have met another."""
    options = f"log_path={tmp_path}/report suppressions={HERE}/data_races.txt"
    # What Open MPI calls (memcpy, malloc) is seen as well, but not what orders it there.
    options += " ignore_noninstrumented_modules=1 history_size=5 exitcode=0"
    # The sanitizer cannot place its shadow memory under full address randomisation.
    words = ["setarch", "--addr-no-randomize", "env"]
    words += [f"LD_PRELOAD={sanitizer}", f"TSAN_OPTIONS={options}"]
    arguments = ["-np", 4, *RAWE, *words, *program]
    result = lab.mpirun(arguments, timeout=SLOWER * HANG_SECONDS, build=instrumented)
    reports = [file.read_text(errors="replace") for file in tmp_path.glob("report.*")]
    assert not reports, "\n".join(reports)[:8000]
    assert_success(result)
    return result


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("level", LEVELS)
def test_verification(make_lab, instrumented, sanitizer, verify, tmp_path, level, loss):
    words = ["--quick", "--scale", "0.1", "--thread-level", level]
    words += ["--skip", "spawn" if level == "multiple" else "spawn,threads"]
    result = run(make_lab(loss=loss), instrumented, sanitizer, tmp_path, verify, *words)
    assert "checks, OK" in result.output, show(result)


def test_threads_under_load(make_lab, instrumented, sanitizer, verify, tmp_path):
    words = ["--only", "threads", "--scale", "1"]
    result = run(make_lab(loss=1), instrumented, sanitizer, tmp_path, verify, *words)
    assert "checks, OK" in result.output, show(result)
