# SPDX-License-Identifier: BSD-3-Clause
"""Virtual machines as MPI hosts: real kernels and drivers on hardware emulated by QEMU."""

from .cluster import Cluster, ClusterSpec

__all__ = ["Cluster", "ClusterSpec"]
