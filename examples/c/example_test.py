#!/usr/bin/env python3
"""Installs the built library and uses it from C: by find_package, by pkg-config and as a static library.

Usage: example_test.py BUILD WORK C_COMPILER SANITIZERS
The program runs under valgrind, unless the library has sanitizers. Exits with 77, after the other checks, if
valgrind or pkg-config is missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys

BUILD, WORK, COMPILER, SANITIZERS = sys.argv[1:5]
HERE = pathlib.Path(__file__).resolve().parent
WARNINGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
if SANITIZERS and "clang" in COMPILER:
    # The sanitizers of the library need the C++ part of their runtime, which a C program does not link by itself.
    WARNINGS += ["-fsanitize-link-c++-runtime", "-Wl,--no-as-needed,-lstdc++", "-Wno-unused-command-line-argument"]
skipped = []


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def run_example(program, name, environment):
    folder = pathlib.Path(WORK).resolve() / f"run_{name}"
    folder.mkdir()
    command = [program]
    if SANITIZERS:
        pass
    elif shutil.which("valgrind"):
        command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite,indirect", "--errors-for-leak-kinds=definite,indirect", *command]
    else:
        skipped.append(f"{name} under valgrind: valgrind not found (apt install valgrind)")
    output = run(*command, cwd=folder, env=environment)
    expected = ["weight [2, 3]", "author = examples/c", "weight: min 1, max 6, mean 3.5", "the last value is 6", "intact", "every tensor is the same"]
    for text in expected:
        if text not in output:
            sys.exit(f"{name}: the program printed '{output}' without '{text}'")
    print(f"{name}: passed{' under valgrind' if command[0] == 'valgrind' else ''}")


def main():
    work = pathlib.Path(WORK).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # Moves the installed tree: its files must not contain the path that it was installed to.
    run("cmake", "--install", BUILD, "--prefix", work / "first")
    prefix = (work / "first").rename(work / "prefix")
    libraries = next(prefix.glob("**/libhtensor-c.so")).parent
    environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries))

    run("cmake", "-S", HERE, "-B", work / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={COMPILER}",
        f"-DCMAKE_C_FLAGS={' '.join(WARNINGS)}")
    run("cmake", "--build", work / "build")
    run_example(work / "build" / "example", "find_package", environment)

    if not shutil.which("pkg-config"):
        skipped.append("pkg_config and archive: pkg-config not found (apt install pkg-config)")
        return
    environment["PKG_CONFIG_PATH"] = str(next(prefix.glob("**/htensor-c.pc")).parent)
    flags = run("pkg-config", "--cflags", "--libs", "htensor-c", env=environment).split()
    for word in flags:
        if "++" in word:
            sys.exit(f"pkg-config mentions C++: {word}")
    run(COMPILER, *WARNINGS, HERE / "main.c", "-o", work / "by_pkg_config", *flags)
    run_example(work / "by_pkg_config", "pkg_config", environment)

    # Leaves the static library only, as in a static build.
    for library in libraries.glob("libhtensor-c.so*"):
        library.unlink()
    flags = run("pkg-config", "--static", "--cflags", "--libs", "htensor-c", env=environment).split()
    run(COMPILER, *WARNINGS, HERE / "main.c", "-o", work / "archive", *flags)
    run_example(work / "archive", "archive", environment)


if __name__ == "__main__":
    main()
    for text in skipped:
        print(f"skipped: {text}")
    sys.exit(77 if skipped else 0)
