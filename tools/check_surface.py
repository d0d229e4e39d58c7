#!/usr/bin/env python3
"""Counts the public headers and types, and fails if there are more than the limits.

A header is a C++ file below include/htensor. A type is a class, struct or enum at namespace scope, outside of
the namespaces in HIDDEN. Tags of dtypes, encodings, devices, slices and operations do not count.
Concepts are counted for information only. --list prints the types.

Usage: check_surface.py ROOT [--list]
"""

import pathlib
import re
import sys

MAX_HEADERS = 40
MAX_TYPES = 90
HIDDEN = re.compile(r"namespace (?:ht::inline v1::)?(?:\w+::)?(?:detail|placement|layout|operation|slice|family|fault)\b")
HIDDEN_END = re.compile(r"\}  // namespace (?:ht::inline v1::)?(?:\w+::)?(?:detail|placement|layout|operation|slice|family|fault)\b")
TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(class|struct|enum class|concept)\s+(?:\[\[nodiscard\]\]\s*)?([A-Z]\w*)\b")
# Matches dtypes and encodings, which all have this member or base, and lists of them. They do not count.
TAG_MEMBER = re.compile(r"static constexpr (?:DTypeTag|EncodingTag) tag\b|^struct \w+ : detail::Blocks|^struct (?:DTypeList|EncodingList)")
TAGS = {"Host", "OpenCl", "Gpu", "Cpu", "Core", "Linear", "Nn", "Conv", "SliceList"}


def members_of(text):
    """Yields (kind, name) at namespace scope: in the first column, as namespaces are not indented."""
    text = re.sub(r"namespace \w+ \{\n(?:(?:class|struct) \w+;\n)+\}\n", "", text)
    hidden = 0
    for match in re.finditer(r"^.*$", text, re.MULTILINE):
        line = match[0]
        if HIDDEN.match(line):
            hidden += 1
        elif hidden and HIDDEN_END.match(line):
            hidden -= 1
        elif not hidden and (found := TYPE.match(line)) and not re.match(r"(?:class|struct)\s+(?:\w+;|\w+<|\w+::)", line):
            body = text[match.start() :].split("\n};", 1)[0]
            if found[2] not in TAGS and not TAG_MEMBER.search(body):
                yield found[1], found[2]


def main():
    root = pathlib.Path(sys.argv[1])
    headers = sorted(root.glob("include/htensor/**/*.hpp"))
    if not headers:
        sys.exit("check_surface: no public headers found; is ROOT the project?")
    types, concepts = {}, {}
    for header in headers:
        for kind, name in members_of(header.read_text(encoding="utf-8")):
            (concepts if kind == "concept" else types).setdefault(name, header.relative_to(root / "include"))
    if "--list" in sys.argv:
        for name, header in sorted(types.items(), key=lambda item: (str(item[1]), item[0])):
            print(f"{header}: {name}")
    print(f"check_surface: {len(headers)} public headers, {len(types)} public types, {len(concepts)} concepts")
    if len(headers) > MAX_HEADERS or len(types) > MAX_TYPES:
        print(f"at most {MAX_HEADERS} headers and {MAX_TYPES} types: keep what users do not need in src/", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
