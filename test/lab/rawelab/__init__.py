# SPDX-License-Identifier: BSD-3-Clause
"""The lab: one machine emulates a cluster, with network namespaces as its hosts."""

from .command import LabError
from .lab import Lab
from .launch import MpiResult
from .spec import LabSpec

__all__ = ["Lab", "LabError", "LabSpec", "MpiResult"]
