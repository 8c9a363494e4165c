# SPDX-License-Identifier: BSD-3-Clause
"""Makes the driver's package and the library importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
LIB = TESTS.parents[1] / "lib"
BESIDE = [TESTS.parent, LIB, LIB / "tests", TESTS.parents[2] / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]
