# SPDX-License-Identifier: BSD-3-Clause
"""The library of the drivers in bench/."""


class BenchError(Exception):
    """An error that a person can act on: the text says what happened, where, and what to do."""


class Rejected(BenchError):
    """A run whose output proves it wrong: a better reason than the status of mpirun."""
