#!/usr/bin/env python3
"""Checks that libhtensor-c.so exports exactly the functions that symbols.txt lists and htensor.h declares.

Usage: symbols_test.py LIBRARY HEADER SYMBOLS [--write]
--write first lists the declared functions in SYMBOLS. Exits with 77 if nm is not installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

DECLARATION = re.compile(r"^HT_C_API\b[^;]*?\b(ht_\w+)\(", re.MULTILINE)


def differences(found, expected):
    return [f"+{name}" for name in sorted(found - expected)] + [f"-{name}" for name in sorted(expected - found)]


def main():
    library, header, symbols = sys.argv[1:4]
    if shutil.which("nm") is None:
        print("skipped: nm not found (binutils)")
        sys.exit(77)
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    # A name with its version is "ht_save@@HTENSOR_0"; the version itself is an absolute symbol.
    exported = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
    declared = set(DECLARATION.findall(pathlib.Path(header).read_text(encoding="utf-8")))
    if "--write" in sys.argv:
        pathlib.Path(symbols).write_text("".join(f"{name}\n" for name in sorted(declared)))
    listed = set(pathlib.Path(symbols).read_text(encoding="utf-8").split())
    bad = differences(exported, listed)
    if bad:
        sys.exit(f"{library} and {symbols} differ: {' '.join(bad)}")
    bad = differences(declared, listed)
    if bad:
        sys.exit(f"{header} and {symbols} differ: {' '.join(bad)}")
    versions = {line.split("@@")[1] for line in lines if "@@" in line}
    if versions != {"HTENSOR_0"}:
        sys.exit(f"the symbols have the versions {sorted(versions)}")
    print(f"symbols_test: {len(listed)} functions")


if __name__ == "__main__":
    main()
