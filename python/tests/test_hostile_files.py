"""Every hostile file of the corpus raises Error with its exact code, also through the drop-in."""

import struct

import pytest
from conftest import corpus_rows

import htensor
from htensor.safetensors import SafetensorError, deserialize, safe_open

OPENS = None  # in place of a code: the file opens
# The code of each refused file, and its code with allow_incomplete=True.
CODES = {
    "gguf/iree/empty.gguf": ("duplicate_key", "duplicate_key"),
    "gguf/iree/multiple.gguf": ("duplicate_key", "duplicate_key"),
    "gguf/iree/parameter_weight_bias_1.gguf": ("duplicate_key", "duplicate_key"),
    "gguf/iree/single.gguf": ("duplicate_key", "duplicate_key"),
    "gguf/iree/single_v2.gguf": ("duplicate_key", "duplicate_key"),
    "malformed/gguf-handcrafted/DATA_BAD_ALIGN.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/DATA_INCONSISTENT_ALIGN.gguf": ("misaligned", "misaligned"),
    "malformed/gguf-handcrafted/DATA_MEM_SIZE_OVERFLOW.gguf": ("size_overflow", "size_overflow"),
    "malformed/gguf-handcrafted/DATA_NOT_ENOUGH_DATA.gguf": ("truncated", OPENS),
    "malformed/gguf-handcrafted/HEADER_BAD_MAGIC.gguf": ("bad_magic", "bad_magic"),
    "malformed/gguf-handcrafted/HEADER_BAD_N_KV.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/HEADER_BAD_N_TENSORS.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/HEADER_BAD_VERSION_0.gguf": ("bad_version", "bad_version"),
    "malformed/gguf-handcrafted/HEADER_BAD_VERSION_1.gguf": ("bad_version", "bad_version"),
    "malformed/gguf-handcrafted/HEADER_BAD_VERSION_FUTURE.gguf": ("bad_version", "bad_version"),
    "malformed/gguf-handcrafted/KV_BAD_ALIGN.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/KV_BAD_KEY_SIZE.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/KV_BAD_TYPE.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/KV_DUPLICATE_KEY.gguf": ("duplicate_key", "duplicate_key"),
    "malformed/gguf-handcrafted/KV_EMPTY_KEY.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/KV_WRONG_TYPE_ALIGN.gguf": ("bad_header", "bad_header"),
    "malformed/gguf-handcrafted/ROUNDTRIP_only_meta.gguf": ("truncated", OPENS),
    "malformed/gguf-handcrafted/TENSORS_BAD_ALIGN.gguf": ("bad_header", "bad_header"),
    # The library reads names of more than 63 bytes; the file has no data.
    "malformed/gguf-handcrafted/TENSORS_BAD_NAME_SIZE.gguf": ("truncated", OPENS),
    "malformed/gguf-handcrafted/TENSORS_BAD_N_DIMS.gguf": ("bad_shape", "bad_shape"),
    "malformed/gguf-handcrafted/TENSORS_BAD_OFFSET.gguf": ("bad_offset", "bad_offset"),
    "malformed/gguf-handcrafted/TENSORS_BAD_SHAPE.gguf": ("bad_shape", "bad_shape"),
    "malformed/gguf-handcrafted/TENSORS_BAD_TYPE.gguf": ("unsupported_encoding", "unsupported_encoding"),
    "malformed/gguf-handcrafted/TENSORS_CUSTOM_ALIGN.gguf": ("truncated", OPENS),
    # The size of the data is checked before the names.
    "malformed/gguf-handcrafted/TENSORS_DUPLICATE_NAME.gguf": ("truncated", "duplicate_tensor"),
    "malformed/gguf-handcrafted/TENSORS_INCONSISTENT_ALIGN.gguf": ("truncated", "truncated"),
    "malformed/gguf-handcrafted/TENSORS_NBYTES_TOO_BIG.gguf": ("size_overflow", "size_overflow"),
    "malformed/gguf-handcrafted/TENSORS_NE_TOO_BIG.gguf": ("size_overflow", "size_overflow"),
    "malformed/gguf-handcrafted/TENSORS_SUCCESS.gguf": ("truncated", OPENS),
    "malformed/lfs/pointer.gguf": ("bad_magic", "bad_magic"),
    "malformed/lfs/pointer.safetensors": ("bad_magic", "bad_magic"),
    "malformed/safetensors/cpp_abuse_attempt_1.safetensors": ("truncated", "truncated"),
    "malformed/safetensors/py_abuse_attempt_1.safetensors": ("truncated", "truncated"),
    "malformed/safetensors/py_pread_liar.safetensors": ("truncated", OPENS),
    "malformed/safetensors/rs_header_too_large_1.safetensors": ("header_too_large", "header_too_large"),
    "malformed/safetensors/rs_header_too_small_1.safetensors": ("bad_magic", "bad_magic"),
    "malformed/safetensors/rs_invalid_header_length_1.safetensors": ("truncated", "truncated"),
    "malformed/safetensors/rs_invalid_header_non_utf8_1.safetensors": ("bad_header", "bad_header"),
    "malformed/safetensors/rs_invalid_header_not_json_1.safetensors": ("bad_header", "bad_header"),
    "malformed/safetensors/rs_invalid_info_1.safetensors": ("size_mismatch", "size_mismatch"),
    "malformed/safetensors/rs_json_attack.safetensors": ("overlap", "overlap"),
    "malformed/safetensors/rs_metadata_incomplete_buffer_1.safetensors": ("trailing_bytes", "trailing_bytes"),
    "malformed/safetensors/rs_metadata_incomplete_buffer_2.safetensors": ("truncated", OPENS),
    "malformed/safetensors/rs_validation_overflow_1.safetensors": ("size_overflow", "size_overflow"),
    "malformed/safetensors/rs_validation_overflow_2.safetensors": ("size_overflow", "size_overflow"),
}


# The files for which the library with allow_incomplete=True and a reference reader of headers disagree (README.md of
# the corpus): the library accepts a name of 87 bytes, and refuses a size that overflows.
OTHER_HEADER_VERDICTS = {
    "malformed/gguf-handcrafted/TENSORS_BAD_NAME_SIZE.gguf",
    "malformed/gguf-handcrafted/DATA_MEM_SIZE_OVERFLOW.gguf",
}


def test_table_agrees_with_the_reference(corpus):
    rows = corpus_rows()
    assert {row["path"] for row in rows if row["verdict"] == "reject"} == set(CODES)
    refused = {row["path"] for row in rows if row["verdict_headers_only"] == "reject"}
    assert refused ^ {path for path, (_, code) in CODES.items() if code is not OPENS} == OTHER_HEADER_VERDICTS
    assert {row["path"] for row in rows} == {
        path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.suffix in (".gguf", ".safetensors", ".irpa")
    }


ACCEPTED = [row["path"] for row in corpus_rows() if row["verdict"] == "accept"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_other_file_of_the_corpus_opens(corpus, name):
    for incomplete in (False, True):
        model = htensor.open(corpus / name, allow_incomplete=incomplete)
        assert len(list(model.items())) == len(model) and isinstance(model.metadata, dict)


def check(error, code, path):
    """The error has this code and this path, and a rule and a message."""
    assert error.code == code, (path, error)
    assert error.rule and error.message and error.path == str(path), (path, error)


@pytest.mark.parametrize("name", CODES)
def test_hostile_file_has_its_code(corpus, tmp_path, name):
    path = corpus / name
    strict, incomplete = CODES[name]
    with pytest.raises(htensor.Error) as caught:
        htensor.open(path)
    check(caught.value, strict, path)
    rule = caught.value.rule
    for call in (lambda: htensor.load(path), lambda: htensor.convert(path, tmp_path / "never.irpa")):
        with pytest.raises(htensor.Error) as caught:
            call()
        check(caught.value, strict, path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(htensor.Error) as caught:
        htensor.from_bytes(path.read_bytes())
    assert (caught.value.code, caught.value.rule) == (strict, rule)
    diagnosis = htensor.validate(path)
    assert not diagnosis.readable and strict in [problem.code for problem in diagnosis.problems]
    if incomplete is OPENS:
        assert len(htensor.open(path, allow_incomplete=True)) >= 1
    else:
        with pytest.raises(htensor.Error) as caught:
            htensor.open(path, allow_incomplete=True)
        check(caught.value, incomplete, path)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("name", CODES)
def test_hostile_file_has_its_code_in_the_drop_in(corpus, name, backend):
    path = corpus / name
    with pytest.raises(SafetensorError, match="^Error while deserializing header: ") as caught:
        safe_open(path, framework="np", backend=backend)
    check(caught.value, CODES[name][0], path)
    with pytest.raises(SafetensorError, match="^Error while deserializing: ") as caught:
        deserialize(path.read_bytes())
    assert caught.value.code == CODES[name][0]


@pytest.mark.parametrize("name", ["pointer.gguf", "pointer.safetensors"])
def test_lfs_pointer_has_rule_and_hint(corpus, name):
    path = corpus / "malformed" / "lfs" / name
    for open_it in (htensor.open, lambda path: safe_open(path, "np"), htensor.seal, htensor.hash):
        with pytest.raises(htensor.Error) as caught:
            open_it(path)
        check(caught.value, "bad_magic", path)
        assert caught.value.rule == "file_is_not_an_lfs_pointer" and "git lfs" in caught.value.hint


def patched(offset, layout, value):
    """Returns a function that replaces a number in a file."""
    return lambda data: data[:offset] + struct.pack(layout, value) + data[offset + struct.calcsize(layout) :]


# Changes to multiple.irpa. The layout of that file: a header of 88 bytes; two entries of 76 bytes, at byte 96; names
# at byte 252; storage at byte 320.
IRPA = {
    "magic": (patched(0, "<4s", b"IRPB"), "bad_magic"),
    "major_version": (patched(4, "<H", 7), "bad_version"),
    "minor_version": (patched(6, "<H", 7), "bad_version"),
    "header_size": (patched(8, "<Q", 80), "bad_header"),
    "next_header_after_the_file": (patched(16, "<Q", 2**64 - 1), "truncated"),
    "next_header_in_the_header": (patched(16, "<Q", 8), "bad_magic"),
    "entry_count": (patched(32, "<Q", 2**63), "bad_header"),
    "table_offset": (patched(40, "<Q", 2**64 - 1), "bad_offset"),
    "table_size": (patched(48, "<Q", 2**64 - 1), "bad_offset"),
    "names_end_after_the_file": (patched(64, "<Q", 2**40), "truncated"),
    "storage_ends_after_the_file": (patched(80, "<Q", 2**40), "truncated"),
    "file_ends_in_the_header": (lambda data: data[:44], "truncated"),
    "file_ends_in_the_table": (lambda data: data[:200], "truncated"),
    "file_ends_in_the_storage": (lambda data: data[:330], "truncated"),
    "entry_size": (patched(96, "<Q", 8), "bad_header"),
    "entry_kind": (patched(104, "<I", 9), "unsupported_encoding"),
    "name_offset": (patched(116, "<Q", 2**32), "bad_offset"),
    "name_size": (patched(124, "<Q", 2**63), "bad_offset"),
    "name_bytes": (patched(252, "<B", 0xFF), "bad_utf8"),
    "name_of_two_tensors": (patched(256, "<4s", b"key0"), "duplicate_tensor"),
    "data_offset": (patched(156, "<Q", 2**32), "bad_offset"),
    "data_size": (patched(164, "<Q", 2**64 - 1), "bad_offset"),
}


def hostile_irpa(corpus, folder, name):
    change, code = IRPA[name]
    path = folder / "hostile.irpa"
    path.write_bytes(change((corpus / "irpa" / "iree" / "multiple.irpa").read_bytes()))
    return path, code


@pytest.mark.parametrize("name", IRPA)
def test_hostile_irpa_has_its_code(corpus, tmp_path, name):
    path, code = hostile_irpa(corpus, tmp_path, name)
    with pytest.raises(htensor.Error) as caught:
        htensor.open(path)
    check(caught.value, code, path)
    with pytest.raises(htensor.Error) as caught:
        htensor.from_bytes(path.read_bytes())
    assert caught.value.code == code
    with pytest.raises(SafetensorError) as caught:
        safe_open(path, "np")
    check(caught.value, code, path)


def test_irpa_with_a_changed_byte_opens_or_raises_error(corpus, tmp_path):
    """One byte of the header or the table, up to byte 599, has another value: the file opens or raises Error."""
    data = (corpus / "irpa" / "iree" / "mixed.irpa").read_bytes()
    end = 88 + struct.unpack_from("<Q", data, 48)[0]
    codes = set()
    for offset in range(min(end, 600)):
        for value in (0, 0x7F, 0xFF):
            damaged = data[:offset] + bytes([value]) + data[offset + 1 :]
            try:
                model = htensor.from_bytes(damaged)
                for tensor in model.values():
                    assert tensor.nbytes >= 0 and tensor.shape is not None
            except htensor.Error as error:
                assert error.rule
                codes.add(error.code)
    assert {"bad_magic", "bad_version", "bad_header", "bad_offset", "truncated"} <= codes


@pytest.mark.parametrize("name", [name for name in ACCEPTED if not name.endswith(".safetensors")])
def test_drop_in_names_the_format_of_other_files(corpus, name):
    with pytest.raises(SafetensorError, match=f"{name.rpartition('.')[2]}, not safetensors") as caught:
        safe_open(corpus / name, "np")
    assert caught.value.code == "bad_magic" and "htensor.open" in caught.value.hint
