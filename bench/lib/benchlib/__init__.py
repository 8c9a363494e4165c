# SPDX-License-Identifier: BSD-3-Clause
"""The library of the drivers in bench/."""


class BenchError(Exception):
    """An error for the user: its text says what happened, where, and what to do about it."""


class Rejected(BenchError):
    """A run whose output proves it wrong, which explains more than mpirun's exit status."""
