"""Saves and loads dicts of numpy arrays: the drop-in for `safetensors.numpy`.

    from htensor.safetensors.numpy import load_file, save_file

    save_file({"embedding": numpy.zeros((512, 1024))}, "model.safetensors")
    arrays = load_file("model.safetensors")
"""

from __future__ import annotations

import os
from typing import Any

import numpy

from ._arrays import NumpyArrays
from ._reader import safe_open
from ._writer import TensorSpec, copy_of, parse, serialize, serialize_file


def save(tensor_dict: dict[str, numpy.ndarray[Any, Any]], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays.

    Arrays of any layout and byte order are stored row-major and little-endian. SafetensorError for dtypes that
    the format lacks.
    """
    specs, owners = _specs(tensor_dict)
    return serialize(specs, metadata=metadata)


def save_file(
    tensor_dict: dict[str, numpy.ndarray[Any, Any]],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes the bytes of `save` to a file, which appears whole or not at all."""
    specs, owners = _specs(tensor_dict)
    serialize_file(specs, filename, metadata=metadata)


def load(data: bytes) -> dict[str, numpy.ndarray[Any, Any]]:
    """Copies of the arrays of a safetensors file in memory."""
    arrays = NumpyArrays()
    return {tensor.name: arrays.view(copy_of(tensor), tensor) for tensor in parse(data)}


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, numpy.ndarray[Any, Any]]:
    """The arrays of a safetensors file, in the order of their data.

    They are writable. With the backend "mmap", they are private pages of the file; with "pread", every array has
    memory of its own: see `safe_open`.
    """
    with safe_open(filename, framework="np", backend=backend) as file:
        return file.get_tensors()


def _specs(tensor_dict: dict[str, numpy.ndarray[Any, Any]]) -> tuple[dict[str, TensorSpec], list[Any]]:
    """A spec for each array, and the arrays whose memory the specs point to, to keep while the specs are used."""
    specs, owners = {}, []
    for name, array in tensor_dict.items():
        dense = numpy.ascontiguousarray(array, array.dtype.newbyteorder("="))
        owners.append(dense)
        specs[name] = TensorSpec(
            dtype=dense.dtype.name, shape=array.shape, data_ptr=dense.ctypes.data, data_len=dense.nbytes
        )
    return specs, owners
