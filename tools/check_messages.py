#!/usr/bin/env python3
"""Messages and hints are plain technical English.

Every string literal of a source under src/ with a space in it counts, as the program prints most of them: messages and hints
of Errors, help, results. Tests, fuzzers and comments are free. HACKING.md, "Messages", has the words to use.

Usage: check_messages.py ROOT
"""

import pathlib
import re
import sys

# Literals before comments, so that `//` in a text is no comment, and neighbours are joined: a phrase may be wrapped anywhere.
TOKEN = re.compile(
    r'R"(?P<mark>[^("]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*'
    r"|'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
REFUSED = [
    (r"\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more)\b)", "say 'is not a …', 'is missing' or 'does not exist'"),
    (r"\b(?:tell|tells|told)\b", "name the fact: 'reports', 'says', 'is unknown'"),
    (r"\b(?:whoever|somebody|nobody)\b", "name the program or thing"),
    (r"\bthose (?:that|who|whose|which)\b", "name the thing"),
    (r"\bas (?:it|they) (?:was|were)\b", "say 'unchanged', or name the state"),
    (r"\bnone of (?:it|them)\b", "say 'no …'"),
    (r"\bcould not be\b", "say 'cannot …'"),
    (r"\bturn(?:s|ed)? round\b", "say 'byte-swap' or 'transpose'"),
    (r"\b(?:come|comes|came|cut) short\b", "say 'truncated' or 'ends at byte …'"),
    (r"\bnot just\b", "say what holds"),
    (r"\bfetch (?:it|them|the file|all)\b", "say 'download the file again'"),
    (r"\b(?:is|are) (?:not )?there\b", "say 'exists' or 'is missing'"),
    (r"^what (?:is|are|was|were|the|a|of)\b", "name the subject"),
]


def literals(text):
    for token in TOKEN.finditer(text):
        if token[0].startswith('"'):
            yield token.start(), "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', token[0]))


def main():
    root = pathlib.Path(sys.argv[1])
    bad = checked = 0
    for name in sorted(root.glob("src/**/*.[ch]pp")):
        if "testing" in name.parts or re.search(r"_test\.|_fuzz\.|(?:^|_)test_|^fuzz_", name.name):
            continue
        text = name.read_text(encoding="utf-8")
        for at, literal in literals(text):
            if " " not in literal:
                continue
            checked += 1
            for pattern, better in REFUSED:
                if found := re.search(pattern, literal, re.IGNORECASE):
                    line = text.count("\n", 0, at) + 1
                    print(f"{name.relative_to(root)}:{line}: '{found[0]}': {better}: \"{literal}\"", file=sys.stderr)
                    bad += 1
    if bad or not checked:
        sys.exit(1)
    print(f"check_messages: {checked} texts in plain words")


if __name__ == "__main__":
    main()
