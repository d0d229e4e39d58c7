#!/usr/bin/env python3
"""Compiles htensor.h by itself, as C and C++, and all C code of README.md, docs/c.md and the top of the header.
Checks that each function of the header has a doc comment.

Usage: header_test.py INCLUDE README C_PAGE COMPILER…
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LANGUAGES = [("c", "c11"), ("c", "c17"), ("c++", "c++20")]
# The declarations of dlpack.h that htensor.h names.
DLPACK = """
typedef struct { void* data; } DLTensor;
typedef struct DLManagedTensor { DLTensor dl_tensor; } DLManagedTensor;
typedef struct DLManagedTensorVersioned { DLTensor dl_tensor; } DLManagedTensorVersioned;
"""
USE = """
ht_status use(const ht_tensor* tensor, DLManagedTensorVersioned** managed) {
  return ht_tensor_to_dlpack_versioned(tensor, HT_ACCESS_COPY, managed, 0);
}
"""


# The variables that the code of a page may use without declaring them.
CONTEXT = {
    "error": "ht_error* error = NULL;",
    "model": "ht_model* model = NULL;",
    "tensor": "const ht_tensor* tensor = NULL;",
    "values": "float values[512];",
}


def compile_as(compiler, language, standard, include, source):
    command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include, source]
    if "block" in pathlib.Path(source).stem:
        command.insert(-1, "-Wno-unused-variable")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}\n{pathlib.Path(source).read_text()}")


def header_example(header):
    lines = []
    for line in header.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        if line.startswith("//   ") or line == "//":
            lines.append(line[5:])
    text = "\n".join(lines)
    return text[text.index("#include") : text.rindex("}") + 1] + "\n"


def programs_of(page):
    """The ```c blocks of a page, each as the body of a function."""
    blocks = re.findall(r"^```c\n(.*?)^```", pathlib.Path(page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if not blocks:
        sys.exit(f"{page} has no C code")
    for block in blocks:
        given = [text for name, text in CONTEXT.items() if not re.search(rf"\b\w+\*? {name}\b(\[.*\])*( =|;)", block)]
        lines = ["#include <htensor/htensor.h>", "#include <stdio.h>", "int use(void);", "int use(void) {", *given, block, "return 0;", "}"]
        yield "\n".join(lines) + "\n"


def functions_without_comment(header):
    """The functions of the header whose declaration does not follow a `///` comment."""
    lines = header.read_text(encoding="utf-8").splitlines()
    return [
        f"{header}:{number + 1}: {line}"
        for number, line in enumerate(lines)
        if line.startswith("HT_C_API") and not lines[number - 1].startswith("///")
    ]


def main():
    include, readme, page = sys.argv[1:4]
    compilers = [name for name in sys.argv[4:] if shutil.which(name)]
    header = pathlib.Path(include) / "htensor" / "htensor.h"
    if re.search(r"\t", header.read_text(encoding="utf-8")):
        sys.exit("htensor.h has a tab")
    bare = functions_without_comment(header)
    if bare:
        sys.exit("\n".join(["functions without a doc comment:", *bare]))
    program = header_example(header)
    if "int main" not in program:
        sys.exit("htensor.h has no program in its first comment")
    sources = {
        "alone": "#include <htensor/htensor.h>\n",
        "twice": "#include <htensor/htensor.h>\n#include <htensor/htensor.h>\n",
        "before_dlpack": "#include <htensor/htensor.h>\n" + DLPACK + USE,
        "after_dlpack": DLPACK + "#include <htensor/htensor.h>\n" + USE,
    }
    fragments = {"header_example": program}
    for name, path in (("readme", readme), ("page", page)):
        fragments.update((f"{name}_block_{number}", text) for number, text in enumerate(programs_of(path)))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**sources, **fragments}.items():
            path = pathlib.Path(folder) / f"{name}.c"
            path.write_text(text, encoding="utf-8")
            for compiler in compilers:
                for language, standard in LANGUAGES:
                    if name in sources or language == "c":
                        compile_as(compiler, language, standard, include, str(path))
    if not compilers:
        print("skipped: no compiler found")
        sys.exit(77)
    print(f"header_test: {', '.join(compilers)}")


if __name__ == "__main__":
    main()
