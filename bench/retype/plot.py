#!/usr/bin/env python3
"""Draws the measurements of bench_retype as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

CONVERTING = plot_common.Picture(
    label="Speed of conversions that change values",
    titles={"F32 to BF16": "F32 to BF16 (GB/s of the source)", "Q4_K_M to BF16": "Q4_K_M to BF16 (GB/s of the target)"},
    describe=lambda measurements: f"an F32 model of {plot_common.gibibytes(measurements['file_bytes'])}",
)

if __name__ == "__main__":
    plot_common.main(__doc__, CONVERTING)
