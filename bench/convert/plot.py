#!/usr/bin/env python3
"""The figures of bench_convert as a picture and as tables.

Usage: plot.py FIGURES.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

CONVERTING = plot_common.Picture(
    label="Speed of converting",
    titles={"cold": "Cold source: another file, on the disk", "warm": "Warm source: another file, on the disk"},
    measured=lambda figures: f"a file of {plot_common.gibibytes(figures['file_bytes'])}",
)

if __name__ == "__main__":
    plot_common.main(__doc__, CONVERTING)
