"""Exceptions: classes, attributes, messages."""

import errno
import os
import pickle

import numpy as np
import pytest

import htensor


def test_missing_tensor_is_a_key_error(path):
    model = htensor.open(path)
    with pytest.raises(KeyError) as caught:
        model["blk.0.wight"]
    error = caught.value
    assert isinstance(error, htensor.NotFoundError) and isinstance(error, htensor.Error)
    assert error.code == "not_found" and error.tensor == "blk.0.wight" and error.path == str(path)
    assert "blk.0.weight" in error.hint
    # KeyError would print the message in quotes.
    assert str(error).startswith(f"{path}: tensor 'blk.0.wight' does not exist")


def test_missing_file_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        htensor.open(tmp_path / "none.gguf")
    error = caught.value
    assert isinstance(error, htensor.FileError) and isinstance(error, OSError)
    assert error.errno == errno.ENOENT and error.code == "open_failed"
    assert error.filename == error.path == str(tmp_path / "none.gguf") and error.hint
    assert str(error).startswith(f"{tmp_path / 'none.gguf'}: cannot open")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_forbidden_file_is_a_permission_error(path):
    path.chmod(0)
    with pytest.raises(PermissionError):
        htensor.open(path)


def test_special_file_is_an_os_error():
    with pytest.raises(OSError) as caught:
        htensor.open("/dev/null")
    assert caught.value.code == "not_regular_file"


def test_existing_target_is_file_exists(path):
    with pytest.raises(FileExistsError) as caught:
        htensor.save(path, {"a": np.zeros(3)})
    assert caught.value.code == "already_exists" and caught.value.errno == errno.EEXIST


def test_malformed_file_names_rule_and_hint(tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(b"<!DOCTYPE html><html></html>")
    with pytest.raises(htensor.Error) as caught:
        htensor.open(file)
    error = caught.value
    assert type(error) is htensor.Error and not isinstance(error, (OSError, KeyError))
    assert error.rule and error.hint and error.path == str(file)
    assert f"[{error.code}]" in str(error) and f"hint: {error.hint}" in str(error)


def test_errors_can_be_pickled(path, tmp_path):
    for call in (lambda: htensor.open(path)["x"], lambda: htensor.open(tmp_path / "x"), lambda: htensor.verify(path)):
        with pytest.raises(htensor.Error) as caught:
            call()
        copy = pickle.loads(pickle.dumps(caught.value))
        assert type(copy) is type(caught.value) and str(copy) == str(caught.value)
        for name in ("code", "rule", "path", "tensor", "offset", "hint"):
            assert getattr(copy, name) == getattr(caught.value, name)
        if isinstance(copy, OSError):
            assert copy.errno == caught.value.errno and copy.filename == caught.value.filename
