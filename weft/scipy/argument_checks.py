"""Checks of arguments that several parts of `weft.scipy` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import close_name, integer_of, unknown_option
from weft.core.types import type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftNotImplementedError, WeftValueError
from weft.kinds.arguments import NEVER
from weft.kinds.checks import check_arrays
from weft.kinds.kind import Arguments, Kind
from weft.ops.operand_errors import to_dtype


def one_of(operation: str, argument: str, value: Any, names: Sequence[Any]) -> None:
    """Raises WeftValueError for a value that is not among `names`, words or integers.

    As an integer, True is 1 and a NumPy number is its value.
    """
    kind: Any = str if isinstance(names[0], str) else (int, np.integer)
    if isinstance(value, kind) and value in names:
        return
    near = close_name(value, names) if isinstance(names[0], str) else None
    # No name but a near one is what was meant: which of them is the user's to say.
    meant = " or ".join(map(repr, names if near is None else [near]))
    fix = Fix("option", f"pass {argument}={meant}")
    raise unknown_option(operation, argument, value, ", ".join(map(repr, names)), fix=fix)


def option(*names: Any) -> Kind:
    """The kind of an argument that is one of some words or integers."""

    def take(value: Any, call: Arguments) -> Any:
        one_of(call.operation, call.name, value, names)
        return value

    return Kind(take, f"one of {', '.join(map(repr, names))}", ("?", 0.5, None), plain=NEVER)


def refuse(operation: str, argument: str, value: Any, wanted: Any, instead: str) -> None:
    """Raises WeftNotImplementedError if an argument has another value than `wanted`."""
    if value is wanted:
        return
    message, got = f"{operation} takes no {argument}= here", f"{argument}={value!r:.80}"
    fix = Fix(argument, instead, {argument: wanted})
    raise WeftNotImplementedError(
        message, operation=operation, got=got, wanted=f"{argument}={wanted!r}", fix=fix
    )


def not_there(operation: str, got: str, wanted: str, instead: str) -> WeftNotImplementedError:
    """The error for a function of SciPy that weft replaces by another one."""
    message = f"{operation} is not there"
    fix = Fix("instead", instead)
    return WeftNotImplementedError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def wrong_value(operation: str | None, got: str, wanted: str) -> WeftValueError:
    """The error for a value that a function does not take; bodies pass None as its name."""
    message = f"{operation} cannot take these values" if operation else "cannot take these values"
    fix = Fix("values", f"pass {wanted}")
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def wrong_shape(operation: str | None, got: str, wanted: str) -> ShapeError:
    """The error for shapes that do not fit; bodies pass None as the name of the function."""
    message = f"{operation}: the shapes do not fit" if operation else "the shapes do not fit"
    fix = Fix("shape", f"pass {wanted}")
    return ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def check_numbers(operation: str, argument: str, x: Any, accepted: Any = dtypes.ANY) -> None:
    """Raises WeftTypeError unless x is an array, and DTypeError for other dtypes."""
    check_arrays(operation, x, argument=argument)
    aval = type_of(x)
    if aval.dtype not in accepted:
        real = dtypes.complex64 not in accepted
        message = f"{operation} does not take {dtypes.short_name(aval.dtype)}"
        got, wanted = f"{argument}: {aval}", "real numbers" if real else "numbers"
        fix = to_dtype(argument, aval.dtype, dtypes.float32)
        raise DTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def _of_dimensions(argument: str, shape: Sequence[int], least: int, most: int | None) -> Fix:
    """The fix for an array of too few or too many dimensions."""
    lacking = least - len(shape)
    if lacking > 0:
        return Fix("reshape", f"reshape it: {argument}.reshape({(*[1] * lacking, *shape)})")
    if most == 1:
        return Fix("reshape", f"flatten it: {argument}.reshape(-1)")
    return Fix("vmap", f"pass one of those it holds: {argument}[0]; weft.vmap maps over all")


def check_dimensions(
    operation: str,
    argument: str,
    x: Any,
    least: int,
    most: int | None = None,
    accepted: Any = dtypes.ANY,
) -> None:
    """Raises as `check_numbers`, and ShapeError for another number of dimensions."""
    check_numbers(operation, argument, x)
    aval = type_of(x)
    if aval.ndim < least or (most is not None and aval.ndim > most):
        some = f"{least} or more" if most is None else f"{least} to {most}"
        message, got = f"{operation}: {argument} has {aval.ndim} dimensions", f"{argument}: {aval}"
        wanted = f"{least if most == least else some} dimensions"
        fix = _of_dimensions(argument, aval.shape, least, most)
        raise ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    if accepted is not dtypes.ANY:
        check_numbers(operation, argument, x, accepted)


def common_dtype(*arrays: Any) -> Any:
    """The dtype that arrays promote to. Raises DTypeError."""
    return dtypes.promote(*[(x.dtype, type_of(x).weak_type) for x in arrays])[0]


def dimensions(
    least: int,
    most: int | None = None,
    accepted: Any = dtypes.ANY,
    fixed: bool = False,
    together: Callable[[str, list[Any]], Any] | None = None,
) -> Kind:
    """The kind of an array with so many dimensions; fixed: a number is a part of the program;
    together: how those of one call are brought together."""

    def take(value: Any, call: Arguments) -> Any:
        check_dimensions(call.operation, call.name, value, least, most, accepted)
        rounded = isinstance(value, np.generic) and together is None
        return user_value(value) if rounded else value

    right = np.ones((2,) * (least if most == 0 else max(least, 1)), np.float32)
    means = f"an array of {least if most == least else f'{least} or more'} dimensions"
    wrong = ([1.0], "text")
    return Kind(take, means, wrong, right, False, fixed=fixed, plain=NEVER, together=together)


def not_here(why: str) -> Kind:
    """The kind of an argument of SciPy's that must be None; `why` says what to do instead."""

    def take(value: Any, call: Arguments) -> None:
        refuse(call.operation, call.name, value, None, why)

    return Kind(take, "None", (1,))


def at_least(operation: str, argument: str, value: Any, least: int) -> int:
    """A static integer from `least` on. Raises WeftTypeError and WeftValueError."""
    found = integer_of(value, operation, argument)
    if found < least:
        article = "an" if argument[0] == "n" else "a"
        wanted = f"{article} {argument} of {least} or more"
        raise wrong_value(operation, f"{argument}={found}", wanted)
    return found


def count_from(least: int) -> Kind:
    """The kind of a static integer from `least` on."""

    def take(value: Any, call: Arguments) -> int:
        return at_least(call.operation, call.name, value, least)

    return Kind(take, f"an integer of {least} or more", ("text", least - 1), least, plain=NEVER)
