"""The code of README.md and docs/python.md has the right types, and README shows five lines of each language."""

import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/python.md"]

pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="not in the source tree")


def blocks_of(page, language="python"):
    """The code blocks of a page in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, page
    return found


def program_of(blocks):
    """A program in which every block is a function inside of the function of the block before. Each block therefore
    sees the names of earlier blocks, and may define them again with another type."""
    lines = []
    for number, block in enumerate(blocks):
        # torch 1.13 does not export from_dlpack explicitly.
        block = re.sub(r"(torch\.from_dlpack\(.*\))$", r"\1  # type: ignore[attr-defined]", block, flags=re.MULTILINE)
        lines.append(textwrap.indent(f"def block_{number}() -> None:\n", "    " * number))
        lines.append(textwrap.indent(block, "    " * (number + 1)))
    return "\n".join(lines)


def run_mypy(folder, *files):
    """Checks the files with the settings of the project, from a folder without the sources."""
    return subprocess.run(
        ["mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / "build" / "mypy", *files],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT / "python")},
    )  # fmt: skip


@pytest.mark.skipif(not shutil.which("mypy"), reason="mypy is not installed")
def test_mypy_accepts_the_code_of_the_pages(tmp_path):
    files = []
    for page in PAGES:
        files.append(tmp_path / f"page_{pathlib.Path(page).stem.lower()}.py")
        files[-1].write_text(program_of(blocks_of(page)), encoding="utf-8")
    done = run_mypy(tmp_path, *files)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("mypy"), reason="mypy is not installed")
def test_mypy_refuses_wrong_code(tmp_path):
    """The stubs state types: without them, mypy would accept every page."""
    program = """
        import htensor

        htensor.open("m").no_such_method()
        htensor.convert("m", 5)
        found: str = htensor.verify("m")
    """
    (tmp_path / "page_wrong.py").write_text(textwrap.dedent(program))
    done = run_mypy(tmp_path, "page_wrong.py")
    assert [int(line) for line in re.findall(r"^page_wrong\.py:(\d+): error", done.stdout, re.MULTILINE)] == [4, 5, 6], done.stdout


@pytest.mark.parametrize("language", ["c", "python"])
def test_readme_shows_five_lines(language):
    (block,) = blocks_of("README.md", language)
    assert len([line for line in block.splitlines() if line.strip()]) == 5
