#!/usr/bin/env python3
"""Checks that HT_TRY in a braced initializer is the first member.

When HT_TRY returns from within `Aggregate{member, HT_TRY(…)}`, g++ 12 does not destroy the members before it.

Usage: check_try.py ROOT
"""

import pathlib
import re
import sys

from source_text import blanked

# Strings and comments, which may contain braces and commas.
IGNORED = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*', re.DOTALL)
TEMPLATE_ARGUMENTS = re.compile(r"(?<=\w)<[^<>;{}()]*>")
CLOSING = {")": "(", "]": "[", "}": "{"}


def code_of(text):
    """The text with spaces for literals, comments and template arguments, which may contain commas."""
    text, before = blanked(IGNORED, text), None
    while text != before:
        before, text = text, blanked(TEMPLATE_ARGUMENTS, text)
    return text


def follows_a_member(text, at):
    """Whether a member of the same braced initializer comes before the HT_TRY at this position."""
    has_comma = False
    open_brackets = []
    for i in range(at - 1, -1, -1):
        char = text[i]
        if char in CLOSING:
            open_brackets.append(CLOSING[char])
        elif open_brackets:
            if char == open_brackets[-1]:
                open_brackets.pop()
        elif char == ";":
            return False
        elif char == "(":
            has_comma = False  # arguments of a call are destroyed
        elif char == "{":
            return has_comma
        elif char == ",":
            has_comma = True
    return False


def main():
    root = pathlib.Path(sys.argv[1])
    bad = checked = 0
    for folder in ("include", "src", "examples", "bench"):
        for name in sorted(root.glob(f"{folder}/**/*.[ch]pp")):
            text = code_of(name.read_text(encoding="utf-8"))
            for found in re.finditer(r"\bHT_TRY\(", text):
                checked += 1
                if follows_a_member(text, found.start()):
                    line = text.count("\n", 0, found.start()) + 1
                    print(f"{name.relative_to(root)}:{line}: HT_TRY after a member of a braced initializer leaks that "
                          "member: assign its value to a variable first", file=sys.stderr)
                    bad += 1
    if checked == 0:
        sys.exit("check_try: no HT_TRY found; is ROOT the project?")
    sys.exit(1 if bad else 0)


main()
