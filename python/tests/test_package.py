"""The package as a whole: use without numpy, stubs, types, help, and the examples of the documentation."""

import ast
import importlib.util
import os
import pathlib
import pydoc
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import htensor

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_works_without_numpy(path, tmp_path):
    program = """
        import sys
        sys.modules["numpy"] = sys.modules["torch"] = None
        import htensor
        path, target = sys.argv[1:]
        model = htensor.open(path)
        rows = [(n, t.type, str(t.dtype), t.shape, t.strides, t.nbytes, t.offset) for n, t in model.items()]
        assert rows[0][:4] == ("blk.0.weight", "F32", "float32", (6, 8)), rows
        assert repr(model) and repr(model["ids"]) and model.metadata
        htensor.seal(path), htensor.verify(path), htensor.hash(path, per_tensor=True), htensor.validate(path)
        htensor.convert(path, target), htensor.diff(path, target), htensor.load(path), htensor.residency(path)
        assert model["ids"].stats().count == 6 and len(model["ids"].data) == 48 and model["ids"].tobytes()
        assert model["ids"].__array_interface__["typestr"] == "<i8"
        htensor.save(target + ".ht", {"half": model["half"]})
        htensor.from_bytes(htensor.to_bytes({"a": htensor.Raw("U8", (2,), b"ab")}))
        for use in (model["ids"].numpy, lambda: model["ids"][0], lambda: model["ids"].to("float32")):
            try:
                use()
            except ImportError as error:
                assert "numpy" in str(error)
            else:
                raise SystemError("the call works without numpy")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path, tmp_path / "out.gguf"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_import_loads_no_other_package():
    program = "import sys, htensor; print([m for m in ('numpy', 'torch', 'typing', 'inspect', 'json') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


def public(names):
    return {name for name in names if not name.startswith("__")}


def test_stub_has_every_name_of_the_extension():
    stub = pathlib.Path(htensor.__file__).with_name("_native.pyi")
    tree = ast.parse(stub.read_text())
    native = sys.modules["htensor._native"]
    names = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert set(names) == public(vars(native))
    for name, node in names.items():
        if isinstance(node, ast.ClassDef):
            stated = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            assert public(stated) == public(vars(getattr(native, name))), name


def test_all_lists_the_public_names():
    assert public(htensor.__all__) == set(htensor.__all__)
    for name in htensor.__all__:
        assert getattr(htensor, name).__module__ == "htensor", name
        assert getattr(htensor, name).__doc__, name


def test_help_is_readable():
    text = pydoc.render_doc(htensor, renderer=pydoc.plaintext)
    for words in ("open(path", "faults: 'str' = 'guarded'", "class Model", "class Tensor", "Opens a file of any format"):
        assert words in text, words
    for kind in (htensor.Model, htensor.Tensor):
        for name in vars(kind):
            if not name.startswith("_"):
                assert getattr(kind, name).__doc__, (kind, name)


def test_version_has_three_numbers():
    assert htensor.__version__.count(".") == 2
    assert isinstance(htensor.cpu_features(), list)


@pytest.mark.skipif(not shutil.which("mypy"), reason="mypy is not installed")
@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not in the source tree")
def test_mypy_accepts_package_and_examples():
    files = ["python/htensor", *map(str, sorted((ROOT / "examples").glob("python/*.py")))]
    done = subprocess.run(
        ["mypy", "--config-file", "pyproject.toml", "--cache-dir", str(ROOT / "build" / "mypy"), *files],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "MYPYPATH": "python"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_examples_of_the_documentation_run(tmp_path, monkeypatch, page):
    """The code blocks of a page run in order, in a folder with a model."""
    if not (ROOT / page).exists():
        pytest.skip("not in the source tree")
    import numpy as np

    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    htensor.save("model.safetensors", {"blk.0.attn_q.weight": weights, "blk.0.attn_q.bias": weights[0]}, {"format": "pt"})
    htensor.convert("model.safetensors", "model.gguf", quantize={"*weight": "Q8_0"})
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        if "torch" in block and not importlib.util.find_spec("torch"):
            continue
        exec(compile(block, page, "exec"), names)


def test_example_runs(path, tmp_path):
    example = ROOT / "examples" / "python" / "weights.py"
    if not example.exists():
        pytest.skip("not in the source tree")
    command = [sys.executable, example, path, tmp_path / "out.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "5 tensors" in done.stdout and "sealed: " in done.stdout
    assert htensor.open(tmp_path / "out.safetensors")["blk.0.weight"].type == "BF16"
    assert subprocess.run([*command[:2], "missing"], capture_output=True, check=False).returncode == 1
