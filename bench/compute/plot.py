#!/usr/bin/env python3
"""The figures of bench_compute as a picture and as tables.

Usage: plot.py FIGURES.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def measured(figures):
    return "square matrices in memory; throughput counts the bytes of both operands and the result"


EXTENTS = (64, 1024, 2048, 4096)
COMPUTE = plot_common.Picture(
    label="Speed of matrix products",
    titles={f"{dtype} {extent}": f"{dtype}, {extent} × {extent}" for dtype in ("F32", "F64") for extent in EXTENTS},
    measured=measured,
    # Cells have numpy and torch only if they are installed.
    contenders=("htensor", "cblas", "numpy", "torch", "naive loop"),
)

if __name__ == "__main__":
    plot_common.main(__doc__, COMPUTE)
