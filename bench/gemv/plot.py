#!/usr/bin/env python3
"""The figures of bench_gemv as a picture and as tables.

Usage: plot.py FIGURES.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

TYPES = ["F32", "BF16", "F16", "F8_E4M3", "Q8_0", "Q4_0", "MXFP4", "Q4_K", "Q5_K", "Q6_K"]


def measured(figures):
    return f"{plot_common.gibibytes(figures['file_bytes'])} of mapped weights of each type"


GEMV = plot_common.Picture(
    label="Speed of one vector times stored weights",
    titles={name: name for name in TYPES},
    measured=measured,
)

if __name__ == "__main__":
    plot_common.main(__doc__, GEMV)
