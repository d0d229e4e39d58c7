#!/usr/bin/env python3
"""Draws the measurements of bench_gemv as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def describe(measurements):
    return f"{plot_common.gibibytes(measurements['file_bytes'])} of mapped weights of each type"


GEMV = plot_common.Picture(
    label="Speed of one vector times stored weights",
    describe=describe,
)

if __name__ == "__main__":
    plot_common.main(__doc__, GEMV)
