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


def rows(corpus):
    lines = (corpus / "expected.tsv").read_text().splitlines()
    keys = lines[0].split("\t")
    return [dict(zip(keys, line.split("\t"))) for line in lines[1:]]


# Differences from the reference (corpus/README.md): names of 87 bytes are accepted with a warning, and a size
# that overflows is always refused.
ACCEPTED = {"TENSORS_BAD_NAME_SIZE.gguf"}
REFUSED = {"DATA_MEM_SIZE_OVERFLOW.gguf"}


# The codes that the corpus may cause; codes never change.
CODES = {
    "bad_header", "bad_magic", "bad_version", "truncated", "duplicate_key", "duplicate_tensor", "bad_dtype", "bad_shape",
    "size_overflow", "size_mismatch", "bad_offset", "header_too_large", "bad_utf8", "misaligned", "overlap", "gap",
    "trailing_bytes", "bad_name", "unsupported_encoding",
}  # fmt: skip


def test_files_of_the_corpus_give_the_verdict_of_their_reference(corpus):
    refused = {}
    for row in rows(corpus):
        path = corpus / row["path"]
        for incomplete, column in ((False, "verdict"), (True, "verdict_headers_only")):
            expected = row[column] == "accept"
            if path.name in REFUSED:
                expected = False
            try:
                # A part of a split model opens all parts. A GGUF without data lacks the bytes of its tensors.
                model = htensor.open(path, allow_incomplete=incomplete)
                accepted = True
                assert len(list(model.items())) == len(model)
                model.metadata
            except htensor.Error as error:
                accepted = False
                refused[row["path"]] = error.code
                assert error.code in CODES, (path, error)
                assert error.rule and error.message and error.path
            if path.name not in ACCEPTED:
                assert accepted == expected, (row, incomplete)
    assert len(refused) > 30


@pytest.mark.parametrize(
    "name, code",
    [
        ("gguf-handcrafted/HEADER_BAD_MAGIC.gguf", "bad_magic"),
        ("gguf-handcrafted/HEADER_BAD_VERSION_FUTURE.gguf", "bad_version"),
        ("gguf-handcrafted/KV_DUPLICATE_KEY.gguf", "duplicate_key"),
        ("gguf-handcrafted/TENSORS_BAD_TYPE.gguf", "unsupported_encoding"),
        ("gguf-handcrafted/DATA_NOT_ENOUGH_DATA.gguf", "truncated"),
        ("safetensors/rs_header_too_large_1.safetensors", "header_too_large"),
        ("safetensors/rs_invalid_header_non_utf8_1.safetensors", "bad_header"),
        ("safetensors/rs_metadata_incomplete_buffer_2.safetensors", "truncated"),
        ("safetensors/rs_validation_overflow_1.safetensors", "size_overflow"),
    ],
)
def test_hostile_files_have_their_code(corpus, name, code):
    path = corpus / "malformed" / name
    with pytest.raises(htensor.Error) as caught:
        htensor.open(path)
    assert caught.value.code == code
    diagnosis = htensor.validate(path)
    assert not diagnosis.readable and diagnosis.problems[0].code == code


def test_pointer_of_git_lfs_is_named(corpus):
    with pytest.raises(htensor.Error) as caught:
        htensor.open(corpus / "malformed" / "lfs" / "pointer.safetensors")
    assert "LFS" in str(caught.value)
