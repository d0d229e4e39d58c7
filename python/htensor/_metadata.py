"""Converts Python values to typed metadata values, with the types of GGUF."""

from __future__ import annotations

import math
import operator
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_TYPES = {
    "U8": 0, "I8": 1, "U16": 2, "I16": 3, "U32": 4, "I32": 5, "F32": 6, "BOOL": 7, "STRING": 8, "U64": 10, "I64": 11,
    "F64": 12,
}  # fmt: skip
_F32 = 6
_BOOL = 7
_STRING = 8
_ARRAY = 9
_F64 = 12
# The largest finite F32, rounded up to 8 digits. Larger values do not fit into F32.
_MAX_F32 = 3.4028235e38
_NUMPY = {
    "uint8": 0, "int8": 1, "uint16": 2, "int16": 3, "uint32": 4, "int32": 5, "float32": 6, "bool": 7, "uint64": 10,
    "int64": 11, "float64": 12, "float16": 6,
}  # fmt: skip
# The smallest and largest value of each integer type, by type number.
_LIMITS = {0: (0, 255), 1: (-128, 127), 2: (0, 0xFFFF), 3: (-0x8000, 0x7FFF), 4: (0, 0xFFFFFFFF),
           5: (-0x80000000, 0x7FFFFFFF), 10: (0, 2**64 - 1), 11: (-(2**63), 2**63 - 1)}  # fmt: skip


class Value:
    """A metadata value with a type: Value("U64", 5), Value("F32", [0.1, 0.2]).

    The types are U8, I8, U16, I16, U32, I32, U64, I64, F32, F64, BOOL and STRING. Without a Value, scalars and
    arrays of numpy keep their dtype, but float16 becomes F32. A Python int becomes U32 if it fits, else I32, U64 or
    I64. The ints of a list become I32 if all fit, else U32, I64 or U64. A float becomes F32 if that is exact, else
    F64.
    """

    __slots__ = ("type", "value")

    def __init__(self, type: str, value: object) -> None:
        if type not in _TYPES:
            raise ValueError(f"type {type!r} does not exist; use one of {', '.join(_TYPES)}")
        self.type = type
        self.value = value

    def __repr__(self) -> str:
        return f"Value({self.type!r}, {self.value!r})"


def _is_f32(value: float) -> bool:
    try:
        return value != value or struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        return False


def _integer_type(key: str, values: list[int], order: tuple[int, ...]) -> int:
    low, high = min(values, default=0), max(values, default=0)
    for kind in order:
        if _LIMITS[kind][0] <= low and high <= _LIMITS[kind][1]:
            return kind
    for value in (low, high):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"metadata {key!r}: {value} does not fit into 64 bits")
    raise OverflowError(f"metadata {key!r}: no 64-bit integer type holds both {low} and {high}")


def _item_type(key: str, items: list[Any]) -> int:
    if all(isinstance(item, bool) for item in items) and items:
        return _BOOL
    if all(isinstance(item, str) for item in items) and items:
        return _STRING
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return _integer_type(key, items, (5, 4, 11, 10))
    if all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items):
        return _F32 if all(_is_f32(float(item)) for item in items) else _F64
    if all(isinstance(item, (list, tuple)) for item in items):
        return _ARRAY
    raise TypeError(f"metadata {key!r}: items of a list need the same type, such as all str or all int")


def _array(key: str, kind: int, items: list[Any]) -> tuple[Any, ...]:
    if kind == _ARRAY:
        return _ARRAY, kind, [normalize_value(key, item) for item in items]
    return _ARRAY, kind, [_checked(key, kind, item) for item in items]


def _checked(key: str, kind: int, value: Any) -> Any:
    """Returns the value as the extension takes it. TypeError or OverflowError if it does not fit the type."""
    if kind == _BOOL:
        is_bool = isinstance(value, int) or type(value).__name__ in ("bool", "bool_")
        if not is_bool or value not in (0, 1):
            raise TypeError(f"metadata {key!r}: {value!r} is not a bool; use True or False")
        return bool(value)
    _check(key, kind, value)
    # Scalars of numpy become Python numbers, which the extension takes.
    if kind in _LIMITS:
        return operator.index(value)
    return value if kind == _STRING else float(value)


def _type_name(kind: int) -> str:
    return next(name for name, number in _TYPES.items() if number == kind)


def _check(key: str, kind: int, value: Any) -> None:
    conversion_method = "__index__" if kind in _LIMITS else "__float__"
    if not (isinstance(value, str) if kind == _STRING else hasattr(value, conversion_method)):
        raise TypeError(f"metadata {key!r}: {value!r} is not of type {_type_name(kind)}")
    if kind in _LIMITS and not _LIMITS[kind][0] <= value <= _LIMITS[kind][1]:
        raise OverflowError(f"metadata {key!r}: {value} does not fit into {_type_name(kind)}")
    if kind == _F32 and isinstance(value, (int, float)) and _MAX_F32 < abs(value) < math.inf:
        raise OverflowError(f"metadata {key!r}: {value} does not fit into F32")


def normalize_value(key: str, value: Any) -> tuple[Any, ...]:
    """The value as the extension takes it: (type, value), or (9, item type, list) for an array."""
    if isinstance(value, Value):
        kind, value = _TYPES[value.type], value.value
        if isinstance(value, (list, tuple)):
            return _array(key, kind, list(value))
        return kind, _checked(key, kind, value)
    if isinstance(value, bool):
        return _BOOL, value
    if isinstance(value, str):
        return _STRING, value
    name = getattr(getattr(value, "dtype", None), "name", None)
    if name is not None:
        if name not in _NUMPY:
            raise TypeError(f"metadata {key!r}: dtype {name} is not supported")
        items = value.tolist()
        if isinstance(items, list) and items and isinstance(items[0], list):
            raise TypeError(f"metadata {key!r}: arrays have one dimension")
        return _array(key, _NUMPY[name], items) if isinstance(items, list) else (_NUMPY[name], items)
    if isinstance(value, int):
        return _integer_type(key, [value], (4, 5, 10, 11)), value
    if isinstance(value, float):
        return (_F32 if _is_f32(value) else _F64), value
    if isinstance(value, (list, tuple)):
        items = list(value)
        return _array(key, _item_type(key, items), items)
    raise TypeError(f"metadata {key!r}: {type(value).__name__} is not supported; use str, int, float, bool or a list")


def keep_type(existing: tuple[Any, ...] | None, value: Any, normalized: tuple[Any, ...]) -> tuple[Any, ...]:
    """The new value of a key with the type of the existing value, if the new value has no type of its own and
    fits; else `normalized`. A float fits into F32 if it is in range. An int fits into F32 up to 2**24 and into F64 up
    to 2**53.

    `existing` and `normalized` have the form that `normalize_value` returns; `value` is the new value before
    normalization."""
    if existing is None or isinstance(value, Value) or hasattr(value, "dtype") or len(existing) != len(normalized):
        return normalized
    if len(existing) == 2:
        return (existing[0], value) if _fits(existing[0], value) else normalized
    kind, items = existing[1], normalized[2]
    return (_ARRAY, kind, items) if kind != _ARRAY and all(_fits(kind, item) for item in items) else normalized


def _fits(kind: int, value: Any) -> bool:
    """Whether a type can store a Python value, by the rules of `keep_type`."""
    if isinstance(value, (bool, str)):
        return kind == (_BOOL if isinstance(value, bool) else _STRING)
    if kind in _LIMITS:
        return isinstance(value, int) and _LIMITS[kind][0] <= value <= _LIMITS[kind][1]
    if kind not in (_F32, _F64) or not isinstance(value, (int, float)):
        return False
    if isinstance(value, float):
        return kind == _F64 or not math.isfinite(value) or abs(value) <= _MAX_F32
    return abs(value) <= (2**24 if kind == _F32 else 2**53)


def normalize(metadata: Mapping[str, Any] | None) -> dict[str, tuple[Any, ...]]:
    return {key: normalize_value(key, value) for key, value in (metadata or {}).items()}
