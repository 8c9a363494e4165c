# SPDX-License-Identifier: BSD-3-Clause
"""What all applications share."""

from typing import ClassVar

from benchlib.program import Program


class Application(Program):
    """An application with a small and a full problem, without threads of its libraries."""

    environment: ClassVar = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
