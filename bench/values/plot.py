#!/usr/bin/env python3
"""Draws the measurements of bench_values as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402

CASTS = ["BF16 to F32", "F16 to F32", "F32 to BF16", "F32 to F16", "F8_E4M3 to F32", "Q8_0 to F32", "Q4_K to F32",
         "Q6_K to F32", "Q4_K to BF16"]
STATISTICS = ["statistics of F32", "statistics of BF16", "statistics of Q4_K"]


def describe(measurements):
    return f"{plot_common.gibibytes(measurements['file_bytes'])} of F32 or as many elements of other types, in memory"


def by_task(cells):
    """Two tables: statistics only read, so they have another limit than casts."""
    return [{name: rows for name, rows in cells.items() if name in names} for names in (CASTS, STATISTICS)]


VALUES = plot_common.Picture(
    label="Speed of casts and statistics",
    titles={name: name[0].upper() + name[1:] for name in CASTS + STATISTICS},
    describe=describe,
    tables=by_task,
    # numpy and torch may be missing, and only cells with dtypes that they support have them.
    row_order=("htensor", "histogram", "numpy", "torch", "scalar loop"),
)

if __name__ == "__main__":
    plot_common.main(__doc__, VALUES)
