#!/usr/bin/env python3
"""The checksum on AArch64: compiled by a cross compiler and run by qemu, if both are installed.

Usage: crc64nvme_arm_test.py ROOT. If skipped, prints the reason and exits with 77.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [root / "src" / "hash" / f"crc64nvme{part}.cpp" for part in ("", "_arm", "_x86", "_arm_test")]
    # Checked on all machines, so that renaming a source fails also where this test is skipped.
    if lost := [str(source) for source in sources if not source.is_file()]:
        sys.exit(f"missing sources: {', '.join(lost)}")
    missing = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    if missing:
        print(f"skipped: {' and '.join(missing)} not found (g++-aarch64-linux-gnu, qemu-user)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "crc64_arm_test")
        subprocess.run([COMPILER, "-std=c++20", "-O2", "-static", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
                        f"-I{root / 'include'}", f"-I{root / 'src'}", *map(str, sources), "-o", str(program)], check=True)
        run = subprocess.run([EMULATOR, str(program)], capture_output=True, text=True, check=False)
    print(run.stdout, end="")
    if run.returncode != 0 or run.stdout.split() != ["table", "pmull"]:
        sys.exit(f"a checksum is wrong, or the pmull kernel did not run: {run.stderr}")


if __name__ == "__main__":
    main()
