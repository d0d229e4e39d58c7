#!/usr/bin/env python3
"""Checks that messages, hints, comments, test names, scripts and documents use plain technical English.

Four kinds of text are checked, each against a short list of patterns:
- message: string literals with a space in sources under src/ and python/, because the program prints most of
  them; HACKING.md, "Messages", lists the words to use,
- text: comments of all sources, string literals with a space in tests, fuzzers, benchmarks and examples, and
  comments, strings and here documents of scripts (Python, shell and CMake, but not their code),
- name: names of tests in C++ and Python, with spaces instead of underscores,
- document: Markdown outside of code blocks.

Usage: check_words.py ROOT
"""

import ast
import io
import pathlib
import re
import sys
import tokenize

from source_text import TEST_FILE, TEST_NAME

# Literals come before comments, so that `//` in a literal does not start a comment. Adjacent literals are
# joined, because a phrase may be wrapped anywhere.
TOKEN = re.compile(
    r'R"(?P<mark>[^("]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*'
    r"|'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*(?:\n\s*//[^\n]*)*|/\*.*?\*/",
    re.DOTALL,
)
# Strings, comments and here documents of the shell and of CMake. `#` begins a comment only after a space.
SCRIPT_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|\'[^\'\n]*\'|(?<!\S)#[^\n]*(?:\n[ \t]*#[^\n]*)*|<<-?\s*\'?(?P<end>\w+)\'?\n.*?\n\s*(?P=end)$',
    re.DOTALL | re.MULTILINE,
)
# These two files quote the phrases that they refuse.
QUOTES = {"check_words.py", "checkers_test.py"}
EVERYWHERE = [
    (r"\b(?:tell|tells|told)\b", "name the fact: 'reports', 'says', 'is unknown'"),
    (r"\b(?:whoever|somebody|nobody)\b", "name the program, thread or caller"),
    (r"\bas (?:it|they) (?:was|were)\b", "say 'unchanged', or name the state"),
    (r"\bnone of (?:it|them)\b", "say 'no …'"),
    (r"\bturn(?:s|ed)? round\b", "say 'byte-swap' or 'transpose'"),
    (r"\b(?:come|comes|came|cut) short\b", "say 'truncated' or 'ends at byte …'"),
    (r"\bnot just\b", "state the condition that holds"),
]
TEXT = EVERYWHERE + [
    (r"\bwho\b", "name the program, thread or caller"),
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b)", "say 'is not a …', 'has no …' or 'does not exist'"),
    (r"\b(?:not|is|are|was|were) there\b(?! (?:a|an|any|no)\b)", "say 'exists', 'is missing' or 'does not exist'"),
    (r"\bto be had\b", "say 'is available' or 'out of memory'"),
    (r"\bat hand\b", "say 'is available'"),
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
    "text": TEXT,
    "name": TEXT + [(r"^(?:of|that|who|what)\b", "begin with a verb or with the subject of the rule")],
    "document": EVERYWHERE + [(r"\bthose who\b", "name the reader or the program")],
}


def texts_of_source(text, literals):
    """Comments, test names, and literals as texts of the kind `literals`."""
    for token in TOKEN.finditer(text):
        if token[0].startswith('"'):
            literal = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', token[0]))
            if " " in literal:
                yield literals, token.start(), literal
        elif token[0].startswith("/"):
            yield "text", token.start(), re.sub(r"\s*(?://+|/\*+|\*/)\s*", " ", token[0])
    for name in TEST_NAME.finditer(text):
        yield "name", name.start(1), name[1].replace("_", " ")


def texts_of_python(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield "text", starts[node.lineno - 1], node.value
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield "name", starts[node.lineno - 1], node.name.removeprefix("test_").replace("_", " ")
    # Joins the lines of a comment, because a phrase may be wrapped anywhere.
    first, lines = 0, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if not lines:
                first = token.start[0]
            lines.append(token.string.lstrip("#"))
        elif token.type != tokenize.NL and lines:
            yield "text", starts[first - 1], "".join(lines)
            lines = []
    if lines:
        yield "text", starts[first - 1], "".join(lines)


def texts_of_script(text):
    for token in SCRIPT_TOKEN.finditer(text):
        if " " in token[0]:
            yield "text", token.start(), re.sub(r"\s*\n[ \t]*#+", "", token[0])


def texts_of_document(text):
    at = 0
    for i, part in enumerate(text.split("```")):
        if i % 2 == 0:
            yield "document", at, part
        at += len(part) + 3


def texts_of_code(path, text):
    if path.suffix in (".cpp", ".hpp", ".c", ".h"):
        printed = path.parts[0] in ("src", "python") and "testing" not in path.parts and not TEST_FILE.search(path.name)
        return texts_of_source(text, "message" if printed else "text")
    if path.suffix in (".py", ".pyi"):
        return texts_of_python(text)
    if path.name in ("CMakeLists.txt", "dev", "run") or path.parts[0] == "cmake":
        return texts_of_script(text)
    return ()


def texts(root):
    folders = ("include", "src", "bench", "examples", "python", "compile_fail", "tools", "cmake", ".ci")
    files = [path for folder in folders for path in root.glob(f"{folder}/**/*") if path.is_file()]
    for name in sorted([*files, *root.glob("dev"), *root.glob("*.txt")]):
        path = name.relative_to(root)
        if name.name in QUOTES or "__pycache__" in path.parts:
            continue
        if name.suffix in (".cpp", ".hpp", ".c", ".h", ".py", ".pyi", ".txt", ".in", ".cmake", ""):
            text = name.read_text(encoding="utf-8")
            for kind, at, found in texts_of_code(path, text):
                yield name, text, kind, at, found
    for name in sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("spec/*.md")]):
        # cli.md is a fixed contract; CHANGELOG.md quotes old names.
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
    if not checked:
        sys.exit("check_words: no texts found; is ROOT the project?")
    if bad:
        sys.exit(1)
    print(f"check_words: {checked} texts in plain words")


if __name__ == "__main__":
    main()
