#!/usr/bin/env python3
"""Draws the measurements of bench_compute as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def describe(measurements):
    return "square matrices in memory, bytes of both operands and the result"


EXTENTS = (64, 1024, 2048, 4096)
COMPUTE = plot_common.Picture(
    label="Speed of matrix products",
    titles={f"{dtype} {extent}": f"{dtype}, {extent} × {extent}" for dtype in ("F32", "F64") for extent in EXTENTS},
    describe=describe,
    # numpy and torch may be missing, and only products up to 1024 have the naive loop.
    row_order=("htensor", "cblas", "numpy", "torch", "naive loop"),
)

if __name__ == "__main__":
    plot_common.main(__doc__, COMPUTE)
