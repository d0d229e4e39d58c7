#!/usr/bin/env python3
"""Refuses a weak symbol in a source that is compiled for more than the baseline processor.

The linker keeps one copy of an inline function or template, from the first object that defines it. If that
copy has AVX2 instructions, the program ends with SIGILL on a processor without them. A source is checked if
its command has a flag such as -mavx2 or -march, or if its text sets a target by attribute or pragma. To check
it, it is compiled again as in a release: optimised and without sanitizers.

Usage: check_weak.py BUILD_FOLDER
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FLAG = re.compile(r"-m(arch|cpu|tune|avx|sse|bmi|lzcnt|pclmul|vpclmul|popcnt|fma|f16c|aes|sha)[\w.=+-]*$")
TARGET = re.compile(r"gnu::target|__attribute__\s*\(\(\s*target|#\s*pragma\s+(GCC|clang)\s+(target|attribute)|TARGET_REGION|HWY_BEFORE_NAMESPACE")
LEFT_OUT = re.compile(r"-O\w*$|-g\d?$|-fsanitize|-fno-sanitize|-Werror")
# References to the personality routine of the runtime: data that is equal in every object.
HARMLESS = re.compile(r"^DW\.ref\.")


def is_targeted(command, source):
    return any(FLAG.match(word) for word in command) or TARGET.search(source.read_text(errors="replace")) is not None


def release_command(command, target):
    """The command with the flags of a release, writing to `target`."""
    words, skip = [], False
    for word in command:
        if skip:
            skip = False
        elif word == "-o":
            skip = True
        elif not LEFT_OUT.match(word):
            words.append(word)
    return [*words, "-O2", "-DNDEBUG", "-o", str(target)]


def weak_symbols(command, folder):
    with tempfile.TemporaryDirectory() as temporary:
        target = pathlib.Path(temporary, "object.o")
        run = subprocess.run(release_command(command, target), cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"check_weak: cannot compile: {run.stderr}")
        listed = subprocess.run(["nm", "-C", "--defined-only", str(target)], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        _, kind, name = line.split(" ", 2)
        if kind in "WVuwv" and not HARMLESS.match(name):
            yield name


def main():
    entries = json.loads(pathlib.Path(sys.argv[1], "compile_commands.json").read_text())
    checked, problems = 0, []
    for entry in entries:
        source = pathlib.Path(entry["directory"], entry["file"])
        command = entry.get("arguments") or shlex.split(entry["command"])
        if source.name.endswith(("_test.cpp", "_fuzz.cpp")) or not is_targeted(command, source):
            continue
        checked += 1
        problems += [f"{source}: weak symbol: {name}" for name in weak_symbols(command, entry["directory"])]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("check_weak: put the function into an unnamed namespace, or move it to another source", file=sys.stderr)
        sys.exit(1)
    print(f"check_weak: {checked} sources for more than the baseline processor have no weak symbols")


if __name__ == "__main__":
    main()
