"""Types of tensors: their numbers in the C library, and their dtypes in numpy, ml_dtypes and torch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy

# Number, name, name in numpy, name in ml_dtypes or None, name in torch. numpy has no dtype for the types that
# ml_dtypes names: without ml_dtypes, their elements are unsigned integers with the stored bits.
_DENSE = [
    (1, "BOOL", "bool", None, "bool"),
    (2, "I4", "uint8", "int4", "uint8"),
    (3, "U4", "uint8", "uint4", "uint8"),
    (4, "I8", "int8", None, "int8"),
    (5, "U8", "uint8", None, "uint8"),
    (6, "I16", "int16", None, "int16"),
    (7, "U16", "uint16", None, "uint16"),
    (8, "I32", "int32", None, "int32"),
    (9, "U32", "uint32", None, "uint32"),
    (10, "I64", "int64", None, "int64"),
    (11, "U64", "uint64", None, "uint64"),
    (12, "F16", "float16", None, "float16"),
    (13, "BF16", "uint16", "bfloat16", "bfloat16"),
    (14, "F32", "float32", None, "float32"),
    (15, "F64", "float64", None, "float64"),
    (16, "C64", "complex64", None, "complex64"),
    (17, "F4", "uint8", "float4_e2m1fn", "uint8"),
    (18, "F6_E2M3", "uint8", "float6_e2m3fn", "uint8"),
    (19, "F6_E3M2", "uint8", "float6_e3m2fn", "uint8"),
    (20, "F8_E4M3", "uint8", "float8_e4m3fn", "float8_e4m3fn"),
    (21, "F8_E5M2", "uint8", "float8_e5m2", "float8_e5m2"),
    (22, "F8_E8M0", "uint8", "float8_e8m0fnu", "float8_e8m0fnu"),
    (23, "F8_E4M3FNUZ", "uint8", "float8_e4m3fnuz", "float8_e4m3fnuz"),
    (24, "F8_E5M2FNUZ", "uint8", "float8_e5m2fnuz", "float8_e5m2fnuz"),
]

I4 = 2
F32 = 14
#: Bits of the packed types.
PACKED = {2: 4, 3: 4, 17: 4, 18: 6, 19: 6}

_NUMPY = {code: name for code, _, name, _, _ in _DENSE}
_ML_DTYPES = {code: name for code, _, _, name, _ in _DENSE if name}
_TORCH = {code: name for code, _, _, _, name in _DENSE}
#: Numbers by the names of htensor, numpy, ml_dtypes and torch, in lower case.
CODES = {name.lower(): code for code, name, _, _, _ in _DENSE}
CODES.update((name, code) for code, name in _NUMPY.items() if code not in _ML_DTYPES)
CODES.update((name, code) for code, name in _ML_DTYPES.items())
CODES.update({"float": 15, "double": 15, "half": 12, "int": 10, "bool_": 1})

#: Short names of numpy, whose digits count bytes: "i4" is I32. Digits of names in upper case count bits.
_SHORT_NAMES = {
    "i1": 4, "u1": 5, "i2": 6, "u2": 7, "i4": 8, "u4": 9, "i8": 10, "u8": 11, "f2": 12, "f4": 14, "f8": 15, "c8": 16,
}  # fmt: skip

#: Cache of numpy dtypes by Tensor._type_and_bits.
dtypes: dict[int, numpy.dtype[Any]] = {}


def import_numpy() -> Any:
    """Imports numpy. The ImportError without numpy names the tasks that do not need it."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            "values of tensors need numpy; listing, verifying and converting work without it"
        ) from error
    return numpy


def _ml_dtype(code: int) -> Any:
    try:
        import ml_dtypes  # type: ignore[import]
    except ImportError:
        return None
    return getattr(ml_dtypes, _ML_DTYPES[code], None)


def numpy_dtype(code: int, bits: int) -> numpy.dtype[Any]:
    """The dtype of one element; uint8 for blocks and bytes of unknown type."""
    found = dtypes.get(code << 8 | bits)
    if found is None:
        np = import_numpy()
        name = _NUMPY.get(code)
        if name is None:  # a user-defined type, of which only the width is known
            name = f"uint{bits}" if bits in (8, 16, 32, 64) else "uint8"
        kind = _ml_dtype(code) if code in _ML_DTYPES else None
        found = dtypes[code << 8 | bits] = np.dtype(name if kind is None else kind)
    return found


def dtype_name(code: int, bits: int) -> str:
    """The name of the numpy dtype, for use without numpy."""
    return _NUMPY.get(code, f"uint{bits}" if bits in (8, 16, 32, 64) else "uint8")


def torch_dtype(code: int, torch: Any) -> Any:
    """The torch dtype; uint8 for an 8-bit float that this version of torch lacks."""
    name = _TORCH.get(code, "uint8")
    found = getattr(torch, name, None)
    if found is None and name.startswith("float8"):
        return torch.uint8
    if found is None:
        raise TypeError(f"torch {torch.__version__} has no dtype {name}; use numpy(), or to('int64')")
    return found


def is_standard(code: int) -> bool:
    """Whether numpy has the dtype without ml_dtypes."""
    return code in _NUMPY and code not in _ML_DTYPES


def find_code(dtype: Any) -> int | None:
    """As `code_of`, but None for a name that does not exist."""
    if isinstance(dtype, str) and dtype in _SHORT_NAMES:
        return _SHORT_NAMES[dtype]
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    name = str(dtype if name is None else name).lower()
    if name.startswith("torch."):
        name = name[len("torch.") :]
    return CODES.get(name)


def code_of(dtype: Any) -> int:
    """The number of a dtype, given as "float32", "F32", "f4", numpy.float32, torch.float32 or similar."""
    code = find_code(dtype)
    if code is None:
        raise TypeError(f"dtype {dtype!r} is not supported; use a name such as 'float32' or 'bfloat16'")
    return code
