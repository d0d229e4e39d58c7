#!/usr/bin/env python3
"""Draws the measurements of bench_devices as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def describe(measurements):
    return "F32 tensors in memory, bytes of the operands and of the result"


DEVICES = plot_common.Picture(
    label="Speed of operations on the host and on an OpenCL device",
    describe=describe,
)

if __name__ == "__main__":
    plot_common.main(__doc__, DEVICES)
