# SPDX-License-Identifier: BSD-3-Clause
"""The error that ends a command with a message."""


class BenchError(Exception):
    """Something a person can act on: the text says what happened, where, and what to do."""
