#!/usr/bin/env python3
"""Refuses an #include that the dependencies between folders do not allow.

An arrow leads from a folder to each folder in the DEPS of its ht_folder(...) in src/*/CMakeLists.txt; arrows
are transitive. Four more rules: public headers include only public headers, the standard library and
tl/expected.hpp; the program and the C API include only public headers of other folders; only
src/io/port/*.cpp includes headers that declare system calls; only tests include shared test code.

Usage: check_arrows.py ROOT
"""

import pathlib
import re
import sys

from source_text import TEST_FILE

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FOLDER = re.compile(r"ht_folder\(\s*NAME\s+(\w+)(.*?)\)", re.DOTALL)
KEYWORDS = {"NAME", "SOURCES", "TESTS", "TESTS_WITHOUT_UNITY", "FUZZERS", "DEPS", "LINK"}
# Headers that declare system calls. The program may include them for isatty and signals; sys/auxv.h only
# reports features of the processor.
SYSTEM = re.compile(r"^(sys/(?!auxv\.h)|linux/|unistd\.h|fcntl\.h|liburing\.h|poll\.h|dirent\.h|aio\.h)")
ALLOWED_OUTSIDE = {"tl/expected.hpp"}
# Text functions that the program shares with the library and that users do not need.
PROGRAM_TEXT = {"base/nearest_name.hpp", "base/utf8.hpp"}
# May call madvise on memory of the process: this concerns no file, and callers do not see its failures.
MEMORY_ADVICE = pathlib.PurePath("src/base/memory_hints.cpp")
# Standard headers that the C header may include.
C_STANDARD = {"stddef.h", "stdint.h"}


def read_arrows(root):
    """Maps each folder to the folders that it may include, itself included."""
    direct = {}
    for lists in sorted(root.glob("src/*/CMakeLists.txt")):
        for name, body in FOLDER.findall(lists.read_text()):
            words, deps, keyword = body.split(), [], None
            for word in words:
                if word in KEYWORDS:
                    keyword = word
                elif keyword == "DEPS":
                    deps.append(word)
            direct[name] = deps

    def reached(name, path=()):
        if name in path:
            sys.exit(f"check_arrows: dependencies form a cycle: {' -> '.join([*path, name])}")
        if name not in direct:
            sys.exit(f"check_arrows: {path[-1] if path else '?'} depends on {name}, which is not a folder")
        found = {name}
        for dep in direct[name]:
            found |= reached(dep, (*path, name))
        return found

    return {name: reached(name) for name in direct}


def included_folder(target):
    """The folder of a header below htensor/; '' for the umbrella headers, None for all other headers."""
    if target.startswith("htensor/"):
        rest = target.removeprefix("htensor/")
        return rest.split("/")[0] if "/" in rest else ""
    return None


def check_file(path, name, arrows, problems):
    public = path.parts[0] == "include"
    parts = path.parts[2:] if public else path.parts[1:]
    folder = parts[0] if len(parts) > 1 else ""
    is_test = TEST_FILE.search(path.name) is not None
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match[1] == '"', match[2]

        def refuse(why):
            problems.append(f"{path}:{number}: {target}: {why}")

        to = included_folder(target)
        # A path that begins with one of our folders is ours, in quotes or in brackets.
        if to is None and (quoted or target.split("/")[0] in arrows):
            to = target.split("/")[0]
            if folder in ("cli", "c") and to != folder and not (folder == "cli" and target in PROGRAM_TEXT) and not is_test:
                refuse("the program and the C API include only public headers")
        if to is None:
            standard = ("/" not in target and "." not in target) or (path.suffix == ".h" and target in C_STANDARD)
            if public and not standard and target not in ALLOWED_OUTSIDE:
                refuse("public headers include only the standard library and tl/expected.hpp")
            system_home = (folder == "io" and path.parent.name == "port") or path == MEMORY_ADVICE
            if SYSTEM.match(target) and not (system_home or is_test or folder in ("testing", "cli")):
                refuse("only src/io/port/*.cpp contains system calls")
        elif (to == "testing" or TEST_FILE.search(pathlib.PurePath(target).name)) and not (is_test or folder == "testing"):
            refuse("only tests include shared test code")
        elif to == "testing":
            pass
        elif public and not target.startswith("htensor/"):
            refuse("public headers include only public headers, in <>")
        elif folder == "c" and to == "":
            pass
        elif folder in arrows and to not in arrows[folder]:
            refuse(f"folder {folder} does not depend on {to or 'the umbrella header'}")


def main():
    root = pathlib.Path(sys.argv[1])
    arrows = read_arrows(root)
    if not arrows:
        sys.exit("check_arrows: no ht_folder(...) found; is ROOT the project?")
    problems = []
    files = [f for d in ("include/htensor", "src") for f in sorted((root / d).rglob("*")) if f.suffix in (".hpp", ".cpp", ".h")]
    for name in files:
        check_file(name.relative_to(root), str(name), arrows, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"check_arrows: {len(files)} files of {len(arrows)} folders include only their dependencies")


if __name__ == "__main__":
    main()
