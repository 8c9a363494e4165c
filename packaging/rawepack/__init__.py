# SPDX-License-Identifier: BSD-3-Clause
"""Debian packages of rawe: their source, and clean systems to build and try them in."""

from .build import Built, build_here, build_in, unpack
from .chroot import ENVIRONMENT, SUITES, SYSTEMS, Chroot, PackError

__all__ = [
    "ENVIRONMENT",
    "SUITES",
    "SYSTEMS",
    "Built",
    "Chroot",
    "PackError",
    "build_here",
    "build_in",
    "unpack",
]
