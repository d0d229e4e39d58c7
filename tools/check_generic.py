#!/usr/bin/env python3
"""Layers are generic in dtype and device: files in examples/layers name none.

A dtype or a device that is written into a layer would be used in every lane, whatever the build asks for.

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
        # Lines keep their numbers.
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
