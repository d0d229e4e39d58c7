#!/usr/bin/env python3
"""Draws the measurements of bench_llama as a picture and as tables.

Usage: plot.py MEASUREMENTS.json PICTURE.svg
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import plot_common  # noqa: E402


def describe(measurements):
    size = f"{measurements['file_bytes'] / 1e6:.0f} MB"
    return f"a mapped Llama of Q4_K_M weights (small: {size}), 8 tokens after a prompt of 8"


LLAMA = plot_common.Picture(
    label="Speed of token generation, in bytes of weights per second",
    describe=describe,
)

if __name__ == "__main__":
    plot_common.main(__doc__, LLAMA)
