# SPDX-License-Identifier: BSD-3-Clause
"""Makes the package, and those it borrows from, importable."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
BESIDE = [BENCH / "lib", BENCH / "imb-runs", BENCH.parent / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]
