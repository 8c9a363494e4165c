#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The drivers of bench/ by their folders. Run with the name of a folder, it is its `compare`."""

import importlib
import sys
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[1]
DRIVERS = {
    "app-runs": ("appruns.applications", "AppDriver"),
    "imb-runs": ("imbruns.driver", "ImbDriver"),
    "nas-runs": ("nasruns.driver", "NasDriver"),
    "programs": ("programs_driver", "ProgramsDriver"),
    "rates": ("rates_driver", "RatesDriver"),
}
sys.path[:0] = [str(BENCH / folder) for folder in ("lib", *DRIVERS, "../test/lab")]


def driver_of(name):
    module, cls = DRIVERS[name]
    return getattr(importlib.import_module(module), cls)()


if __name__ == "__main__":
    from benchlib.cli import main

    sys.exit(main(driver_of(sys.argv[1]), sys.argv[2:]))
