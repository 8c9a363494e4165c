# SPDX-License-Identifier: BSD-3-Clause
"""Runs NAS LU and SP over btl/tcp and over rawe, and compares them."""
