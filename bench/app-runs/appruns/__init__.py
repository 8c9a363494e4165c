# SPDX-License-Identifier: BSD-3-Clause
"""Runs applications over btl/tcp and over rawe, checks their results, and compares them."""
