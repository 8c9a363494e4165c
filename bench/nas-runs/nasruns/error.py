# SPDX-License-Identifier: BSD-3-Clause
"""The one error type of the driver."""


class NasError(Exception):
    """Something a person can act on: the text says what happened, where, and what to do."""
