# SPDX-License-Identifier: BSD-3-Clause
"""The checks are imported from beside this folder."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
