"""Arrays of numpy and tensors of torch, on bytes of a file or in memory of their own.

Each framework has a class with the same methods, so that the reader depends on neither framework.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from htensor import Tensor

from ._dtypes import numpy_dtype, torch_dtype, torch_item_bytes
from ._errors import SafetensorError


@contextmanager
def _checked_shape(tensor: Tensor) -> Iterator[None]:
    """Converts the ValueError of numpy for a shape with too many or too large dimensions to SafetensorError."""
    try:
        yield
    except ValueError as error:
        raise SafetensorError(
            f"tensor '{tensor.name}' has the shape {list(tensor.shape)}, which numpy refuses: {error}",
            code="bad_shape",
            tensor=tensor.name,
            path=tensor.file,
            hint="pass framework='pt', or read the bytes with htensor.open(path)[name].tobytes()",
        ) from error


class NumpyArrays:
    def __init__(self) -> None:
        import numpy

        self._numpy = numpy

    def is_aligned(self, address: int, dtype_name: str) -> bool:
        """Whether an array may begin at this address; numpy accepts every address."""
        return True

    def view(self, buffer: Any, tensor: Tensor) -> Any:
        """The tensor as an array on the bytes of a writable buffer, which the array keeps alive."""
        shape, dtype = tensor.shape, numpy_dtype(tensor.type)
        with _checked_shape(tensor):
            if math.prod(shape) == 0:
                return self._numpy.zeros(shape, dtype)
            return self._numpy.frombuffer(buffer, dtype).reshape(shape)

    def allocate(self, tensor: Tensor, shape: Sequence[int]) -> tuple[Any, Any]:
        """A new array for rows of a tensor, and its memory as a writable buffer of bytes."""
        dtype = numpy_dtype(tensor.type)
        with _checked_shape(tensor):
            array = self._numpy.empty(shape, dtype)
        return array, array.reshape(-1).view(self._numpy.uint8)

    def select(self, array: Any, index: Sequence[Any]) -> Any:
        """A part of an array. A single element is an array of rank 0, not a scalar."""
        return array[(*index, Ellipsis)]

    def copy(self, array: Any) -> Any:
        return array.copy()

    def to_device(self, array: Any, device: Any) -> Any:
        return array


class TorchArrays:
    def __init__(self) -> None:
        import torch

        self._torch = torch

    def is_aligned(self, address: int, dtype_name: str) -> bool:
        """Whether a tensor may begin at this address."""
        return address % torch_item_bytes(dtype_name) == 0

    def view(self, buffer: Any, tensor: Tensor) -> Any:
        """The tensor on the bytes of a writable buffer, which the result keeps alive."""
        dtype_name, shape = tensor.type, tensor.shape
        if math.prod(shape) == 0:
            return self.allocate(tensor, shape)[0]
        return self._torch.frombuffer(buffer, dtype=torch_dtype(dtype_name)).reshape(_torch_shape(dtype_name, shape))

    def allocate(self, tensor: Tensor, shape: Sequence[int]) -> tuple[Any, Any]:
        """New memory for rows of a tensor: a torch tensor, and its memory as a writable buffer of bytes."""
        dtype_name = tensor.type
        rows = self._torch.empty(_torch_shape(dtype_name, shape), dtype=torch_dtype(dtype_name), device="cpu")
        count = rows.nelement() * rows.element_size()
        return rows, (ctypes.c_char * count).from_address(rows.data_ptr()) if count else bytearray()

    def select(self, tensor: Any, index: Sequence[Any]) -> Any:
        return tensor[tuple(index)]

    def copy(self, tensor: Any) -> Any:
        return tensor.clone(memory_format=self._torch.contiguous_format)

    def to_device(self, tensor: Any, device: Any) -> Any:
        return tensor if device == "cpu" else tensor.to(device)


def _torch_shape(dtype_name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in torch, where one F4 element is a byte with two elements of the file."""
    if dtype_name != "F4":
        return tuple(shape)
    if not shape or shape[-1] % 2:
        raise SafetensorError(
            f"f4_x2 dtype requires that the last dim be divisible by 2 in torch: got {list(shape)}",
            code="bad_shape",
        )
    return (*shape[:-1], shape[-1] // 2)
