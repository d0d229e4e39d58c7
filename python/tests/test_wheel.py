"""The wheel that the in-tree backend builds: its files, and its use in a venv without any other package."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import textwrap
import zipfile

import pytest

import htensor

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "python" / "htensor"
EXTENSION = "htensor/_native.abi3.so"


@pytest.fixture(scope="module")
def wheel():
    """The wheel of `./dev python`, whose extension is the installed one."""
    if not SOURCES.is_dir():
        pytest.skip("not in the source tree")
    installed = pathlib.Path(htensor._model._native.__file__).read_bytes()
    for path in (ROOT / "build" / "wheel").glob("htensor-*.whl"):
        with zipfile.ZipFile(path) as archive:
            if archive.read(EXTENSION) == installed:
                return path
    pytest.skip("build/wheel has no wheel with the installed extension: run ./dev python")


def test_wheel_has_every_source_file_the_extension_and_its_libraries(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        # The names of the libraries that the extension needs are texts in it.
        needed = set(re.findall(rb"\0(lib[\w.+-]+\.so[.\d]*)(?=\0)", archive.read(EXTENSION)))
    sources = {
        path.relative_to(SOURCES.parent).as_posix()
        for path in SOURCES.rglob("*")
        if path.suffix in (".py", ".pyi") or path.name == "py.typed"
    }
    assert {"htensor/__init__.py", "htensor/_native.pyi", "htensor/py.typed", "htensor/safetensors/torch.py"} <= sources
    info = f"htensor-{htensor.__version__}.dist-info"
    libraries = {name for name in names if re.fullmatch(r"htensor/lib[^/]+\.so[.\d]*", name)}
    assert names - libraries == sources | {EXTENSION} | {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "LICENSE")}
    assert any(b"libsimdjson" in name for name in needed), needed
    assert {f"htensor/{name.decode()}" for name in needed if b"simdjson" in name or b"uring" in name} <= libraries
    # The library itself is inside of the extension.
    assert not any(b"htensor" in name for name in needed), needed


def test_record_has_the_digest_of_every_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
        assert set(rows) == set(archive.namelist())
        for name, (digest, size) in rows.items():
            if name != record:
                data = archive.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={found}", len(data)), name


def test_wheel_states_its_tag_and_needs_no_other_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        info = f"htensor-{htensor.__version__}.dist-info"
        facts = archive.read(f"{info}/WHEEL").decode()
        metadata = archive.read(f"{info}/METADATA").decode().partition("\n\n")[0].splitlines()
    assert "Root-Is-Purelib: false" in facts and f"Tag: {'-'.join(wheel.stem.split('-')[2:])}\n" in facts
    assert "Requires-Python: >=3.11" in metadata
    assert [line for line in metadata if line.startswith("Requires-Dist") and "extra ==" not in line] == []


@pytest.mark.parametrize("programs", [os.environ["PATH"], ""], ids=["no_repository", "no_git"])
def test_sdist_without_git_has_every_file_outside_of_build(tmp_path, monkeypatch, programs):
    if not SOURCES.is_dir():
        pytest.skip("not in the source tree")
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / "python" / "build_backend.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    # Only the folder build of the tree itself is left out.
    tree = tmp_path / "build" / "tree"
    files = {"CMakeLists.txt": "project(htensor VERSION 1.2.3 )", "README.md": "text", "src/a.cpp": "", "build/a.o": ""}
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    monkeypatch.setattr(backend, "ROOT", tree)
    monkeypatch.setenv("PATH", programs)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with tarfile.open(tmp_path / backend.build_sdist(tmp_path)) as archive:
        found = sorted(archive.getnames())
    assert found == [f"htensor-1.2.3/{name}" for name in ("CMakeLists.txt", "PKG-INFO", "README.md", "src/a.cpp")]


@pytest.mark.skipif(not importlib.util.find_spec("pip"), reason="pip is not installed")
def test_wheel_works_in_a_venv_without_other_packages(wheel, path, tmp_path):
    folder = tmp_path / "venv"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, env=clean)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True, env=clean, cwd=tmp_path)
    program = """
        import importlib.util, pathlib, sys
        path, target = map(pathlib.Path, sys.argv[1:])
        for name in ("numpy", "torch", "pytest", "pip"):
            assert importlib.util.find_spec(name) is None, name
        import htensor
        package = pathlib.Path(htensor.__file__).parent
        assert package.is_relative_to(sys.prefix), package
        with htensor.open(path) as model:
            assert [(n, t.type, t.shape, t.dtype) for n, t in model.items()][0] == ("blk.0.weight", "F32", (6, 8), "float32")
            assert model["ids"].stats().count == 6
        assert htensor.seal(path).path == f"{path}.htseal" and htensor.verify(path).verdict == "intact"
        htensor.convert(path, target)
        assert htensor.open(target).format == "gguf" and htensor.diff(path, target).same_tensors
        mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
        assert not any("libhtensor" in name for name in mapped), mapped
        simdjson = [pathlib.Path(name) for name in mapped if "simdjson" in name]
        assert simdjson and all(name.parent == package for name in simdjson), simdjson
    """
    done = subprocess.run(
        [folder / "bin" / "python", "-I", "-c", textwrap.dedent(program), path, tmp_path / "out.gguf"],
        capture_output=True, text=True, env=clean, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
