#!/usr/bin/env python3
"""Lists the public headers and the public types, and refuses more of them than there are today.

A type is a class, struct, enum or concept at namespace scope outside of `detail`; tags of dtypes, encodings, devices and
operations do not count. The limits only go down: the goal is 40 headers and 90 types.

Usage: check_surface.py ROOT [--list]
"""

import pathlib
import re
import sys

MAX_HEADERS = 76
MAX_TYPES = 224
TAGS = re.compile(r"dtype/(?:dtypes|encodings|operation)\.hpp$")
TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:(?:class|struct|enum class|concept)\s+(?:\[\[nodiscard\]\]\s*)?)([A-Z]\w*)\b")


def types_of(text):
    """Names at namespace scope: they begin in the first column, as clang-format does not indent namespaces."""
    hidden = 0
    for line in text.splitlines():
        if re.match(r"namespace (?:detail|placement|layout)\b", line):
            hidden += 1
        elif hidden and re.match(r"\}  // namespace (?:detail|placement|layout)\b", line):
            hidden -= 1
        elif not hidden and (found := TYPE.match(line)) and not re.match(r"(?:class|struct) \w+;", line):
            # A specialization is not another type.
            if not re.match(r"(?:class|struct)\s+\w+<", line):
                yield found[1]


def main():
    root = pathlib.Path(sys.argv[1])
    headers = sorted(root.glob("include/htensor/**/*.h*"))
    types = {}
    for header in headers:
        if not TAGS.search(header.as_posix()):
            for name in types_of(header.read_text(encoding="utf-8")):
                types.setdefault(name, header.relative_to(root / "include"))
    if "--list" in sys.argv:
        for name, header in sorted(types.items(), key=lambda item: (str(item[1]), item[0])):
            print(f"{header}: {name}")
    print(f"check_surface: {len(headers)} public headers (goal 40), {len(types)} public types (goal 90)")
    if not headers or len(headers) > MAX_HEADERS or len(types) > MAX_TYPES:
        print(f"at most {MAX_HEADERS} headers and {MAX_TYPES} types: keep what users do not need in src/", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
