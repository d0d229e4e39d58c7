#!/usr/bin/env python3
"""Draws the measurements of bench_load as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

LOADING = plot_common.Picture(
    label="Speed of loading",
    titles={
        "cold, all": "Cold: all of it into memory",
        "warm, all": "Warm: all of it into memory",
        "cold, one pass": "Cold: every byte once",
        "warm, one pass": "Warm: every byte once",
        "high latency, one pass": "Behind a slow network, cold: every byte once",
    },
    describe=lambda measurements: f"a file of {plot_common.gibibytes(measurements['file_bytes'])}",
)

if __name__ == "__main__":
    plot_common.main(__doc__, LOADING)
