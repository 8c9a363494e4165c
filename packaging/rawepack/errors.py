# SPDX-License-Identifier: BSD-3-Clause
"""What can go wrong, said for a user."""

from rawelab.command import LabError


class PackError(LabError):
    """Something is missing or has failed; the text says what, and what to do."""
