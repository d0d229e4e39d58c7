"""safe_open of htensor.safetensors: listing, arrays, slices and errors, with numpy."""

import gc
import json
import os
import pickle
import random
import threading

import pytest
from conftest import calls_of, corpus_rows, file_of, mappings_of

np = pytest.importorskip("numpy", reason="numpy is not installed")

import htensor
from htensor.safetensors import SafetensorError, _safe_open_handle, safe_open
from htensor.safetensors.numpy import load, load_file, save_file

BACKENDS = ["mmap", "pread"]


@pytest.fixture
def path(tmp_path):
    arrays = {"b": np.arange(24.0).reshape(2, 3, 4), "a": np.arange(5, dtype="i2"), "e": np.zeros((0, 4), "f4")}
    save_file(arrays, tmp_path / "model.safetensors", metadata={"format": "np"})
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_is_listed_and_read(path, backend):
    with safe_open(path, framework="np", backend=backend) as file:
        assert file.keys() == ["a", "b", "e"] and file.offset_keys() == ["b", "e", "a"]
        assert file.metadata() == {"format": "np"}
        tensors = file.get_tensors()
        assert list(tensors) == ["b", "e", "a"]
        assert np.array_equal(file.get_tensor("b"), np.arange(24.0).reshape(2, 3, 4))
        part = file.get_slice("a")
        assert part.get_shape() == [5] and part.get_dtype() == "I16"
    assert tensors["e"].shape == (0, 4) and tensors["a"].dtype == np.int16
    assert all(array.flags.writeable for array in tensors.values())
    assert np.array_equal(part[1:], [1, 2, 3, 4])


def test_frameworks_and_paths_of_the_reference_are_accepted(path):
    for framework in ("np", "numpy"):
        for name in (path, str(path)):
            assert safe_open(name, framework).keys() == ["a", "b", "e"]
    assert safe_open(path, framework="np", device=None).keys() == ["a", "b", "e"]


def test_the_metadata_is_none_only_if_the_file_has_none(tmp_path):
    for header, metadata in [(b"{}", None), (b'{"__metadata__":{}}', {}), (b'{"__metadata__":null}', None),
                             (b'{"__metadata__":{"a":"b"}}', {"a": "b"})]:  # fmt: skip
        (tmp_path / "m").write_bytes(file_of(header))
        assert safe_open(tmp_path / "m", "np").metadata() == metadata


def test_a_closed_file_is_an_error_but_its_arrays_stay_valid(path):
    with safe_open(path, "np") as file:
        array, part = file.get_tensor("b"), file.get_slice("b")
    for call in (file.keys, file.offset_keys, file.metadata, file.get_tensors):
        with pytest.raises(SafetensorError, match="^File is closed$"):
            call()
    for call in (file.get_tensor, file.get_slice):
        with pytest.raises(SafetensorError, match="^File is closed$"):
            call("b")
    os.remove(path)
    assert array[1, 2, 3] == 23 and part[0, 0, 1] == 1


def test_writes_are_private_and_seen_by_arrays_of_the_same_file(path):
    with safe_open(path, "np") as file:
        whole, part = file.get_tensor("b"), file.get_slice("b")[1, :, 1:]
    assert np.shares_memory(whole, part)
    whole[1, 0, 1] = -1
    assert part[0, 0] == -1
    assert load_file(path)["b"][1, 0, 1] == 13


def test_arrays_of_the_pread_backend_have_memory_of_their_own(path):
    with safe_open(path, "np", backend="pread") as file:
        first, second = file.get_tensor("b"), file.get_tensor("b")
    assert not np.shares_memory(first, second)
    first[:] = -1
    assert second[1, 2, 3] == 23


def test_the_file_is_unmapped_with_its_last_array(path):
    with safe_open(path, "np") as file:
        array = file.get_slice("b")[0]
    assert mappings_of(path) > 0
    del file, array
    gc.collect()
    assert mappings_of(path) == 0


def test_a_file_that_is_not_in_the_page_cache_is_read_into_memory(tmp_path):
    arrays = {str(i): np.random.default_rng(i).integers(0, 255, 1 << 20, dtype="u1") for i in range(8)}
    save_file(arrays, tmp_path / "m")
    with open(tmp_path / "m", "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cached = safe_open(tmp_path / "m", "np")._file._is_cached()
    found = load_file(tmp_path / "m")
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    if cached:
        pytest.skip("the file system keeps the file in memory")
    assert mappings_of(tmp_path / "m") == 0
    found["0"][:] = 0
    assert np.array_equal(load_file(tmp_path / "m")["0"], arrays["0"])


def test_a_file_object_is_opened_by_its_name(path):
    with open(path) as source, _safe_open_handle(source, framework="np", device="cpu") as file:
        assert file.get_tensor("a")[3] == 3
    with pytest.raises(AttributeError):
        _safe_open_handle("name", framework="np")


# Slices.


def random_index(draw, shape):
    items = []
    for size in shape[: draw.randrange(0, len(shape) + 1)]:
        kind = draw.randrange(4)
        if kind == 0:
            items.append(draw.randrange(-size, size))
        elif kind == 1:
            start = draw.randrange(-size, size)
            items.append(slice(start, draw.randrange(start % size, size + 1), draw.choice([None, 1, 2, 3])))
        elif kind == 2:
            items.append(slice(draw.choice([None, draw.randrange(size)]), None, draw.choice([None, 1, 2, 7])))
        else:
            items.append(slice(None, draw.choice([None, draw.randrange(size + 1)])))
    if draw.random() < 0.3:
        items.insert(draw.randrange(len(items) + 1), Ellipsis)
        after = len(items) - items.index(Ellipsis) - 1
        # The items were generated for the first dimensions, so items after the ellipsis are removed.
        del items[len(items) - after :]
    return tuple(items) if len(items) != 1 or draw.random() < 0.5 else items[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(20))
def test_slices_equal_those_of_numpy(seed, backend, tmp_path):
    draw = random.Random(seed)
    shape = [draw.randrange(1, 7) for _ in range(draw.randrange(1, 5))]
    array = np.random.default_rng(seed).integers(0, 127, shape, dtype=draw.choice(["i2", "u1", "i8"]))
    save_file({"pad": np.zeros(seed, "u1"), "a": array}, tmp_path / "m")
    with safe_open(tmp_path / "m", "np", backend=backend) as file:
        part = file.get_slice("a")
        for _ in range(40):
            index = random_index(draw, shape)
            found = part[index]
            assert isinstance(found, np.ndarray) and found.dtype == array.dtype, index
            assert np.array_equal(found, array[index]) and found.shape == np.shape(array[index]), index


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("index, message", [
    ((slice(None), 0, -5), "Invalid index -5 for dimension 2 of size 4"),
    ([0, 1], "Non empty lists are not implemented"),
    ((0, 3), "during slicing [0, 3]: index 3 out of bounds for tensor dimension #1 of size 3"),
    (slice(0, 5), "during slicing [0:5]: index 4 out of bounds for tensor dimension #0 of size 2"),
    ((slice(2, None), slice(1, None, 2)),
     "during slicing [2:, 1::2]: index 2 out of bounds for tensor dimension #0 of size 2"),
    ((0, 0, 0, 0), "during slicing [0, 0, 0, 0]: more slicing indexes than dimensions in tensor"),
    ((Ellipsis, Ellipsis), "Only one ellipsis (...) is allowed in slice index"),
    (slice(None, None, -1), "Slice step must be a positive integer, got -1"),
    (slice(None, None, 0), "Slice step must be a positive integer, got 0"),
    ((0, None), "Unsupported slice index at position 1: expected slice, int, or ellipsis"),
    (True, "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
    ("b", "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
])  # fmt: skip
def test_wrong_indices_have_the_text_of_the_reference(path, backend, index, message):
    part = safe_open(path, "np", backend=backend).get_slice("b")
    with pytest.raises(SafetensorError) as caught:
        part[index]
    # The table omits the texts that all messages of slicing share.
    message = message.replace("during slicing", "Error during slicing").replace("]: ", "] with shape [2, 3, 4]: ")
    assert str(caught.value) == message and caught.value.code == "out_of_bounds"


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_selections_keep_the_other_dimensions(path, backend):
    file = safe_open(path, "np", backend=backend)
    assert file.get_slice("b")[[]].shape == (0, 3, 4)
    assert file.get_slice("b")[1:1, :, ::2].shape == (0, 3, 2)
    assert file.get_slice("e")[:, 1:].shape == (0, 3)
    assert file.get_slice("a")[np.int64(2)] == 2


# Errors.


def test_files_that_cannot_be_opened_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        safe_open("notafile", framework="np")
    assert str(caught.value) == "No such file or directory: notafile" and caught.value.errno == 2
    with pytest.raises(OSError):
        safe_open(tmp_path, framework="np")
    if os.geteuid():
        (tmp_path / "secret").touch(mode=0)
        with pytest.raises(PermissionError):
            safe_open(tmp_path / "secret", framework="np")


@pytest.mark.parametrize("arguments, message", [
    ({"framework": "caffe"}, "framework caffe is invalid"),
    ({"device": "cuda:x"}, "device cuda:x is invalid"),
    ({"device": "gpu"}, "device gpu is invalid"),
    ({"device": -1}, "device -1 is invalid"),
    ({"device": "mps:1"}, "device mps:1 is invalid: only mps or mps:0 is supported"),
    ({"device": "cuda:1"}, "Device cuda:1 is not supported for framework numpy"),
    ({"backend": "none"}, 'backend "none" is invalid (expected one of: "mmap", "pread")'),
])  # fmt: skip
def test_wrong_arguments_have_the_text_of_the_reference(path, arguments, message):
    with pytest.raises(SafetensorError) as caught:
        safe_open(path, **{"framework": "np", **arguments})
    assert str(caught.value) == message


@pytest.mark.parametrize("framework", ["tf", "flax", "mlx", "paddle"])
def test_other_frameworks_are_an_import_error(path, framework):
    with pytest.raises(ImportError, match="numpy and torch"):
        safe_open(path, framework=framework)


def test_a_missing_tensor_has_the_text_of_the_reference(path):
    with safe_open(path, "np") as file, pytest.raises(SafetensorError) as caught:
        file.get_tensor("bb")
    assert str(caught.value) == "File does not contain tensor bb" and caught.value.code == "not_found"
    assert caught.value.hint == "did you mean 'b'?"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_broken_file_is_refused_with_the_rule(tmp_path, backend):
    (tmp_path / "m").write_bytes(file_of(b'{"a":{"dtype":"F32","shape":[1024,1024],"data_offsets":[0,4194304]}}', b"x"))
    with pytest.raises(SafetensorError, match="^Error while deserializing header: ") as caught:
        safe_open(tmp_path / "m", "np", backend=backend)
    assert (caught.value.code, caught.value.rule) == ("truncated", "safetensors_data_is_complete")
    assert caught.value.path == str(tmp_path / "m") and caught.value.hint


def test_a_file_of_another_format_is_refused_with_a_hint(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(4))
    with pytest.raises(SafetensorError, match="npy, not safetensors") as caught:
        safe_open(tmp_path / "a.npy", "np")
    assert "htensor.open" in caught.value.hint


def test_a_file_that_shrinks_is_an_error_of_the_pread_backend(path):
    file = safe_open(path, "np", backend="pread")
    os.truncate(path, os.path.getsize(path) - 8)
    with pytest.raises(SafetensorError) as caught:
        file.get_tensor("a")
    assert caught.value.path == str(path)


def test_dtypes_that_numpy_lacks_are_not_reinterpreted(tmp_path):
    (tmp_path / "m").write_bytes(file_of(b'{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}', b"abc"))
    file = safe_open(tmp_path / "m", "np")
    assert file.get_slice("a").get_dtype() == "F6_E2M3"
    with pytest.raises(SafetensorError, match="numpy has no dtype for F6_E2M3") as caught:
        file.get_tensor("a")
    assert "htensor.open" in caught.value.hint


def test_bf16_needs_ml_dtypes(tmp_path):
    (tmp_path / "m").write_bytes(file_of(b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}', b"\x80?\0@"))
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(SafetensorError, match="numpy has no dtype for BF16"):
            load_file(tmp_path / "m")
    else:
        assert load_file(tmp_path / "m")["a"].dtype == ml_dtypes.bfloat16


def test_errors_can_be_pickled():
    for error in (SafetensorError(), SafetensorError("boom"), SafetensorError("a", code="overlap", hint="b", offset=3)):
        found = pickle.loads(pickle.dumps(error))
        assert type(found) is SafetensorError and found.args == error.args and str(found) == str(error)
        assert (found.code, found.hint, found.offset) == (error.code, error.hint, error.offset)


ACCEPTED = [row["path"] for row in corpus_rows() if row["verdict"] == "accept" and row["path"].endswith(".safetensors")]


@pytest.mark.parametrize("name", ACCEPTED)
def test_files_of_other_projects_are_opened(corpus, name):
    with safe_open(corpus / name, "np") as file:
        found = {key: file.get_slice(key) for key in file.keys()}
    assert sorted(found) == sorted(htensor.from_bytes((corpus / name).read_bytes()))


# Threads.


def test_threads_share_one_file(path):
    failures = []
    with safe_open(path, "np") as file:
        barrier = threading.Barrier(8)

        def work(seed):
            draw = random.Random(seed)
            barrier.wait()
            try:
                for _ in range(200):
                    i = draw.randrange(2)
                    assert file.get_slice("b")[i, 1:, 0].tolist() == [12 * i + 4, 12 * i + 8]
                    assert file.get_tensor("a").sum() == 10 and len(file.keys()) == 3
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def many_tensors(path, count):
    names = [f"layers.{i}.w" for i in range(count)]
    entry = '"%s":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    header = ",".join(entry % (name, i, i + 1) for i, name in enumerate(names))
    path.write_bytes(file_of(f"{{{header}}}".encode(), bytes(count)))
    return names


def test_sixty_thousand_tensors_are_listed_and_read(tmp_path):
    names = many_tensors(tmp_path / "m", 60_000)
    with safe_open(tmp_path / "m", "np") as file:
        assert file.offset_keys() == names and file.keys() == sorted(names)
        assert len(file.get_tensors()) == 60_000


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(1,) * 33, (0, 2**62)])
def test_shapes_that_numpy_refuses_are_a_safetensor_error(tmp_path, backend, shape):
    data = bytes(0 if 0 in shape else 4)
    path = tmp_path / "m.safetensors"
    header = {"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}}
    path.write_bytes(file_of(json.dumps(header).encode(), data))
    with safe_open(path, framework="np", backend=backend) as file:
        for use in (lambda: file.get_tensor("w"), file.get_tensors, lambda: file.get_slice("w")[...], lambda: load(path.read_bytes())):
            with pytest.raises(SafetensorError, match="which numpy refuses") as caught:
                use()
            assert caught.value.code == "bad_shape" and caught.value.tensor == "w" and caught.value.hint


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_grow_linearly_with_the_number_of_tensors(tmp_path, backend):
    def calls(count):
        """The number of calls that listing and reading `count` tensors takes."""
        many_tensors(tmp_path / "m", count)
        with safe_open(tmp_path / "m", "np", backend=backend) as file:
            return calls_of(lambda: (file.keys(), file.offset_keys(), file.get_tensors()))

    few, many = calls(100), calls(2000)
    assert many <= 20 * few and many < 60 * 2000
