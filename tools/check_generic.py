#!/usr/bin/env python3
"""Checks that layers are generic: files in examples/layers name no dtype and no device.

A dtype or device that a layer names would be used in every lane, regardless of the options of the build.

Usage: check_generic.py ROOT
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"//.*")
INCLUDE = re.compile(r"^\s*#.*$", re.MULTILINE)
CONCRETE = re.compile(r"\b(?:(?:BF16|C64|F(?:16|32|64|8_\w+|6_\w+|4)|[IU](?:4|8|16|32|64)|I?Q\d\w*|Host|OpenCl|Gpu|Cpu|"
                      r"float|double)\b|(?:Float|BFloat|Int|UInt)<\d+>)")


def main():
    root = pathlib.Path(sys.argv[1])
    files = sorted([*root.glob("examples/layers/**/*.hpp"), *root.glob("examples/layers/**/*.cpp")])
    found = 0
    for path in files:
        # Keeps the line breaks, so that line numbers are right.
        text = INCLUDE.sub("", COMMENT.sub("", path.read_text(encoding="utf-8")))
        for number, line in enumerate(text.splitlines(), start=1):
            for match in CONCRETE.finditer(line):
                found += 1
                print(f"{path.relative_to(root)}:{number}: a layer names {match[0]}; take it from the template's parameters",
                      file=sys.stderr)
    if found or not files:
        sys.exit(1)
    print(f"check_generic: {len(files)} files of layers name no dtype and no device")


if __name__ == "__main__":
    main()
