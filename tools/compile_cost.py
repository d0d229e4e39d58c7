#!/usr/bin/env python3
"""Measures the memory and time that translation units take to compile.

Usage: compile_cost.py BUILD [--units N] [--all]

Compiles the N units with the largest objects (default 4), or all units, one after the other and without
ccache. Exits with 1 if a unit needs more than 1.5 GiB. The CPU time is printed for information only, because
machines differ.
"""

import argparse
import json
import os
import pathlib
import shlex
import sys

MAX_BYTES = 3 << 29


def units(build):
    """Lists (object, command, folder) of all units, the largest object first."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        target = pathlib.Path(entry["directory"], command[command.index("-o") + 1])
        if target.exists():
            found.append((target, command, entry["directory"]))
    return sorted(found, key=lambda unit: unit[0].stat().st_size, reverse=True)


def cost_of(command, folder):
    """Exit status, peak resident memory in bytes and CPU seconds of the compiler and its child processes."""
    command = list(command)
    command[command.index("-o") + 1] = "/dev/null"
    # Otherwise the compiler would overwrite the dependency file of the build.
    for option in ("-MF", "-MT"):
        if option in command:
            del command[command.index(option):command.index(option) + 2]
    command = [part for part in command if part != "-MD"]
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**os.environ, "CCACHE_DISABLE": "1"})
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    failed = False
    for target, command, folder in units(options.build)[:None if options.all else options.units]:
        status, memory, seconds = cost_of(command, folder)
        source = command[command.index("-c") + 1]
        print(f"{memory / 2**20:7.0f} MiB {seconds:6.1f} s  {os.path.relpath(source, options.build.parent.parent)}", flush=True)
        if status != 0:
            print(f"{source}: the compiler ended with {status}", file=sys.stderr)
            failed = True
        elif memory > MAX_BYTES:
            print(f"{source}: needs {memory / 2**20:.0f} MiB to compile; the limit is {MAX_BYTES / 2**20:.0f} MiB", file=sys.stderr)
            print("hint: split the file, or instantiate fewer templates in it", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
