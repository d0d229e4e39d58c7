"""Indexing a tensor gives the same elements as indexing its numpy array."""

import random

import numpy as np
import pytest
from conftest import random_array, random_index, safetensors_bytes

import htensor

SEED = 20261119


@pytest.mark.parametrize("dtype", ["F32", "BF16", "I64", "U8", "BOOL", "C64", "F64"])
def test_random_indices_equal_those_of_numpy(dtype):
    choose = random.Random(f"{SEED}{dtype}")
    values = np.random.default_rng(SEED)
    for _ in range(60):
        shape = tuple(choose.choice([0, 1, 2, 3, 5, 17]) if choose.random() < 0.9 else 40 for _ in range(choose.randint(0, 4)))
        array = random_array(values, dtype, shape)
        tensor = htensor.from_bytes(safetensors_bytes({"a": (dtype, shape, array.tobytes())}))["a"]
        for _ in range(25):
            index = random_index(choose, shape)
            expected, found = array[index], tensor[index]
            assert np.array_equal(found, expected), (shape, index)
            assert type(found) is type(expected) and found.shape == expected.shape, (shape, index)


def test_random_indices_of_blocks_equal_those_of_decoded_values(tmp_path):
    choose = random.Random(SEED)
    values = np.random.default_rng(SEED).normal(size=(6, 5, 64)).astype(np.float32)
    for encoding in ("Q8_0", "Q4_0"):
        path = tmp_path / f"{encoding}.gguf"
        htensor.save(path, {"w": values}, {"general.architecture": "x"}, quantize={"w": encoding})
        tensor = htensor.open(path)["w"]
        assert tensor.type == encoding
        decoded = tensor.to("float32")
        for _ in range(300):
            index = random_index(choose, tensor.shape)
            assert np.array_equal(tensor[index], decoded[index]), index
        for index in [6, -7, (0, 5), (0, 0, 64), (0, 0, 0, 0), (..., ...)]:
            with pytest.raises(IndexError):
                decoded[index]
            with pytest.raises(IndexError):
                tensor[index]


def test_rows_are_iterated(path, arrays):
    tensor = htensor.open(path)["ids"]
    assert [row.tolist() for row in tensor] == arrays["ids"].tolist()


@pytest.mark.parametrize(
    "index", [6, -7, (0, 8), (0, 0, 0), (..., ...), 1.5, "a", [0, 1], np.array([0, 1]), True, (slice(None), np.bool_(True))]
)
def test_other_indices_are_index_errors(path, index):
    with pytest.raises(IndexError):
        htensor.open(path)["blk.0.weight"][index]


def test_index_reads_only_what_is_selected(big):
    model = htensor.open(big)
    htensor.evict(model)
    before = htensor.residency(model)["w"]
    if before.cached_bytes is None:
        pytest.skip("the kernel does not report the page cache")
    assert model["w"][5, 3:9:2].tolist() == [0, 0, 0] and model["w"][-1].shape == (1024,)
    # The kernel reads ahead, but not 1 GiB.
    assert htensor.residency(model)["w"].cached_bytes - before.cached_bytes < 64 << 20
