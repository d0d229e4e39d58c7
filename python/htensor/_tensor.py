"""The class Tensor."""

from __future__ import annotations

import math
import sys

from . import _index, _native, _types
from ._errors import Error
from ._progress import reporting
from ._results import Stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn, Union

    import numpy as np

    from ._progress import Progress

    Array = np.ndarray[Any, Any]
    #: False refuses a cast that is not exact. True rounds to nearest, ties to even.
    Round = Union[bool, str]

_ROUNDINGS = {False: 0, None: 0, True: 1, "nearest_even": 1, "toward_zero": 2, "stochastic": 3}
# The values of ht_access.
_PRIVATE, _COPY = 1, 2
_CPU = (1, 0)
# Every version of numpy supports arrays up to this rank.
_MAX_RANK = 32
# Error codes of tensors that DLPack cannot express, or only as a copy.
_NOT_IN_PLACE = ("misaligned", "unsupported_encoding")


def rounding_code(round: Round) -> int:
    """The number of a rounding in the C library; 0 refuses to round."""
    if round not in _ROUNDINGS:
        raise ValueError(f"round={round!r} does not exist; use True, 'nearest_even', 'toward_zero' or 'stochastic'")
    return _ROUNDINGS[round]


class Tensor(_native.Tensor):
    """A tensor of a model. Creating it reads nothing; it keeps its file open, also after `Model.close()`.

        t = model["blk.0.attn_q.weight"]
        t.numpy()            # the stored elements in place: a read-only array
        t[:2, ::4]           # reads these elements only, into a new array
        t.to("float32")      # values of any type or encoding, in a new array
        t.torch()            # a torch.Tensor that may be written to; the file does not change

    Types that numpy lacks (BF16, 8-bit floats, 4 and 6 bits) have the dtype of ml_dtypes if that is installed, else
    unsigned integers with the stored bits. Elements of 4 and 6 bits are unpacked into one byte each. The stored
    elements of a block encoding such as Q4_K are bytes: one row of the array has the blocks of one row of the tensor.

    Threads: many threads may use the same tensor at once.
    """

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of `numpy()`; its name as str if numpy is not installed."""
        found = _types.dtypes.get(self._type_and_bits)
        if found is None:
            code, bits = self._facts[:2]
            try:
                found = _types.numpy_dtype(code, bits)
            except ImportError:
                return _types.dtype_name(code, bits)  # type: ignore[return-value]
        if found.itemsize > 1 and not self._facts[4] and self._facts[6]:
            return found.newbyteorder(">")
        return found

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def data(self) -> memoryview:
        """The stored bytes in place, read-only. Needs no numpy."""
        return memoryview(self._buffer())

    def tobytes(self) -> bytes:
        """A copy of the row-major little-endian bytes; a splat is expanded. Needs no numpy."""
        memory = bytearray(self.nbytes)
        self._copy_to(0, memory)
        return bytes(memory)

    def copy_to(self, buffer: Any) -> None:
        """Writes the row-major little-endian elements into a writable contiguous buffer of `nbytes` bytes. A splat is
        expanded, blocks are not decoded, and elements of 4 and 6 bits stay packed. ValueError for another size. Needs
        no numpy."""
        if hasattr(buffer, "flags") and hasattr(buffer, "dtype") and buffer.flags.c_contiguous:
            # The buffer protocol does not support dtypes of ml_dtypes.
            buffer = _bytes_of(buffer)
        with memoryview(buffer) as view:
            if view.readonly or not view.c_contiguous:
                raise ValueError(f"tensor '{self.name}': the buffer is not writable and contiguous")
            if view.nbytes != self.nbytes:
                raise ValueError(f"tensor '{self.name}' has {self.nbytes} bytes, but its buffer has {view.nbytes}")
            self._copy_to(0, view)

    # Arrays.

    def numpy(self) -> Array:
        """The stored elements as a read-only array, in place where possible: a copy for 4 and 6 bits, and for a splat
        whose pattern is not one element. The array keeps the file mapped.

        Reading the array reads the mapped file. If the file is truncated, this raises SIGBUS, unless the model
        was opened with faults="zero_fill". Indexing and `to` raise Error instead.
        """
        np = _types.import_numpy()
        code, bits, elements, block_bytes, plain, column_major, big_endian, splat = self._facts
        dtype = _types.numpy_dtype(code, bits)
        shape: tuple[int, ...] = self.shape
        if code in _types.PACKED:
            array = self._read_array(None, shape, {"unpack": True}, code, bits)
            array.flags.writeable = False
            return array
        if block_bytes:
            shape = (*shape[:-1], shape[-1] // elements * block_bytes)
        if splat is not None:
            return self._splat(splat, dtype, shape)
        if not block_bytes and not plain and big_endian:
            dtype = dtype.newbyteorder(">")
        buffer = self._buffer()
        if column_major and not block_bytes:
            return self._create(lambda shape: np.ndarray(shape, dtype, buffer, 0, self.strides), shape)
        return self._create(np.ndarray, shape, dtype, buffer)

    def _create(self, create: Callable[..., Any], shape: tuple[int, ...], *arguments: Any) -> Any:
        """Creates an array by a function of numpy. Error (bad_shape) for a shape that numpy refuses."""
        try:
            return create(shape, *arguments)
        except (OverflowError, ValueError) as error:
            raise Error(
                f"tensor '{self.name}' has the shape {list(self.shape)}, which numpy refuses: {error}",
                code="bad_shape",
                tensor=self.name,
                path=self.file,
                hint="use torch(), or tobytes() for the bytes",
            ) from error

    def _numpy_copies(self) -> bool:
        code, bits, _, _, _, _, _, splat = self._facts
        return code in _types.PACKED or (splat is not None and len(splat) != _types.numpy_dtype(code, bits).itemsize)

    def _splat(self, pattern: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
        np = _types.import_numpy()
        if len(pattern) == dtype.itemsize:
            element = np.frombuffer(pattern, dtype)[0]
            return self._create(lambda wide: np.broadcast_to(element, wide), shape)
        array = self._create(np.empty, shape, dtype)
        self._copy_to(0, _bytes_of(array))
        array.flags.writeable = False
        return array

    def _read_array(
        self, slices: tuple[tuple[int, int, int], ...] | None, shape: tuple[int, ...], options: dict[str, Any],
        code: int, bits: int, progress: Any = None,
    ) -> Any:  # fmt: skip
        """A new array with elements of a type as the C library writes them."""
        np = _types.import_numpy()
        dtype = _types.numpy_dtype(code, bits)
        array = self._create(np.empty, shape, dtype)
        if array.size:
            self._read(slices, options, _bytes_of(array), progress)
        if code == _types.I4 and dtype != np.uint8:
            # ml_dtypes stores a 4-bit integer sign-extended to a byte.
            raw = array.view(np.int8)
            raw <<= 4
            raw >>= 4
        return array

    def __getitem__(self, index: Any) -> Any:
        """A new array with the indexed elements. Reads only these elements; of a block encoding, it reads whole
        blocks and decodes them to float32. An index has integers, slices, Ellipsis and None, as in numpy."""
        code, bits, _, block_bytes, _, _, _, splat = self._facts
        shape = self.shape
        slices, result, is_scalar = _index.select(index, shape)
        if code == 0:
            array = _types.import_numpy().array(self.numpy()[index])
            return array[()] if is_scalar else array
        options: dict[str, Any] = {}
        if block_bytes:
            options["type"] = code = _types.F32
        elif code in _types.PACKED:
            options["unpack"] = True
        array = self._read_array(slices, result, options, code, bits)
        return array[()] if is_scalar else array

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeError("a Tensor has no truth value; use numpy().any() or numpy().all()")

    def to(
        self,
        dtype: Any = "float32",
        *,
        round: Round = False,
        saturate: bool = False,
        seed: int = 0,
        index: Any = ...,
        progress: Progress = None,
    ) -> Array:
        """The values in a new array of another dtype. Blocks are decoded to float32, and the float32 values are
        converted to `dtype`.

        dtype     "float32", "bfloat16", "F16", numpy.float16, torch.float32
        index     the elements to read, as in `t[index]`; all by default
        round     False raises Error (would_lose) unless `dtype` holds every value of the stored type. True or
                  "nearest_even", "toward_zero" and "stochastic" round.
        saturate  values beyond the largest finite one become the largest finite one
        seed      the seed of stochastic rounding
        """
        code = _types.code_of(dtype)
        stored, bits = self._facts[:2]
        options: dict[str, Any] = {"type": code, "rounding": rounding_code(round), "saturate": saturate, "seed": seed}
        if code in _types.PACKED and code != stored:
            raise TypeError(f"to({dtype!r}): values of 4 and 6 bits are written by convert() only")
        if code in _types.PACKED:
            options = {"unpack": True}
        slices, shape = None, self.shape
        if index is not Ellipsis:
            slices, shape, _ = _index.select(index, shape)
        try:
            with reporting(progress, "read") as report:
                return self._read_array(slices, shape, options, code, _types.PACKED.get(code, bits), report)
        except Error as error:
            if error.code == "would_lose":
                error.hint = "pass round=True, or use numpy() for the stored values"
            raise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Implements numpy.asarray: returns `numpy()`, or the values in another dtype."""
        np = _types.import_numpy()
        is_same = dtype is None or np.dtype(dtype) == self.dtype
        if copy is False and (not is_same or self._numpy_copies()):
            raise ValueError(f"tensor '{self.name}' of type {self.type} cannot be {np.dtype(dtype or self.dtype)} without a copy")
        if is_same:
            return np.array(self.numpy()) if copy else self.numpy()
        if _types.is_standard(self._facts[0]):
            return self.numpy().astype(dtype)
        if np.dtype(dtype).name not in ("float16", "float32", "float64"):
            return self.to("float32", round=True).astype(dtype)
        return self.to(dtype, round=True)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The elements in place, for types that numpy has; AttributeError for others."""
        code, bits, _, block_bytes, _, _, big_endian, splat = self._facts
        if not _types.is_standard(code) or block_bytes or splat is not None:
            raise AttributeError(f"tensor '{self.name}' of type {self.type} has no array in place; use numpy() or to()")
        shape = self.shape
        if len(shape) > _MAX_RANK or 0 in shape:
            self.numpy()  # raises Error for a shape that numpy refuses
        name = _types.dtype_name(code, bits)
        order = "|" if bits == 8 else ">" if big_endian else "<"
        return {
            "version": 3,
            "shape": shape,
            "typestr": f"{order}{name[0]}{bits // 8}",
            "data": (self._buffer().address, True),
            "strides": self.strides,
        }

    # Other libraries.

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return _CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. Consumers may write to the memory, with the effects that `torch` describes.
        Elements that DLPack cannot express in place (big-endian, misaligned, splats) are copied. BufferError for a type that
        DLPack lacks, and for `copy=False` if a copy is needed; Error if the elements cannot be read."""
        if stream is not None:
            raise BufferError("stream must be None for the CPU")
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise BufferError(f"the tensor is on the CPU, not on {dl_device}")
        versioned = max_version is not None and max_version[0] >= 1
        try:
            if not copy:
                return self._dlpack(versioned, _PRIVATE)
        except Error as error:
            if error.code not in _NOT_IN_PLACE:
                raise
            if copy is False:
                raise BufferError(str(error)) from error
        try:
            return self._dlpack(versioned, _COPY)
        except Error as error:
            if error.code not in _NOT_IN_PLACE:
                raise
            raise BufferError(str(error)) from error

    def torch(self) -> Any:
        """A torch.Tensor with the stored elements. Writes never change the file: they change private pages of
        memory, which all results of `torch()` for the same tensor share. After load(strategy="read"), writes
        change the model's own memory, which `numpy()` and all other calls read. Big-endian, column-major and
        misaligned elements, elements of 4 or 6 bits and splats are copied. 8-bit floats that torch lacks are
        uint8, and block encodings are bytes as in `numpy()`."""
        torch = sys.modules.get("torch")
        if torch is None:
            import torch  # type: ignore[import,no-redef]
        assert torch is not None
        code, bits, elements, block_bytes, plain, _, _, splat = self._facts
        dtype = _types.torch_dtype(code, torch)
        shape: tuple[int, ...] = self.shape
        if block_bytes:
            shape = (*shape[:-1], shape[-1] // elements * block_bytes)
        if not self.nbytes:
            return torch.empty(shape, dtype=dtype)
        if (plain or block_bytes) and code not in _types.PACKED and splat is None:
            buffer = self._private_buffer()
            if buffer.address % max(1, dtype.itemsize if hasattr(dtype, "itemsize") else bits // 8) == 0:
                return torch.frombuffer(buffer, dtype=dtype).reshape(shape)
        return self._torch_copy(torch, dtype, shape, bits if code in _types.PACKED else 8)

    def _torch_copy(self, torch: Any, dtype: Any, shape: tuple[int, ...], bits: int) -> Any:
        size = self.size if bits < 8 else self.nbytes
        memory = bytearray(size)
        if bits < 8:
            self._read(None, {"unpack": True}, memory, None)
        else:
            self._copy_to(0, memory)
        return torch.frombuffer(memory, dtype=dtype).reshape(shape)

    # Statistics, repr and pickling.

    def stats(self, *, progress: Progress = None) -> Stats:
        """Statistics of all values, in one pass on all processors: count, zeros, nans, infinities, min, max, mean,
        std and more. Works for every encoding, and needs no numpy."""
        with reporting(progress, "stats") as report:
            return Stats(**self._stats(report))

    def __repr__(self) -> str:
        return f"<htensor.Tensor {self.name!r} {self.type or 'of unknown type'} {list(self.shape)}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "cannot pickle htensor.Tensor, as it refers to an open file: pickle t.numpy(), or open the file in the "
            "other process"
        )


def _bytes_of(array: Any) -> Any:
    """The memory of a contiguous array, also of a dtype that the buffer protocol lacks."""
    return array.reshape(-1).view("uint8")


Tensor.__module__ = "htensor"
_native.register_tensor(Tensor)
