#!/usr/bin/env python3
"""Measures the compile time that htensor.hpp adds to a file.

Usage: header_cost.py ROOT [--runs N] [--compiler CXX] [--header NAME]

Compiles two files alternately. One includes the header; the other includes only the standard headers that the
header includes, directly or through headers of the library and its dependencies. Prints the least CPU time of
each, and the difference with its limit. A time over the limit is not an error, because machines differ.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MAX_SECONDS = 0.5
STANDARD = re.compile(r".*/c\+\+/(?:v?\d[\d.]*/)([a-z0-9_]+)$")


def standard_headers(compiler, include, source):
    """The standard headers that headers outside of the standard library include, in order."""
    command = [*compiler, f"-I{include}", "-H", "-fsyntax-only", str(source)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found, inside = [], 0
    for line in shown.splitlines():
        if not (place := re.match(r"(\.+) (\S+)$", line)):
            continue
        depth, standard = len(place[1]), STANDARD.match(place[2])
        if inside and depth > inside:
            continue
        inside = depth if standard else 0
        if standard and standard[1] not in found:
            found.append(standard[1])
    return found


def seconds(command):
    """CPU time of the compiler and its child processes."""
    child = os.posix_spawnp(command[0], command, {**os.environ, "CCACHE_DISABLE": "1"})
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"header_cost: {command[-1]} does not compile")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--header", default="htensor.hpp", help="a header below include/htensor")
    options = parser.parse_args()
    include = options.root / "include"
    compiler = [options.compiler, "-std=c++20"]
    with tempfile.TemporaryDirectory() as folder:
        ours, standard = pathlib.Path(folder, "ours.cpp"), pathlib.Path(folder, "standard.cpp")
        ours.write_text(f"#include <htensor/{options.header}>\n")
        headers = standard_headers(compiler, include, ours)
        standard.write_text("".join(f"#include <{header}>\n" for header in headers))
        commands = [[*compiler, "-fsyntax-only", f"-I{include}", str(source)] for source in (ours, standard)]
        times = [[seconds(command) for command in commands] for _ in range(options.runs)]
    header_seconds, standard_seconds = (min(column) for column in zip(*times))
    print(f"standard headers: {' '.join(headers)}")
    print(f"{options.header} {header_seconds:.2f} s, its standard headers {standard_seconds:.2f} s, "
          f"difference {header_seconds - standard_seconds:.2f} s, limit {MAX_SECONDS:.2f} s; best of {options.runs}")


if __name__ == "__main__":
    main()
