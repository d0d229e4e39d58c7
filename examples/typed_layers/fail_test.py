#!/usr/bin/env python3
"""Checks that HT_TYPED_LAYERS_FAIL stops the compilation, with a message that names concept, device and dtype.

    fail_test.py COMPILER INCLUDE_DIR HEADER_DIR

HEADER_DIR contains example_device.hpp.
"""

import pathlib
import re
import subprocess
import sys

EXPECTED = [r"Compatible", r"OpenCl<.*Gpu", r"F64|Float<64>"]


def main():
    compiler, include, header = sys.argv[1:]
    source = pathlib.Path(__file__).with_name("typed_layers.cpp")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-fdiagnostics-color=never", "-DHT_TYPED_LAYERS_FAIL", f"-I{include}",
               f"-I{header}", str(source)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        print("typed_layers.cpp compiles with HT_TYPED_LAYERS_FAIL, though it must not")
        return 1
    # Removes the source lines that the compiler quotes, because they contain the names, too.
    messages = re.sub(r"^ *\d* \|.*\n?", "", run.stderr, flags=re.MULTILINE)
    missing = [regex for regex in EXPECTED if not re.search(regex, messages)]
    if missing:
        print(f"the message does not name {', '.join(missing)}:\n{run.stderr}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
