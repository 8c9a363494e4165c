# SPDX-License-Identifier: BSD-3-Clause
"""The checks behind test/lint/lint."""
