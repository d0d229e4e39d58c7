"""Index expressions of numpy: integers, slices, Ellipsis and None."""

from __future__ import annotations

import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def select(index: Any, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...], bool]:
    """Returns the slice (start, stop, step) of each dimension, the shape of the result, and whether the
    result is a scalar. As in numpy, it is a scalar if all indices are integers."""
    items = index if isinstance(index, tuple) else (index,)
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    ellipses = sum(1 for item in items if item is Ellipsis)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions but {used} were indexed")
    if not ellipses:
        items += (Ellipsis,)
    slices: list[tuple[int, int, int]] = []
    result: list[int] = []
    for item in items:
        axis = len(slices)
        if item is None:
            result.append(1)
        elif item is Ellipsis:
            for extent in shape[axis : axis + len(shape) - used]:
                slices.append((0, extent, 1))
                result.append(extent)
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[axis])
            count = len(range(start, stop, step))
            # A slice of at most one element gets the step 1, because the given step may exceed 64 bits.
            slices.append((start, stop, step) if count > 1 else (start, start + 1, 1) if count else (0, 0, 1))
            result.append(count)
        else:
            at = _position(item, axis, shape[axis])
            slices.append((at, at + 1, 1))
    return tuple(slices), tuple(result), not ellipses and used == len(items) - 1 and not result


def _position(item: Any, axis: int, extent: int) -> int:
    # numpy interprets a bool as a mask.
    if isinstance(item, bool) or type(item).__name__ in ("bool_", "bool"):
        raise IndexError("a mask is not supported here; use numpy()[mask]")
    try:
        at = operator.index(item)
    except TypeError:
        raise IndexError(
            f"only integers, slices, '...' and None are valid here, not {type(item).__name__}; use numpy()[index]"
        ) from None
    if not -extent <= at < extent:
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {extent}")
    return at + extent if at < 0 else at
