"""Numbers and NumPy arrays as operands of a dtype, without rounding them on the way.

A number that is given beside arrays takes their dtype. Where that has 64 bits the number is
converted to it directly, not to the default width first, which would round it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import put
from weft.core.trace import current_variable
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError
from weft.kinds.checks import check_arrays, check_fits, operands
from weft.ops.elementwise.convert import convert_element_type_p

_trace = current_variable.get
NUMBERS = (bool, int, float, complex)
# The kinds of dtypes in the order of promotion.
RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
WIDE = frozenset({dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128})


def canonical_type(value: Any) -> ArrayType:
    """The type of an operand; NumPy scalars and arrays get the default width."""
    if is_number(value):
        # By class alone: the plan checks whether an integer fits when it runs.
        return type_of(next(cls for cls in NUMBERS if isinstance(value, cls))(0))
    of = type_of(value)
    if isinstance(value, np.generic):
        return ArrayType((), dtypes.canonical(of.dtype))
    return of


def as_operand(operation: str, value: Any, argument: str = "") -> Any:
    """An argument as an operand of primitives: a 64-bit NumPy scalar takes the default width.
    Raises WeftTypeError naming the operation where it is no array and no number."""
    if getattr(value, "type", None) is not None:
        return value
    check_arrays(value, argument=argument, operation=operation)
    if isinstance(value, np.generic):
        dtype = dtypes.canonical(value.dtype)
        if dtype != value.dtype:
            return dtypes.number(value, dtype, "value")
    return value


def promote_operands(operation: str, *values: Any) -> tuple[Any, ...]:
    """Operands of a common dtype. If that has 64 bits, numbers and NumPy arrays are converted
    directly: the default width would round them. Raises as `as_operand`, DTypeError if there is no
    common dtype, and OverflowError for a Python integer beyond it."""
    given = operands(operation, *values)
    if all(hasattr(x, "type") for x in given):
        return given
    types = [canonical_type(x) if is_number(x) else type_of(x) for x in given]
    try:
        dtype, weak = dtypes.promote(*[(of.dtype, of.weak_type) for of in types])
    except DTypeError as error:
        error.operation = error.operation or operation
        raise
    if weak:
        return given
    if dtype not in WIDE:
        return tuple([number_for(x, dtype) for x in given])
    return tuple([in_dtype(x, dtype) for x in values])


def number_for(value: Any, dtype: Any, operation: str = "") -> Any:
    """Converts a Python number, NumPy scalar or NumPy array to `dtype` where the default width
    would lose digits or overflow; others are unchanged. Raises OverflowError for an integer beyond
    an integer dtype."""
    if isinstance(value, (np.ndarray, np.generic)):
        given = value.dtype
        if dtype in WIDE and given in dtypes.ANY and RANK[given.kind] <= RANK[dtype.kind]:
            return in_dtype(value, dtype)
        return user_value(value)
    if type(value) not in NUMBERS or dtype not in dtypes.NUMERIC:
        return value
    check_fits(value, dtype, operation)
    large = type(value) is int and not dtypes.fits(value, dtypes.default_int())
    if (dtype in WIDE or large) and RANK[dtypes.of_scalar(value).kind] <= RANK[dtype.kind]:
        return in_dtype(value, dtype)
    return value


def in_dtype(value: Any, dtype: Any) -> Any:
    """Converts a number or a NumPy array to a dtype at once; an array is returned as it is."""
    if hasattr(value, "type"):
        return value
    if not isinstance(value, np.ndarray):
        number = dtypes.number(value, dtype)
        if _trace(None) is None:
            return put(np.asarray(number), ArrayType((), dtype))
        if dtypes.canonical(dtype) == dtype:
            return number  # A literal of the jaxpr.
        # Passed as an argument again, a NumPy scalar would take the default width.
        return convert_element_type_p.bind(number, new_dtype=dtype, weak_type=False)
    return put(value.astype(dtype), ArrayType(value.shape, dtype))


def is_number(value: Any) -> bool:
    """Whether a value is a Python number."""
    return isinstance(value, NUMBERS) and not isinstance(value, np.generic)
