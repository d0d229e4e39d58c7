#!/usr/bin/env python3
"""Checks that links, headings, files and qualified names in Markdown documents exist.

- The target of a relative link is a file or folder, and its #anchor is a heading of that document.
- A file name, also in the map of HACKING.md, is the end of the path of a file of the project.
- Each part of a qualified name in backticks (`Class::function`) is a word of the sources.

CHANGELOG.md also has names of earlier versions, so only its links are checked.

Usage: check_docs.py ROOT
"""

import pathlib
import re
import sys

from source_text import blanked

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FILE = re.compile(r"(?<![\w./*-])([\w./-]*\w\.(?:cpp|hpp|h|py|md|mjs|cmake|sh))(?!\w)(?!\.\w)")
QUALIFIED = re.compile(r"`((?:\w+::)+\w+)")
SOURCES = ("src/**/*.*", "include/**/*.h*", "python/**/*.py", "python/**/*.?pp", "tools/*.py", "bench/**/*.?pp", "bench/**/*.py",
           "examples/**/*.*pp", "examples/**/*.[chp]*", "compile_fail/**/*.*", "spec/*.md", "docs/*.md", "*.md", "cmake/*")
# Projects and headers of other projects. `x` is the placeholder for a name.
FOREIGN = re.compile(r"(?:llama|whisper)\.cpp$|^tl/expected\.hpp$|^CL/cl\.h$|(?:^|[/_])_?x[._]|^t\.")
FOREIGN_NAMES = ("std::", "fmt::", "tl::", "format_x::")


def slug(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def faults_of_links(document, text):
    for link in LINK.finditer(text):
        target, _, anchor = link[1].partition("#")
        if re.match(r"\w+:", target):
            continue
        path = document.parent / target if target else document
        if not path.exists():
            yield link.start(), f"link to {link[1]}: the file does not exist"
        elif anchor and path.suffix == ".md":
            headings = HEADING.findall(blanked(FENCE, path.read_text(encoding="utf-8")))
            if anchor not in map(slug, headings):
                yield link.start(), f"link to {link[1]}: {path.name} does not have this heading"


def faults_of_names(text, paths, words):
    for name in FILE.finditer(text):
        if not FOREIGN.search(name[1]) and not any(path == name[1] or path.endswith("/" + name[1]) for path in paths):
            yield name.start(), f"{name[1]} does not exist"
    for name in QUALIFIED.finditer(text):
        missing = [part for part in name[1].split("::") if part not in words]
        if missing and not name[1].startswith(FOREIGN_NAMES):
            yield name.start(), f"{name[1]}: the sources do not have {missing[0]}"


def main():
    root = pathlib.Path(sys.argv[1])
    sources = sorted({path for pattern in SOURCES for path in root.glob(pattern) if path.is_file()})
    paths = [str(path.relative_to(root)) for path in sources]
    words = set()
    for path in sources:
        if path.suffix != ".md":
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
    documents = sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("spec/*.md")])
    if not documents:
        sys.exit("check_docs: no documents found; is ROOT the project?")
    bad = 0
    for document in documents:
        whole = document.read_text(encoding="utf-8")
        text = blanked(FENCE, whole)
        faults = list(faults_of_links(document, text))
        if document.name != "CHANGELOG.md":
            # The map of HACKING.md is in a code block.
            names = whole if document.name == "HACKING.md" else text
            faults += faults_of_names(blanked(LINK, names), paths, words)
        for at, fault in faults:
            print(f"{document.relative_to(root)}:{text.count(chr(10), 0, at) + 1}: {fault}", file=sys.stderr)
        bad += len(faults)
    print(f"check_docs: {len(documents)} documents name files that exist" if bad == 0 else f"check_docs: {bad} faults")
    sys.exit(1 if bad else 0)


main()
