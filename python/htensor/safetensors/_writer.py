"""Writes safetensors to memory and to files, and parses them in memory: `TensorSpec`, `serialize`, `parse`."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import htensor
from htensor import _native

from ._dtypes import stored_name_of
from ._errors import SafetensorError

# The type number of a string in metadata.
_STRING = 8
_MAX = 2**64 - 1
# The largest dimension and the largest size of memory that the writer takes.
_MAX_SIGNED = 2**63 - 1


class TensorSpec:
    """Describes the memory of one tensor for `serialize` and `serialize_file`.

    `dtype` is a name of numpy or torch, such as "float32"; `shape` the dimensions; `data_ptr` the address of the
    row-major little-endian elements and `data_len` their number of bytes. The memory must stay valid until the
    call that uses the spec returns. For "float4_e2m1fn_x2", the last dimension of the argument `shape` counts bytes,
    each with two elements; the last dimension of the attribute `shape` counts elements.
    """

    __slots__ = ("_data_len", "_data_ptr", "_dtype", "_shape")
    __module__ = "htensor.safetensors"

    def __init__(self, *, dtype: str, shape: Iterable[int], data_ptr: int, data_len: int) -> None:
        if not isinstance(dtype, str):
            raise TypeError(f"dtype is a str, not {type(dtype).__name__}")
        self._dtype = stored_name_of(dtype)
        self._shape = [_unsigned(size, "shape") for size in shape]
        if self._dtype == "F4" and self._shape:
            if self._shape[-1] > _MAX // 2:
                raise SafetensorError(
                    f"shape: the last dimension of {dtype} has {self._shape[-1]} bytes, so its elements exceed 2^64-1",
                    code="bad_shape",
                )
            self._shape[-1] *= 2
        self._data_ptr = _unsigned(data_ptr, "data_ptr")
        self._data_len = _unsigned(data_len, "data_len")

    @property
    def dtype(self) -> str:
        """The name of the dtype in the file, such as "F32"."""
        return self._dtype

    @property
    def shape(self) -> list[int]:
        """The dimensions in the file."""
        return list(self._shape)

    @property
    def data_ptr(self) -> int:
        """The address of the elements."""
        return self._data_ptr

    @property
    def data_len(self) -> int:
        """The number of bytes of the elements."""
        return self._data_len

    def __repr__(self) -> str:
        return (
            f"TensorSpec(dtype='{self._dtype}', shape={self._shape}, "
            f"data_ptr={self._data_ptr}, data_len={self._data_len})"
        )


def serialize(tensor_dict: dict[str, TensorSpec], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors, the same as the reference package writes.

    Releases the GIL. SafetensorError if a size does not match its dtype and shape.
    """
    tensors, strings = _checked(tensor_dict, metadata)
    try:
        return _native.save_to_memory(tensors, strings, _options(metadata), None)
    except htensor.Error as error:
        raise _write_error(error) from error


def serialize_file(
    tensor_dict: dict[str, TensorSpec],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes the bytes of `serialize` to a file, which appears whole or not at all.

    Replaces an existing file; arrays that map the old one keep its contents. Releases the GIL.
    """
    tensors, strings = _checked(tensor_dict, metadata)
    try:
        _native.save(os.fsencode(filename), tensors, strings, _options(metadata), None)
    except htensor.Error as error:
        raise _write_error(error) from error


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The tensors of a safetensors file in memory: a list of (name, {"shape", "dtype", "data"}).

    `data` is a bytearray with a copy of the elements. Tensors are in the order of their data.
    """
    return [
        (tensor.name, {"shape": list(tensor.shape), "dtype": tensor.type, "data": copy_of(tensor)})
        for tensor in parse(bytes)
    ]


def parse(data: bytes) -> list[htensor.Tensor]:
    """The tensors of a safetensors file in memory, in the order of their data."""
    try:
        model = htensor.from_bytes(data)
    except htensor.Error as error:
        raise SafetensorError(f"Error while deserializing: {error}", cause=error) from error
    if model.format != "safetensors":
        raise SafetensorError(
            f"Error while deserializing: the data is {model.format}, not safetensors",
            code="bad_magic",
            hint="open it with htensor.from_bytes",
        )
    return in_data_order(model)


def in_data_order(model: htensor.Model) -> list[htensor.Tensor]:
    """The tensors of a model by the position of their data."""
    return sorted(model.values(), key=operator.attrgetter("offset", "nbytes"))


def copy_of(tensor: htensor.Tensor) -> bytearray:
    """The elements of a tensor in memory of their own."""
    data = bytearray(tensor.nbytes)
    tensor._copy_to(0, data)
    return data


def _unsigned(value: object, field: str) -> int:
    number = operator.index(value)  # type: ignore[arg-type]
    if not 0 <= number <= _MAX:
        raise OverflowError(f"{field}: {number} is not between 0 and 2^64-1")
    return number


def _checked(
    tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None
) -> tuple[list[tuple[Any, ...]], dict[str, tuple[int, str]]]:
    """Returns the arguments of the native writer. TypeError for arguments of wrong types."""
    if not isinstance(tensor_dict, dict):
        raise TypeError(f"tensor_dict is a dict of str to TensorSpec, not {type(tensor_dict).__name__}")
    tensors: list[tuple[Any, ...]] = []
    for name, spec in tensor_dict.items():
        if not isinstance(name, str):
            raise TypeError(f"argument 'tensor_dict': '{type(name).__name__}' object is not an instance of 'str'")
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"argument 'tensor_dict': '{type(spec).__name__}' object is not an instance of 'TensorSpec'")
        for field, number in (*(("a dimension", size) for size in spec._shape), ("data_len", spec.data_len)):
            if number > _MAX_SIGNED:
                raise SafetensorError(
                    f"Error while serializing: tensor '{name}': {field} of {number} exceeds 2^63-1",
                    code="bad_shape",
                    tensor=name,
                )
        if spec.data_len and not spec.data_ptr:
            raise SafetensorError(
                f"tensor '{name}': data_ptr is null but data_len is {spec.data_len}",
                tensor=name,
                hint="pass the address of the elements",
            )
        memory = (ctypes.c_char * spec.data_len).from_address(spec.data_ptr) if spec.data_len else b""
        tensors.append((name, _native.type_from_name(spec.dtype), tuple(spec.shape), memory))
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata is a dict of str to str, not {type(metadata).__name__}")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata[{key!r}] is {value!r}, but keys and values are str")
    # The reference writes keys in random order. Sorted keys give equal bytes for equal metadata.
    return tensors, {key: (_STRING, metadata[key]) for key in sorted(metadata)}


def _options(metadata: Mapping[str, str] | None) -> tuple[dict[str, Any], list[Any], list[Any], list[Any], list[Any]]:
    # The reference writes an empty `__metadata__` for {}, and none for None.
    options = {"format": "safetensors", "canonical": True, "force": True, "empty_metadata": metadata is not None}
    return options, [], [], [], []


def _write_error(error: htensor.Error) -> SafetensorError:
    return SafetensorError(f"Error while serializing: {error}", cause=error)
