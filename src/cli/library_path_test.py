#!/usr/bin/env python3
"""A program does not look for its libraries in paths that are relative to the current folder.

Usage: library_path_test.py PROGRAM. Exits with 77 and prints the reason if it is skipped.
"""

import re
import shutil
import subprocess
import sys


def main():
    if shutil.which("readelf") is None:
        print("skipped: readelf not found (binutils)")
        sys.exit(77)
    output = subprocess.run(["readelf", "-d", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    if "(NEEDED)" not in output:
        sys.exit("readelf lists no library")
    for paths in re.findall(r"(?:RPATH|RUNPATH)\).*\[(.*)\]", output):
        for path in paths.split(":"):
            if not path.startswith(("/", "$ORIGIN")):
                sys.exit(f"{sys.argv[1]} looks for libraries in '{path}', which is relative to the current folder")


if __name__ == "__main__":
    main()
