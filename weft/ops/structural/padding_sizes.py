"""The arithmetic of windows that slide over an array: paddings by name, and how many fit.

"VALID" pads nothing; "SAME" pads so that there is one window per stride, the larger half after
("SAME_LOWER": before).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.errors import ShapeError
from weft.errors.argument_errors import integers_of, invalid_type, invalid_value

Pads = tuple[tuple[int, int], ...]


def dilated_length(size: int, step: int) -> int:
    """Returns the length of a dimension whose elements are put `step` apart."""
    return (size - 1) * step + 1 if size else 0


def padding_of(padding: Any, operation: str, parts: tuple[str, ...]) -> tuple[Any, ...]:
    """A padding as tuples of integers: `parts` per dimension. Raises WeftTypeError for others."""
    wanted = f"({', '.join(parts)}) per dimension"
    try:
        out = tuple(integers_of(entry, "padding", operation) for entry in padding)
    except TypeError:
        out = None
    if out is None or any(len(entry) != len(parts) for entry in out):
        message = f"{operation}: padding is {wanted}, integers that are known while tracing"
        raise invalid_type(message, operation, "padding", padding, wanted)
    return out


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> Pads:
    """Returns the (low, high) padding per dimension of a name: VALID, SAME or SAME_LOWER.

    in_shape: the lengths of the array, per spatial dimension; window_shape: the lengths of the
    window, per spatial dimension.

    Raises ShapeError if the sequences differ in length, WeftValueError for another name.

    >>> padtype_to_pads((5,), (4,), (1,), "SAME")
    ((1, 2),)
    """
    name = padding.upper()
    if not len(in_shape) == len(window_shape) == len(window_strides):
        message = "windows need a length and a stride for each dimension they slide over"
        got = (
            f"shape {tuple(in_shape)}, window {tuple(window_shape)}, "
            f"strides {tuple(window_strides)}"
        )
        raise ShapeError(message, operation="padding", got=got, wanted="as many of each")
    if name == "VALID":
        return ((0, 0),) * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        wanted = '"SAME", "SAME_LOWER", "VALID", or (low, high) per dimension'
        message = f"there is no padding {padding!r}"
        raise invalid_value(message, "padding", "padding", padding, wanted, use="SAME")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + window - size)
        smaller = total // 2
        pair = smaller, total - smaller
        pads.append(pair[::-1] if name == "SAME_LOWER" else pair)
    return tuple(pads)


def windows(
    operation: str,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> tuple[int, ...]:
    """The number of windows in each dimension; lengths are those after dilation. Raises ShapeError
    if padding cuts off more than there is."""
    counts = []
    for size, reach, stride, (low, high) in zip(sizes, window, strides, padding, strict=True):
        extent = size + low + high
        if extent < 0:
            message = f"{operation}: the padding cuts off more than there is"
            got = f"padding {(low, high)} of a dimension of length {size}"
            wanted = "a padded length of 0 or more"
            raise ShapeError(message, operation=operation, got=got, wanted=wanted)
        counts.append(0 if extent < reach else (extent - reach) // stride + 1)
    return tuple(counts)
