"""Index expressions of `get_slice`, with the errors of the reference package."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Union

from ._errors import SafetensorError

Index = Union[int, slice]


def resolve(index: object, shape: Sequence[int]) -> list[Index]:
    """Returns an item for each of the first dimensions that `index` covers: a non-negative int, or a slice whose start,
    stop and step are ints. An ellipsis is expanded.

    Accepts what the reference does: ints, slices with a positive step, one ellipsis, tuples of these, and an
    empty list for no rows. Slices may also have negative bounds, as in numpy.
    """
    if isinstance(index, list):
        if index:
            raise SafetensorError(
                "Non empty lists are not implemented",
                code="out_of_bounds",
                hint="read the rows one by one, or index the whole tensor from get_tensor",
            )
        index = slice(0, 0)
    items = _expand(list(index) if isinstance(index, tuple) else [index], len(shape))
    found = [_resolve_item(item, i, shape[i] if i < len(shape) else 0) for i, item in enumerate(items)]
    _check_bounds(found, items, shape)
    return found


def _expand(items: list[object], rank: int) -> list[object]:
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items
    if len(places) > 1:
        raise SafetensorError("Only one ellipsis (...) is allowed in slice index", code="out_of_bounds")
    at = places[0]
    missing = max(rank - (len(items) - 1), 0)
    return items[:at] + [slice(None)] * missing + items[at + 1 :]


def _resolve_item(item: object, dim: int, size: int) -> Index:
    if isinstance(item, slice):
        step = 1 if item.step is None else operator.index(item.step)
        if step <= 0:
            raise SafetensorError(f"Slice step must be a positive integer, got {step}", code="out_of_bounds")
        start = _bound(item.start, 0, size, dim)
        return slice(start, _bound(item.stop, size, size, dim), step)
    try:
        # numpy interprets a bool as a mask, not as the number 0 or 1.
        number = operator.index(None if isinstance(item, bool) else item)  # type: ignore[arg-type]
    except TypeError:
        raise SafetensorError(
            f"Unsupported slice index at position {dim}: expected slice, int, or ellipsis", code="out_of_bounds"
        ) from None
    return _wrap(number, size, dim)


def _bound(value: object, default: int, size: int, dim: int) -> int:
    return default if value is None else _wrap(operator.index(value), size, dim)  # type: ignore[arg-type]


def _wrap(number: int, size: int, dim: int) -> int:
    if number < -size:
        raise SafetensorError(f"Invalid index {number} for dimension {dim} of size {size}", code="out_of_bounds")
    return number + size if number < 0 else number


def _check_bounds(found: list[Index], given: list[object], shape: Sequence[int]) -> None:
    if len(found) > len(shape):
        raise _invalid(found, given, shape, "more slicing indexes than dimensions in tensor")
    # The reference checks the innermost dimension first.
    for dim in reversed(range(len(found))):
        item, size = found[dim], shape[dim]
        if isinstance(item, int):
            position = item
        elif item.start >= size and (item.start, item.stop) != (0, 0):
            position = item.start
        else:
            position = item.stop - 1
        if position >= size:
            why = f"index {position} out of bounds for tensor dimension #{dim} of size {size}"
            raise _invalid(found, given, shape, why)


def _invalid(found: list[Index], given: list[object], shape: Sequence[int], why: str) -> SafetensorError:
    text = ", ".join(_text(item, original) for item, original in zip(found, given))
    message = f"Error during slicing [{text}] with shape {list(shape)}: {why}"
    return SafetensorError(message, code="out_of_bounds")


def _text(item: Index, given: object) -> str:
    if isinstance(item, int):
        return str(item)
    assert isinstance(given, slice)
    start = "" if given.start is None else str(item.start)
    stop = "" if given.stop is None else str(item.stop)
    return f"{start}:{stop}" if item.step == 1 else f"{start}:{stop}:{item.step}"
