#!/usr/bin/env python3
"""Checks that messages, hints, comments and documents use plain technical English.

Three kinds of text are checked, each against a short list of patterns:
- string literals with a space in sources under src/ and python/, because the program prints most of them;
  HACKING.md, "Messages", lists the words to use,
- comments of headers and sources under include/, src/, bench/, examples/ and python/,
- Markdown documents, outside of code blocks.
Tests and fuzzers are not checked.

Usage: check_words.py ROOT
"""

import pathlib
import re
import sys

# Literals come before comments, so that `//` in a literal does not start a comment. Adjacent literals are
# joined, because a phrase may be wrapped anywhere.
TOKEN = re.compile(
    r'R"(?P<mark>[^("]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*'
    r"|'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*(?:\n\s*//[^\n]*)*|/\*.*?\*/",
    re.DOTALL,
)
EVERYWHERE = [
    (r"\b(?:tell|tells|told)\b", "name the fact: 'reports', 'says', 'is unknown'"),
    (r"\b(?:whoever|somebody|nobody)\b", "name the program, thread or caller"),
    (r"\bas (?:it|they) (?:was|were)\b", "say 'unchanged', or name the state"),
    (r"\bnone of (?:it|them)\b", "say 'no …'"),
    (r"\bturn(?:s|ed)? round\b", "say 'byte-swap' or 'transpose'"),
    (r"\b(?:come|comes|came|cut) short\b", "say 'truncated' or 'ends at byte …'"),
    (r"\bnot just\b", "state the condition that holds"),
]
REFUSED = {
    "message": EVERYWHERE
    + [
        (r"\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more)\b)", "say 'is not a …', 'is missing' or 'does not exist'"),
        (r"\bthose (?:that|who|whose|which)\b", "name the thing"),
        (r"\bcould not be\b", "say 'cannot …'"),
        (r"\bfetch (?:it|them|the file|all)\b", "say 'download the file again'"),
        (r"\b(?:is|are) (?:not )?there\b", "say 'exists' or 'is missing'"),
        (r"^what (?:is|are|was|were|the|a|of)\b", "name the subject"),
    ],
    "comment": EVERYWHERE
    + [
        (r"\bthose who\b", "name the caller or the program"),
        (r"(?<!there )\b(?:is|are) no (?!longer\b|more\b)", "say 'is not a …'"),
    ],
    "document": EVERYWHERE + [(r"\bthose who\b", "name the reader or the program")],
}


def texts_of_source(text):
    for token in TOKEN.finditer(text):
        if token[0].startswith('"'):
            literal = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', token[0]))
            if " " in literal:
                yield "message", token.start(), literal
        elif token[0].startswith("/"):
            yield "comment", token.start(), re.sub(r"\s*(?://+|/\*+|\*/)\s*", " ", token[0])


def texts_of_document(text):
    at = 0
    for i, part in enumerate(text.split("```")):
        if i % 2 == 0:
            yield "document", at, part
        at += len(part) + 3


def texts(root):
    folders = ("include", "src", "bench", "examples", "python")
    sources = [path for folder in folders for path in root.glob(f"{folder}/**/*") if path.suffix in (".cpp", ".hpp", ".c", ".h")]
    for name in sorted(sources):
        if "testing" in name.relative_to(root).parts or re.search(r"_test\.|_fuzz\.|(?:^|_)test_|^fuzz_", name.name):
            continue
        text = name.read_text(encoding="utf-8")
        for kind, at, found in texts_of_source(text):
            if kind == "comment" or name.relative_to(root).parts[0] in ("src", "python"):
                yield name, text, kind, at, found
    for name in sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("spec/*.md")]):
        # cli.md, the contract of the program, is not ours to change; CHANGELOG.md quotes old names.
        if name.name not in ("cli.md", "CHANGELOG.md"):
            text = name.read_text(encoding="utf-8")
            for kind, at, found in texts_of_document(text):
                yield name, text, kind, at, found


def main():
    root = pathlib.Path(sys.argv[1])
    bad = checked = 0
    for name, text, kind, at, found in texts(root):
        checked += 1
        for pattern, better in REFUSED[kind]:
            if match := re.search(pattern, found, re.IGNORECASE):
                offset = match.start() if kind == "document" else 0
                line = text.count("\n", 0, at + offset) + 1
                near = " ".join(found[max(match.start() - 40, 0):match.end() + 40].split())
                print(f"{name.relative_to(root)}:{line}: '{match[0]}': {better}: \"{near}\"", file=sys.stderr)
                bad += 1
    if bad or not checked:
        sys.exit(1)
    print(f"check_words: {checked} texts in plain words")


if __name__ == "__main__":
    main()
