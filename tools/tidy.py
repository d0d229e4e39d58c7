#!/usr/bin/env python3
"""Runs clang-tidy on a file, unless the same file was clean before.

ccache stores which files were clean: to ccache, this program is a compiler that creates an object for each
clean file. A file is therefore checked again if the file, a file that it includes, its flags, .clang-tidy,
clang-tidy or this program has changed, but not if the project was moved. Findings are never cached.

Usage: tidy.py BUILD_FOLDER FILE
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

TIDY, CLANG = "clang-tidy-19", "clang++-19"


def analyse(folder, source):
    """Runs clang-tidy and returns its exit status. Prints the findings; prints nothing for a clean file."""
    run = subprocess.run([TIDY, "-p", str(folder), "--quiet", "--warnings-as-errors=*", str(source)],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode != 0:
        sys.stdout.buffer.write(run.stdout)
    return run.returncode


def as_compiler(arguments):
    """Called by ccache in the build folder. Also writes the list of included files (-MD) for ccache."""
    source = next(argument for argument in arguments if argument.endswith(".cpp"))
    status = analyse(pathlib.Path.cwd(), pathlib.Path(source).resolve())
    if status != 0:
        return status
    object_path = arguments[arguments.index("-o") + 1]
    replacements = {"-c": "-E", object_path: os.devnull}
    status = subprocess.run([CLANG, "-w", *(replacements.get(a, a) for a in arguments)], check=False).returncode
    if status == 0:
        pathlib.Path(object_path).write_text("clean\n", encoding="utf-8")
    return status


def through_ccache(entry, source):
    folder = pathlib.Path(entry["directory"])
    arguments = shlex.split(entry["command"])[1:]
    output = arguments.index("-o") + 1
    object_path = folder / "tidy" / arguments[output]
    object_path.parent.mkdir(parents=True, exist_ok=True)
    arguments[output] = str(object_path)
    program = pathlib.Path(shutil.which(TIDY)).resolve()
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    configs = [str(above / ".clang-tidy") for above in source.parents if (above / ".clang-tidy").exists()]
    environment = {
        **os.environ,
        "CCACHE_BASEDIR": str(pathlib.Path(__file__).resolve().parent.parent),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERTYPE": "clang",
        "CCACHE_COMPILERCHECK": f"string:{' '.join(version.split())} {program.stat().st_size} {program.stat().st_mtime_ns}",
        "CCACHE_EXTRAFILES": ":".join([__file__, *configs]),
        # Compare included files: preprocessed text lacks comments and unused macros, which clang-tidy checks.
        "CCACHE_DEPEND": "1",
    }
    command = ["ccache", os.path.abspath(__file__), *arguments, "-MD", "-MF", f"{object_path}.d"]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main():
    if "-c" in sys.argv:
        return as_compiler(sys.argv[1:])
    folder, source = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    entries = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next((entry for entry in entries if pathlib.Path(entry["file"]) == source), None)
    if entry is None or shutil.which("ccache") is None:
        return analyse(folder, source)
    return through_ccache(entry, source)


if __name__ == "__main__":
    sys.exit(main())
