"""Hints name keywords and functions of Python, not options of the program."""

import pathlib
import re

import numpy as np
import pytest

import htensor
from htensor import _hints

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
FOREIGN = re.compile(r"(?<![\w'-])--[a-z]|htensor (?:ls|meta|seal|verify|convert|export|load|diff)\b|\bHT_[A-Z]|\bht_[a-z]")


def hints_of_the_library():
    """Texts in the library's sources that contain an option or a call of the program, or a C identifier."""
    for file in sorted(SOURCES.rglob("*.cpp")):
        parts = file.relative_to(SOURCES).parts
        if parts[0] in ("cli", "testing", "compute", "device") or re.search(r"_(test|fuzz)\.cpp$", file.name):
            continue
        text = re.sub(r'(?<!\\)"\s*\n\s*"', "", file.read_text())
        for literal in re.findall(LITERAL, text):
            if FOREIGN.search(literal) and not literal.startswith(("ht_", "--rename '")) and " " in literal:
                yield file.name, literal


def test_every_hint_of_the_library_is_translated():
    if not SOURCES.is_dir():
        pytest.skip(f"{SOURCES} does not exist")
    found = list(hints_of_the_library())
    assert len(found) > 40
    left = [(name, hint, _hints.to_python(hint)) for name, hint in found if FOREIGN.search(_hints.to_python(hint))]
    assert not left


def test_patterns_of_names_are_translated():
    hint = "leave the tensor out with --filter '?*', or name all tensors with --rename '*=PREFIX*'"
    expected = "leave the tensor out with include='?*', or name all tensors with rename={'*': 'PREFIX*'}"
    assert _hints.to_python(hint) == expected


def test_options_of_losses_are_translated():
    for option in ("--drop-metadata", "--round", "--raw-bytes", "--lossy"):
        assert _hints.to_python(f"allow it with {option}") == f"allow it with {option[2:].replace('-', '_')}=True"


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda path, out: htensor.convert(path, path), "force=True"),
        (lambda path, out: htensor.convert(path, out / "x.bin"), "name the format with format="),
        (lambda path, out: htensor.convert(path, out / "x.gguf", rename={"none": "a"}), "list(model)"),
        (lambda path, out: htensor.convert(path, out / "x.npy"), "include="),
        (lambda path, out: htensor.convert(path, out / "x.irpa", cast={"half": "F8_E4M3"}), "round=True"),
        (lambda path, out: htensor.convert(path, out / "x.npy", include="half", drop_metadata=True, shard_size=100), "shard_size="),
        (lambda path, out: htensor.verify(path), "htensor.seal"),
        (lambda path, out: htensor.open(path, max_header=16), "max_header="),
        (lambda path, out: htensor.seal(out / "sealed.safetensors"), "force=True"),
    ],
)  # fmt: skip
def test_hints_name_keywords(path, tmp_path, call, expected):
    sealed = tmp_path / "sealed.safetensors"
    htensor.save(sealed, {"a": np.zeros(4)}, seal=True)
    sealed.write_bytes(sealed.read_bytes()[:-1] + b"\x01")
    with pytest.raises(htensor.Error) as caught:
        call(path, tmp_path)
    assert expected in caught.value.hint
    assert "--" not in str(caught.value)


def test_message_of_a_rename_names_the_keyword(path, tmp_path):
    with pytest.raises(htensor.Error) as caught:
        htensor.convert(path, tmp_path / "x.gguf", rename={"none": "a"})
    assert caught.value.message == "rename pattern 'none' matches no tensor"
    with pytest.raises(htensor.Error) as caught:
        htensor.convert(path, tmp_path / "x.gguf", rename={"blk.*": "*", "blk.0.bias": "b"})
    assert caught.value.message == "rename pattern 'blk.0.bias' matches only tensors that an earlier pattern matches"
    assert "--" not in caught.value.hint


def test_losses_have_hints_for_python(tmp_path):
    file = tmp_path / "x.gguf"
    htensor.save(file, {"a": np.zeros(32, np.float32)}, {"general.architecture": "llama"})
    plan = htensor.convert(file, tmp_path / "x.npy", dry_run=True)
    assert plan.losses
    for loss in plan.losses:
        assert "--" not in loss.hint and "htensor " not in loss.hint


def test_a_name_that_looks_like_an_option_is_unchanged(path):
    assert _hints.to_python("did you mean '--force'?") == "did you mean '--force'?"
