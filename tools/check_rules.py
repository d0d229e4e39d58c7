#!/usr/bin/env python3
"""Checks that each rule of an Error has a test of the same name.

A rule is the literal after an error code: Error(ErrorCode::x, "rule", ...), fail(...), or any helper that
takes both in this order. A test is TEST(Unit, rule) or a variant such as TEST_F. Rules of formats must also
be listed in docs/formats.md. In the folders tensor, compute and device, each error must have a hint.

Usage: check_rules.py ROOT
"""

import pathlib
import re
import sys

from source_text import TEST_FILE, TEST_NAME

COMMENT = re.compile(r"//.*")
# Skips `{ErrorCode::x, "x"`, an entry of the table of codes.
RULE = re.compile(r'(?<!\{)ErrorCode::\w+\s*,\s*"(\w+)"')
# Codes that are computed, `Error(facts.code, "x"`, and helpers that set the code themselves.
HELPER = re.compile(r'(?:\b(?:failed|outside|would_lose_error)\(|\bcode_for\(\w+\),|\bError\((?:[\w.()]+\.)?code,)\s*"(\w+)"')

# Folders whose errors must have a hint, in the same statement: `Error(...).with_hint(...)`.
HINTED = {"tensor", "compute", "device"}


def without_hint(text):
    """Rules whose statement, up to the next semicolon, has no hint."""
    return [found[1] for found in RULE.finditer(text) if ".with_hint(" not in text[found.start() : text.find(";", found.end())]]


def main():
    root = pathlib.Path(sys.argv[1])
    rules, tests, unhinted = {}, set(), []
    for name in sorted([*root.glob("src/**/*.[ch]pp"), *root.glob("include/**/*.hpp")]):
        text = name.read_text(encoding="utf-8")
        if TEST_FILE.search(name.name):
            tests.update(TEST_NAME.findall(text))
        elif "testing" not in name.parts:
            text = COMMENT.sub("", text)
            for rule in RULE.findall(text) + HELPER.findall(text):
                rules.setdefault(rule, name.relative_to(root))
            if HINTED & set(name.relative_to(root).parts):
                unhinted += [(rule, name.relative_to(root)) for rule in without_hint(text)]
    if not rules:
        sys.exit("check_rules: no rules found; is ROOT the project?")
    missing = {rule: where for rule, where in rules.items() if rule not in tests}
    for rule, where in missing.items():
        print(f"{where}: no test is named after the rule {rule}", file=sys.stderr)
    page = root / "docs" / "formats.md"
    documented = page.read_text(encoding="utf-8") if page.exists() else ""
    undocumented = {rule: where for rule, where in rules.items() if "format" in where.parts and f"`{rule}`" not in documented}
    for rule, where in undocumented.items():
        print(f"{where}: docs/formats.md does not list the rule {rule}", file=sys.stderr)
    for rule, where in unhinted:
        print(f"{where}: the error of the rule {rule} has no hint", file=sys.stderr)
    if missing or undocumented or unhinted:
        sys.exit(1)
    print(f"check_rules: {len(rules)} rules, each with a test of its name")


if __name__ == "__main__":
    main()
