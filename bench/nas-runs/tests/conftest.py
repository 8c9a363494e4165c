# SPDX-License-Identifier: BSD-3-Clause
"""Makes the driver's package, and those it borrows from, importable for its tests."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
BESIDE = [HERE, HERE.parent / "imb-runs", HERE.parent / "lib", HERE.parents[1] / "test" / "lab"]
sys.path[:0] = [str(path) for path in BESIDE]
