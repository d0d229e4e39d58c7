#!/usr/bin/env python3
"""Checks that opening takes linear time: twice as many tensors take at most 2.2 times as many instructions.

callgrind counts the instructions, so the result does not depend on the load of the machine.
Usage: linear_time_test.py PROGRAM, the path of bench/linear_time
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FORMATS = ["safetensors", "gguf", "irpa"]
SIZES = [75_000, 150_000, 300_000, 600_000]
LIMIT = 2.2


def instructions(command, folder):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out", *command],
        capture_output=True, text=True, check=False)
    counted = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode != 0 or not counted:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return int(counted.group(1))


def main():
    program = sys.argv[1]
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: nothing was counted")
        return 77
    bad = False
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            before = None
            for size in SIZES:
                path = pathlib.Path(folder) / f"{size}.{name}"
                subprocess.run([program, "make", name, str(size), str(path)], check=True)
                count = instructions([program, "open", str(path)], folder)
                path.unlink()
                growth = count / before if before else 0
                bad = bad or growth > LIMIT
                print(f"{name} {size}: {count} instructions" + (f", {growth:.2f} times" if before else ""))
                before = count
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
