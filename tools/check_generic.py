#!/usr/bin/env python3
"""Checks two properties of the examples: layers are generic, and the Llama model has at most 400 lines.

A dtype or device that a file in examples/layers names would be used in every lane, regardless of the options
of the build. The limit of examples/llama counts all lines of its C++ files, comments included.

Usage: check_generic.py ROOT
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"//.*")
INCLUDE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
CONCRETE = re.compile(r"\b(?:(?:BF16|C64|F(?:16|32|64|8_\w+|6_\w+|4)|[IU](?:4|8|16|32|64)|I?Q\d\w*|Host|OpenCl|Gpu|Cpu|"
                      r"float|double)\b|(?:Float|BFloat|Int|UInt)<\d+>)")
MAX_LLAMA_LINES = 400


def count_llama_lines(root):
    files = [*root.glob("examples/llama/**/*.hpp"), *root.glob("examples/llama/**/*.cpp")]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def main():
    root = pathlib.Path(sys.argv[1])
    files = sorted([*root.glob("examples/layers/**/*.hpp"), *root.glob("examples/layers/**/*.cpp")])
    if not files:
        sys.exit("check_generic: no layers found; is ROOT the project?")
    found = 0
    for path in files:
        # Keeps the line breaks, so that line numbers are correct.
        text = INCLUDE.sub("", COMMENT.sub("", path.read_text(encoding="utf-8")))
        for number, line in enumerate(text.splitlines(), start=1):
            for match in CONCRETE.finditer(line):
                found += 1
                print(f"{path.relative_to(root)}:{number}: a layer names {match[0]}; take it from the template's parameters",
                      file=sys.stderr)
    lines = count_llama_lines(root)
    if lines == 0:
        print("examples/llama: no C++ file found", file=sys.stderr)
    if lines > MAX_LLAMA_LINES:
        print(f"examples/llama: {lines} lines, but the limit is {MAX_LLAMA_LINES}; move code to the library", file=sys.stderr)
    if found or not 0 < lines <= MAX_LLAMA_LINES:
        sys.exit(1)
    print(f"check_generic: {len(files)} files of layers name no dtype and no device; examples/llama has {lines} lines")


if __name__ == "__main__":
    main()
