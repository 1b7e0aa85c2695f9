"""The kinds of arguments that functions of arrays take.

Each is a name for annotations: a parameter that is `axis: Axes = None` gets a tuple of axes of the
first operand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.core.types import type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError
from weft.errors.argument_errors import NOT_GIVEN, integer_of, refuse_sharding, unsupported_argument
from weft.kinds.checks import (
    axes_of,
    axis_of,
    check_arrays,
    check_choice,
    check_dimensions,
    check_number,
    count_of,
    inexact,
    operand,
    promote_values,
    refuse_out,
    shape_of,
)
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.flags import check_flag
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import canonical_precision
from weft.typing import ArrayLike


def _operand(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    return user_value(value) if isinstance(value, np.generic) else value


def _unrounded(value: Any, call: Arguments) -> Any:
    # A NumPy scalar keeps its digits until the dtype of the others is known (`promote_operands`).
    check_arrays(value, argument=call.name)
    return value


def take_stored(value: Any, call: Arguments) -> Any:
    """An operand that goes into the first one: a number keeps the digits that this can hold."""
    check_arrays(value, argument=call.name)
    return number_for(value, call.type.dtype)


def take_beside(value: Any, call: Arguments) -> Any:
    """An operand that is computed with beside the first one, in its real or complex dtype."""
    check_arrays(value, argument=call.name)
    return number_for(value, inexact(call.type.dtype))


def of_rank(
    least: int,
    most: int | None = None,
    accepted: Any = dtypes.ANY,
    fixed: bool = False,
    together: Callable[[str, list[Any]], Any] | None = None,
) -> Kind:
    """The kind of an operand of so many dimensions; accepted: its dtypes, None for any."""

    def take(value: Any, call: Arguments) -> Any:
        check_dimensions(call.name, value, least, most, accepted)
        rounded = isinstance(value, np.generic) and together is None
        return user_value(value) if rounded else value

    wanted = f"{least} or {'more' if most is None else most}" if least != most else f"{least}"
    right = np.ones((2,) * (least if most == 0 else max(least, 1)), np.float32)
    wrong = ([1.0], "text", *[1.5] * (least > 0))
    means = f"an array of {wanted} dimensions"
    return Kind(take, means, wrong, right, False, fixed=fixed, plain=NEVER, together=together)


def of_dtypes(accepts: Collection[Any], one: Any, means: str) -> Kind:
    """The kind of an operand of some dtypes; errors say how it is converted to one of them."""

    def take(value: Any, call: Arguments) -> Any:
        value = _operand(value, call)
        of = type_of(value)
        if of.dtype not in accepts:
            message = f"{call.name} has a dtype that it does not take"
            fix = to_dtype(call.name, of.dtype, one)
            raise DTypeError(message, got=f"{call.name} {of}", wanted=means, fix=fix)
        return value

    values = {"wrong": (*operand_kind.wrong, True), "right": operand_kind.right.astype(one)}
    return dataclasses.replace(operand_kind, take=take, means=means, arrays=False, **values)


def _one_or_several(value: Any, call: Arguments) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        check_arrays(*value, argument=call.name)
        return (*value,)
    if hasattr(value, "ndim"):
        if not value.ndim:
            message = f"{call.name} has no dimensions"
            got, wanted = str(type_of(value)), "a sequence of arrays, or an array of them"
            fix = Fix("sequence", f"pass a tuple: {call.name}=({call.name},)", {})
            raise ShapeError(message, got=got, wanted=wanted, fix=fix)
        return (*value,)
    message, got = f"{call.name} is a sequence", f"{call.name}={value!r:.80}"
    raise WeftTypeError(message, got=got, wanted="a tuple or list of arrays")


def _each(value: Any, call: Arguments) -> tuple[Any, ...]:
    values = _one_or_several(value, call)
    return tuple([user_value(x) if isinstance(x, np.generic) else x for x in values])


def common(operation: str, values: list[Any]) -> Sequence[Any]:
    """Promotes operands to a common dtype."""
    return promote_values(operation, *values)


def common_inexact(operation: str, values: list[Any]) -> Sequence[Any]:
    """Promotes operands to a common dtype of real or complex numbers."""
    values = promote_values(operation, *values)
    dtype = inexact(type_of(values[0]).dtype)
    return [x if type_of(x).dtype == dtype else convert_element_type(x, dtype) for x in values]


def _axes(value: Any, call: Arguments) -> tuple[int, ...]:
    return axes_of(value, call.type.ndim)


def _named_axes(value: Any, call: Arguments) -> tuple[Any, ...]:
    if value is None or type(value) is int:
        return axes_of(value, call.type.ndim)
    axes = (value,) if isinstance(value, str) else value
    if not isinstance(axes, (tuple, list)):
        return _axes(value, call)
    names = tuple(axis for axis in axes if isinstance(axis, str))
    return (*_axes(tuple(axis for axis in axes if not isinstance(axis, str)), call), *names)


def _axis(value: Any, call: Arguments) -> int:
    return axis_of(value, call.type.ndim)


def _integer(value: Any, call: Arguments) -> int:
    return integer_of(value, call.name)


NEVER: frozenset[Any] = frozenset()


def choice(*choices: Any, means: str = "") -> Kind:
    """The kind of an argument that is one of some choices."""

    def take(value: Any, call: Arguments) -> Any:
        return check_choice(value, choices, call.name)

    wrong = tuple(x for x in ("?", 0.5, None) if x not in choices)
    means = means or f"one of {', '.join(map(repr, choices))}"
    return Kind(take, means, wrong, choices[0], plain=NEVER)


def _shape(value: Any, call: Arguments) -> tuple[int, ...]:
    return shape_of(value)


def _function(value: Any, call: Arguments) -> Any:
    if not callable(value):
        message = f"takes a function as {call.name}"
        raise WeftTypeError(message, got=f"{call.name}={value!r:.80}", wanted="a function")
    return value


def _flag(value: Any, call: Arguments) -> bool:
    check_flag(value, call.name)
    return bool(value)


def take_dtype(value: Any, call: Arguments) -> Any:
    out = dtypes.requested(value)
    if out not in dtypes.ANY:
        raise DTypeError("does not compute in this dtype", got=str(out))
    return out


def _precision(value: Any, call: Arguments) -> Any:
    canonical_precision(value, call.operation)
    return tuple(value) if isinstance(value, list) else value


def _mask(value: Any, call: Arguments) -> Any:
    value = operand(call.operation, value, call.name)
    of = type_of(value)
    if of.dtype != dtypes.bool_:
        message = f"{call.name} is a mask"
        mask = value.astype(bool) if hasattr(value, "astype") else bool(value)
        fix = Fix("mask", f"pass {call.name}=mask.astype(bool)", {"where": mask})
        got = f"{call.name} of type {of}"
        raise DTypeError(message, got=got, wanted="booleans", fix=fix)
    return value


def take_number(value: Any, call: Arguments) -> Any:
    check_number(value, call.name)
    return value.item() if isinstance(value, np.generic) else value


def _out(value: Any, call: Arguments) -> None:
    refuse_out(call.operation, value)


def _no_sharding(value: Any, call: Arguments) -> None:
    refuse_sharding(call.operation, value)


def count_from(least: int, use: Any = NOT_GIVEN) -> Kind:
    """The kind of a static integer from `least` on; errors for negative ones advise to pass
    `use`."""

    def take(value: Any, call: Arguments) -> int:
        return count_of(value, call.name, least, use)

    wrong = ("text", 0.5, least - 1, None)
    return Kind(take, f"an integer of {least} or more", wrong, max(least, 3), plain=NEVER)


def copy_kind(why: str, fix: str) -> Kind:
    """The kind of `copy`, which is True: arrays do not share memory."""

    def take(value: Any, call: Arguments) -> bool:
        check_flag(value, call.name)
        if not value:
            raise unsupported_argument(call.operation, call.name, value, why, fix, True)
        return True

    return Kind(take, "True", (False, "no"), plain=frozenset((True,)))


def refused_kind(why: str, fix: str) -> Kind:
    """The kind of an argument that NumPy or SciPy takes and weft refuses, but for None."""

    def take(value: Any, call: Arguments) -> None:
        raise unsupported_argument(call.operation, call.name, value, why, fix)

    return Kind(take, "None; NumPy takes more", (1,))


BOTH = frozenset((True, False))

_AXES = "an axis, a tuple of axes, or None for all"
_NAMES = "; names of axes of `vmap` or of a manual mesh may be among them"
_WRONG_AXES = (99, -99, 0.5, (0, 0))

_matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
operand_kind = Kind(
    _operand,
    "an array or a number",
    ([1, 2], "text"),
    _matrix,
    static=False,
    plain=NEVER,
    arrays=True,
)
Operand = Annotated[ArrayLike, dataclasses.replace(operand_kind, by_class=True)]
Stored = Annotated[ArrayLike, dataclasses.replace(operand_kind, take=take_stored, by_class=True)]
# Those of one call get the dtype that they promote to.
promoted_kind = dataclasses.replace(operand_kind, take=_unrounded, together=common)
Promoted = Annotated[ArrayLike, dataclasses.replace(promoted_kind, by_class=True)]
# Those of one call get the real or complex dtype that they promote to.
_inexact_kind = dataclasses.replace(promoted_kind, together=common_inexact, by_class=True)
Inexact = Annotated[ArrayLike, _inexact_kind]
_sequence_kind = Kind(
    _each,
    "a sequence of arrays",
    (1, "text", _matrix[0, 0]),
    (_matrix, _matrix),
    static=False,
    plain=NEVER,
)
Operands = Annotated[Any, _sequence_kind]
# Those of `*name`.
EachOperand = Annotated[Any, dataclasses.replace(_sequence_kind, wrong=operand_kind.wrong)]
PromotedOperands = Annotated[
    Any, dataclasses.replace(_sequence_kind, take=_one_or_several, together=common)
]
_each_promoted_kind = dataclasses.replace(
    _sequence_kind, take=_one_or_several, together=common, wrong=operand_kind.wrong, by_class=True
)
EachPromoted = Annotated[Any, _each_promoted_kind]
Axes = Annotated[Any, Kind(_axes, _AXES, (*_WRONG_AXES, "text"), 0, plain=NEVER)]
NamedAxes = Annotated[Any, Kind(_named_axes, _AXES + _NAMES, _WRONG_AXES, 0, plain=NEVER)]
Axis = Annotated[Any, Kind(_axis, "an axis, or None for the flattened array", (99, -99, 0.5), 0)]
OneAxis = Annotated[int, Kind(_axis, "an axis", (99, -99, 0.5, None), 0, plain=NEVER)]
Shape = Annotated[Any, Kind(_shape, "an integer or a sequence of integers", ("text", 0.5), (3,))]
Length = Annotated[int, count_from(0)]
Integer = Annotated[int, Kind(_integer, "an integer", ("text", 0.5), 1, plain=NEVER)]
DType = Annotated[Any, Kind(take_dtype, "a dtype, or None for that of the operand", ("text", 5))]
Function = Annotated[Any, Kind(_function, "a function", (1, "text"), abs, plain=NEVER)]
Flag = Annotated[bool, Kind(_flag, "True or False", ("no", 2, 0.5), plain=BOTH)]
Precision = Annotated[
    Any, Kind(_precision, '"default", "high" or "highest", or one for each operand', ("?", 0.5))
]
Mask = Annotated[
    Any, Kind(_mask, "booleans: which elements count", ("text", [True], _matrix), static=False)
]
Number = Annotated[Any, Kind(take_number, "a number", ("text", [1]), static=False, fixed=True)]
# The operands of private functions: arrays, and numbers of their dtype. They are not taken twice: a
# NumPy scalar of 64 bits would take the default width.
_prepared_kind = dataclasses.replace(
    operand_kind, take=lambda value, call: value, wrong=(), by_class=True
)
Prepared = Annotated[Any, _prepared_kind]
# What is handed on to a function of the user's, and the static arguments of private functions.
Passed = Annotated[Any, Kind(lambda value, call: value, "passed on as it is")]
NoEffect = Annotated[Any, Kind(lambda value, call: None, "without effect", plain=NEVER)]
Out = Annotated[None, Kind(_out, "None: arrays do not change in place", (1,))]
NoSharding = Annotated[None, Kind(_no_sharding, "None: the result is constrained by itself", (1,))]
