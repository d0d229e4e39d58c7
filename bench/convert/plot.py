#!/usr/bin/env python3
"""Draws the measurements of bench_convert as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

CONVERTING = plot_common.Picture(
    label="Speed of converting",
    titles={
        "cold": "Cold source, converted to a new file on the disk",
        "warm": "Warm source, converted to a new file on the disk",
    },
    describe=lambda measurements: f"a file of {plot_common.gibibytes(measurements['file_bytes'])}",
)

if __name__ == "__main__":
    plot_common.main(__doc__, CONVERTING)
