"""A model is a mapping from names to tensors."""

import collections.abc
import operator
import os
import pathlib
import sys
import time
import weakref

import numpy as np
import pytest
from conftest import calls_of, safetensors_bytes

import htensor


def test_model_is_a_mapping_in_file_order(path, arrays):
    model = htensor.open(path)
    assert isinstance(model, collections.abc.Mapping)
    assert len(model) == len(arrays)
    assert list(model) == list(model.keys()) == list(arrays)
    assert [t.name for t in model.values()] == list(arrays)
    assert [(n, t.shape) for n, t in model.items()] == [(n, a.shape) for n, a in arrays.items()]
    assert "ids" in model and "other" not in model and 5 not in model
    assert model.get("other") is None and model.get("ids").name == "ids"
    assert "ids" in model.keys() and len(model.items()) == len(arrays)
    assert model == model and model != htensor.open(path)
    assert {model: 1}[model] == 1


@pytest.mark.parametrize("lookup", [operator.contains, operator.getitem])
def test_lookup_of_a_name_keeps_memory_errors(path, lookup):
    interpreter = pytest.importorskip("_testcapi", reason="this Python has no module _testcapi")
    model = htensor.open(path)
    # The text is not ASCII, so encoding it as UTF-8 allocates.
    name, error = "\u00e9" * 1000, None
    interpreter.set_nomemory(0)
    try:
        lookup(model, name)
    except Exception as caught:
        error = caught
    finally:
        interpreter.remove_mem_hooks()
    assert isinstance(error, MemoryError)
    with pytest.raises(htensor.NotFoundError):
        model[name]


@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path])
def test_path_is_anything_that_fspath_takes(path, kind):
    assert len(htensor.open(kind(path))) == 5


def test_path_with_nul_is_a_value_error(path):
    with pytest.raises(ValueError):
        htensor.open(f"{path}\0x")


def test_paths_need_not_be_utf8(path):
    other = os.path.join(os.fsencode(path.parent), b"\xff.safetensors")
    os.rename(path, other)
    model = htensor.open(other)
    assert os.fsencode(model.files[0]) == other
    with pytest.raises(FileNotFoundError) as caught:
        htensor.open(os.path.join(os.fsencode(path.parent), b"\xfe"))
    assert os.fsencode(caught.value.path).endswith(b"\xfe")


def test_model_states_its_format_files_and_metadata(path):
    model = htensor.open(path)
    assert model.format == "safetensors"
    assert model.files == [str(path)]
    assert model.metadata == {"format": "pt", "note": "é"}
    assert repr(model) == f"<htensor.Model '{path}', safetensors, 5 tensors>"


def test_folder_and_shards_are_one_model(tmp_path, path):
    target = tmp_path / "shards" / "model.safetensors"
    target.parent.mkdir()
    htensor.convert(path, target, shard_size=150)
    model = htensor.open(target.parent)
    assert len(model.files) > 1 and len(model) == 5
    assert model["ids"].file in model.files
    assert htensor.diff(path, target.parent).same_tensors


def test_closed_model_raises_and_its_tensors_stay_valid(path, arrays):
    with htensor.open(path) as model:
        tensor = model["ids"]
        lazy = model["half"]
    assert model.closed and repr(model) == "<htensor.Model, closed>"
    for use in (lambda: model["ids"], lambda: len(model), lambda: list(model), lambda: model.metadata,
                lambda: "ids" in model, lambda: htensor.hash(model)):  # fmt: skip
        with pytest.raises(ValueError, match="closed"):
            use()
    model.close()
    assert np.array_equal(tensor.numpy(), arrays["ids"])
    assert lazy.shape == (4, 4) and np.array_equal(lazy[...], arrays["half"])


def test_iterator_survives_close(path, arrays):
    model = htensor.open(path)
    names = iter(model)
    model.close()
    assert list(names) == list(arrays)


def test_from_bytes_keeps_the_buffer(path, arrays):
    data = bytearray(path.read_bytes())
    model = htensor.from_bytes(data)
    tensor = model["ids"]
    del model
    with pytest.raises(BufferError):
        data.append(0)
    assert np.array_equal(tensor.numpy(), arrays["ids"])
    del tensor
    data.append(0)


def test_from_bytes_releases_the_buffer_of_a_malformed_file():
    data = bytearray(b"not a model")
    with pytest.raises(htensor.Error):
        htensor.from_bytes(data)
    data.append(0)


def test_from_fd_duplicates_the_descriptor(path, arrays):
    with path.open("rb") as file:
        model = htensor.from_fd(file.fileno())
    assert np.array_equal(model["ids"].numpy(), arrays["ids"])


def test_max_header_limits_the_header(path):
    with pytest.raises(htensor.Error) as caught:
        htensor.open(path, max_header=16)
    assert caught.value.code == "header_too_large"
    assert len(htensor.open(path, max_header="1M")) == 5
    with pytest.raises(ValueError):
        htensor.open(path, max_header="1X")


def test_incomplete_file_lists_all_tensors(path, arrays):
    os.truncate(path, path.stat().st_size - 30)
    with pytest.raises(htensor.Error) as caught:
        htensor.open(path)
    assert caught.value.code == "truncated"
    model = htensor.open(path, allow_incomplete=True)
    assert list(model) == list(arrays)
    assert np.array_equal(model["blk.0.weight"].numpy(), arrays["blk.0.weight"])
    with pytest.raises(htensor.Error) as caught:
        model["scalar"].numpy()
    assert caught.value.code == "truncated"


def test_unknown_option_values_are_value_errors(path):
    with pytest.raises(ValueError, match="guarded"):
        htensor.open(path, faults="never")
    with pytest.raises(ValueError, match="mapped"):
        htensor.load(path, strategy="fast")


def test_names_may_be_any_text():
    names = ["", "a\0b", "é中\n", "x" * 1000]
    model = htensor.from_bytes(safetensors_bytes({name: ("U8", (1,), b"\1") for name in names}))
    assert list(model) == names
    for name in names:
        assert name in model and model[name].name == name
    assert "\ud800" not in model
    with pytest.raises(KeyError):
        model["\ud800"]
    with pytest.raises(TypeError):
        model[0]


def test_metadata_of_every_type_is_read_back(tmp_path):
    given = {
        "s": "text",
        "b": True,
        "i": 5,
        "n": -5,
        "wide": 2**40,
        "huge": 2**64 - 1,
        "f": 0.5,
        "d": 0.1,
        "u8": np.uint8(3),
        "f32": np.float32(0.1),
        "list": [1, 2, 3],
        "texts": ["a", "", "é"],
        "floats": [0.5, 1.5],
        "doubles": [0.1],
        "flags": [True, False],
        "array": np.arange(3, dtype=np.int16),
        "nested": [[1, 2], [3]],
        "typed": htensor.Value("U64", 7),
        "typed_list": htensor.Value("F32", [0.25]),
        "empty": [],
    }
    htensor.save(tmp_path / "m.gguf", {"a": np.zeros(32, np.float32)}, {"general.architecture": "x", **given})
    found = htensor.open(tmp_path / "m.gguf").metadata
    expected = {**given, "u8": 3, "f32": float(np.float32(0.1)), "array": [0, 1, 2], "typed": 7, "typed_list": [0.25]}
    for key, value in expected.items():
        assert found[key] == value and type(found[key]) is type(value), key
    # Values that were read are written again with the same types.
    htensor.save(tmp_path / "again.gguf", {"a": np.zeros(32, np.float32)}, found)
    assert htensor.open(tmp_path / "again.gguf").metadata == found


@pytest.mark.parametrize("value", [None, {}, [1, "a"], 2**64, np.zeros((2, 2)), object(), htensor.Value("U8", 300)])
def test_metadata_of_other_types_is_refused(tmp_path, value):
    with pytest.raises((TypeError, OverflowError)):
        htensor.save(tmp_path / "m.gguf", {"a": np.zeros(32, np.float32)}, {"k": value})
    assert not (tmp_path / "m.gguf").exists()


def test_sixty_thousand_tensors_are_listed_without_a_python_call_per_tensor(capsys):
    count = 60_000
    tensors = {f"model.layers.{i // 100}.experts.{i % 100}.weight": ("F32", (1,), b"\0\0\0\0") for i in range(count)}
    data = safetensors_bytes(tensors)
    begin = time.perf_counter()
    model = htensor.from_bytes(data)
    opened = time.perf_counter()
    rows = [(name, t.type, t.shape, t.nbytes) for name, t in model.items()]
    listed = time.perf_counter()
    assert len(rows) == count and [row[0] for row in rows] == list(tensors)
    assert rows[-1][1:] == ("F32", (1,), 4)
    names = list(tensors)[:1000]
    # Reading properties of tensors and looking tensors up calls no Python function.
    for listing in (lambda: [(name, t.type, t.shape, t.nbytes, t.offset) for name, t in model.items()],
                    lambda: [t.name for t in model.values()], lambda: list(model), lambda: len(model),
                    lambda: [name in model and model[name].index for name in names]):  # fmt: skip
        assert calls_of(listing) < 20
    # A listed tensor is freed before the next one is created.
    before = sys.getrefcount(htensor.Tensor)
    for tensor in model.values():
        assert sys.getrefcount(htensor.Tensor) - before < 5, tensor
    with capsys.disabled():
        print(f"\n60,000 tensors: opened in {1e3 * (opened - begin):.0f} ms, listed in {1e3 * (listed - opened):.0f} ms")


def test_model_in_memory_has_no_files(path):
    model = htensor.from_bytes(path.read_bytes())
    assert model.files == []
    assert model["blk.0.bias"].file is None
    assert repr(model) == "<htensor.Model in memory, safetensors, 5 tensors>"


def test_metadata_is_a_copy(tmp_path):
    path = tmp_path / "m.gguf"
    nested = [[1, 2], [3]]
    htensor.save(path, {"a": np.zeros(2)}, {"general.architecture": "x", "list": [1, 2], "nested": nested, "empty": []})
    model = htensor.open(path)
    expected = {**model.metadata}
    changed = model.metadata
    changed["list"].append(3)
    changed["nested"][0].append(4)
    del changed["general.architecture"]
    changed["model"] = model
    assert model.metadata == expected and model.metadata["list"] == [1, 2] and model.metadata["nested"] == nested


def test_metadata_that_refers_to_its_model_does_not_leak(path):
    model = htensor.open(path)
    model.metadata["model"] = model
    ended = weakref.ref(model)
    del model
    assert ended() is None
