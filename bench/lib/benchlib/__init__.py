# SPDX-License-Identifier: BSD-3-Clause
"""What the drivers of bench/ share."""


class BenchError(Exception):
    """Something a person can act on: the text says what happened, where, and what to do."""
