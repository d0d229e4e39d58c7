#!/usr/bin/env python3
"""The figures of bench_load as a picture and as tables.

Usage: plot.py FIGURES.json PICTURE.svg
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
        "far, one pass": "Behind a slow network, cold: every byte once",
    },
    measured=lambda figures: f"a file of {plot_common.gibibytes(figures['file_bytes'])}",
)

if __name__ == "__main__":
    plot_common.main(__doc__, LOADING)
