# SPDX-License-Identifier: BSD-3-Clause
"""Runs IMB-MPI1, or the project's own benchmark, over several transports in turn and reports."""
