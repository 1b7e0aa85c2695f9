"""The operations that make values of a dtype which is named, as users call them.

weft's own code calls those that they are made of: it means every dtype that it names, also
where a user's dtypes are cut to 32 bits (see the setting `dtype_rule`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.ops.elementwise import convert
from weft.ops.indexing import creation
from weft.typing import ArrayLike

__all__ = [
    "bitcast_convert_type", "broadcasted_iota", "convert_element_type", "empty", "full",
    "full_like", "iota",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def _requesting(function: Callable[P, R], position: int, name: str) -> Callable[P, R]:
    """The function with the dtype at a position taken as one that the user asks for."""

    @functools.wraps(function)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        if config.settings().dtype_rule != "weft":
            if len(args) > position and args[position] is not None:
                asked = dtypes.requested(args[position])
                args = (*args[:position], asked, *args[position + 1 :])
            elif kwargs.get(name) is not None:
                kwargs[name] = dtypes.requested(kwargs[name])
        return function(*args, **kwargs)

    return boundary


bitcast_convert_type = _requesting(convert.bitcast_convert_type, 1, "new_dtype")
convert_element_type = _requesting(convert.convert_element_type, 1, "new_dtype")
broadcasted_iota = _requesting(creation.broadcasted_iota, 0, "dtype")
empty = _requesting(creation.empty, 1, "dtype")
full = _requesting(creation.full, 2, "dtype")
_full_like = _requesting(creation.full_like, 2, "dtype")
iota = _requesting(creation.iota, 0, "dtype")


@functools.wraps(creation.full_like)
def full_like(
    x: ArrayLike,
    fill_value: Any,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Array:
    made = _full_like(x, fill_value, dtype, shape, sharding)
    of = type_of(made)
    weak = dtype is None and type_of(x).weak_type
    return convert.convert_element_type(made, of.dtype, True) if weak else made
