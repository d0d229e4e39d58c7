#!/usr/bin/env python3
"""Where a program looks for its libraries: nowhere that depends on the folder in which it is called.

Usage: library_path_test.py PROGRAM. Ends with 77, and says why, where it is skipped.
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
                sys.exit(f"{sys.argv[1]} looks for libraries in '{path}', which is the current folder's")


if __name__ == "__main__":
    main()
