#!/usr/bin/env python3
"""Compiles htensor.h by itself, as C and C++, and the C code in README.md and at the top of the header.

Usage: header_test.py INCLUDE README COMPILER…
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


def compile_as(compiler, language, standard, include, source):
    command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include, source]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}\n{pathlib.Path(source).read_text()}")


def first_page(header):
    lines = []
    for line in header.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        if line.startswith("//   ") or line == "//":
            lines.append(line[5:])
    text = "\n".join(lines)
    return text[text.index("#include") : text.rindex("}") + 1] + "\n"


def main():
    include, readme = sys.argv[1:3]
    compilers = [name for name in sys.argv[3:] if shutil.which(name)]
    header = pathlib.Path(include) / "htensor" / "htensor.h"
    if re.search(r"\t", header.read_text(encoding="utf-8")):
        sys.exit("htensor.h has a tab")
    snippets = re.findall(r"```c\n(.*?)```", pathlib.Path(readme).read_text(encoding="utf-8"), re.DOTALL)
    program = first_page(header)
    if "int main" not in program:
        sys.exit("htensor.h has no program on its first page")
    sources = {
        "alone": "#include <htensor/htensor.h>\n",
        "twice": "#include <htensor/htensor.h>\n#include <htensor/htensor.h>\n",
        "before_dlpack": "#include <htensor/htensor.h>\n" + DLPACK + USE,
        "after_dlpack": DLPACK + "#include <htensor/htensor.h>\n" + USE,
        "readme": "".join(snippets),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**sources, "first_page": program}.items():
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
