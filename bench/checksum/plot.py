#!/usr/bin/env python3
"""Draws the measurements of bench_checksum as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def describe(measurements):
    sizes = {place: plot_common.gibibytes(measurements[place + "_bytes"]) for place in ("memory", "file")}
    return f"memory of {sizes['memory']} and of 16 KiB, a file of {sizes['file']}"


def by_place(cells):
    """Two tables, because cells over memory and cells over files have different contenders."""
    files = {name: rows for name, rows in cells.items() if name.startswith(("cold", "warm"))}
    return [{name: rows for name, rows in cells.items() if name not in files}, files]


CHECKSUMS = plot_common.Picture(
    label="Speed of checksums",
    titles={
        "memory, 1 thread": "In memory, by 1 thread",
        "memory, all threads": "In memory, by all threads",
        "16 KiB, 1 thread": "16 KiB over and over, by 1 thread",
        "16 KiB, all threads": "16 KiB over and over, by all threads",
        "warm, verify": "Warm file: verified",
        "cold, load": "Cold file: loaded",
        "cold, load, untouched memory": "Cold file: loaded, free memory not touched first",
        "cold, stream": "Cold file: streamed",
    },
    describe=describe,
    tables=by_place,
)

if __name__ == "__main__":
    plot_common.main(__doc__, CHECKSUMS)
