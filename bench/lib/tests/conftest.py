# SPDX-License-Identifier: BSD-3-Clause
"""Makes the library and what it borrows from the lab importable."""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(BENCH / "lib"), str(BENCH.parent / "test" / "lab")]
