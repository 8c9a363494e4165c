# SPDX-License-Identifier: BSD-3-Clause
"""Makes the checks in test/lint, and the modules in test, importable."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[1:3]]
