# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a comparison: its setup, and how one is begun and gone on with."""

import json
from pathlib import Path

SETUP = "setup.json"


class FolderError(Exception):
    """The folder holds something else than it should; the text says what to do."""


class Folder:
    """The folder of one comparison."""

    def __init__(self, directory):
        self.directory = Path(directory)

    def begin(self, setup):
        """Make the folder and keep the setup (anything JSON can hold)."""
        if (self.directory / SETUP).exists():
            raise FolderError(
                f"{self.directory} holds another comparison already; choose another folder with "
                "--output, or go on with that one with --resume"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(setup, indent=2, sort_keys=True) + "\n"
        (self.directory / SETUP).write_text(text, encoding="utf-8")

    def setup(self):
        """The setup that begin() kept."""
        try:
            return json.loads((self.directory / SETUP).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FolderError(
                f"{self.directory} holds no comparison to go on with ({error}); start a new one "
                "without --resume"
            ) from error
