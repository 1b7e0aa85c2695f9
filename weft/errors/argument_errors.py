"""The errors for an argument that a function cannot take, by kind.

Each function returns an error for its caller to raise. The caller passes the message, the argument
with its value, and what was wanted. A fix that passes another value for the argument is made from
that value (`use`); any other is given as it is (`fix`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    with_operation,
)
from weft.runtime.jaxlib.lazy import LazyModule

E = TypeVar("E", bound=WeftError)

difflib: Any = LazyModule("difflib")  # for errors only

# The default of an argument for which None is a value.
NOT_GIVEN: Any = object()


def refusal(
    kind: type[E],
    message: str,
    operation: str,
    got: str,
    wanted: str | None = None,
    fix: Fix | None = None,
) -> E:
    """An error of a class that is not about one argument's value."""
    return kind(message, operation=operation, got=got, wanted=wanted, fix=fix)


def _pass_fix(argument: str, use: Any, fix: Fix | None) -> Fix | None:
    """The fix that passes a value for the argument, or `fix`."""
    if use is NOT_GIVEN:
        return fix
    return Fix(argument, f"pass {argument}={use!r}", {argument: use})


def close_name(name: Any, known: Sequence[str]) -> str | None:
    """The known name that is closest to a misspelled one; None if none is close."""
    close = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    return close[0] if close else None


def conversion_text(name: str, value: Any, dtype: Any) -> str:
    """The expression that gives a value of this name another dtype; numbers have no `astype`."""
    if isinstance(value, (bool, int, float, complex)):
        return f"weft.numpy.array({name}, {dtype.name!r})"
    return f"{name}.astype({dtype.name!r})"


def describe_value(value: Any) -> str:
    """A value and its class, for the `got` of errors."""
    try:
        shown = f"{value!r:.100}"
    except RecursionError:
        shown = "a nest of too many levels"
    return f"{shown} of class {type(value).__name__}"


def negative_value(
    operation: str,
    argument: str,
    value: Any,
    wanted: str = "an integer of 0 or more",
    use: Any = NOT_GIVEN,
) -> WeftValueError:
    """The error for a number that may not be negative, and is."""
    message = with_operation(operation, f"{argument} is not negative")
    return invalid_value(message, operation, argument, value, wanted, use)


def not_a_function(
    operation: str,
    value: Any,
    wanted: str = "a function",
    fix: Fix | None = None,
    place: str = "first",
) -> WeftTypeError:
    """The error for an argument that is not a function; `place` says where it stands, or as
    what."""
    message = f"{operation} takes a function {place}, not {type(value).__name__}"
    return refusal(WeftTypeError, message, operation, describe_value(value), wanted, fix)


def not_an_array(
    operation: str,
    what: str,
    value: Any,
    wanted: str = "an array, a number, or a tree of those",
    fix: Fix | None = None,
) -> WeftTypeError:
    """The error for a value that is not an array and cannot become one; `what` names it."""
    return refusal(
        WeftTypeError, f"{what} is no array", operation, describe_value(value), wanted, fix
    )


def unsupported_argument(
    operation: str, argument: str, value: Any, why: str, fix: str, wanted: Any = None
) -> WeftNotImplementedError:
    """The error for an argument that NumPy or SciPy takes and weft does not.

    wanted: the one value that the argument may have.
    """
    message, got = f"{operation} takes no {argument}=: {why}", f"{argument}={value!r:.80}"
    advice = Fix("keyword", fix, {"keyword": argument, "value": wanted})
    kind, needed = WeftNotImplementedError, f"{argument}={wanted!r}"
    return refusal(kind, message, operation, got, needed, advice)


def refuse_sharding(operation: str, out_sharding: Any) -> None:
    """Raises WeftNotImplementedError if an `out_sharding` is given that asks for something."""
    if out_sharding is not None and not getattr(out_sharding, "without_axes", False):
        why = "the placement of a result is asked for separately"
        fix = "constrain the result: weft.lax.with_sharding_constraint(x, sharding)"
        raise unsupported_argument(operation, "out_sharding", out_sharding, why, fix)


def unknown_option(
    operation: str,
    argument: str,
    value: Any,
    wanted: str | None = None,
    use: Any = NOT_GIVEN,
    fix: Fix | None = None,
    noun: str | None = None,
) -> WeftValueError:
    """The error for a value that is none of the options. noun: their name, if not `argument`."""
    message = f"{operation}: there is no {noun or argument} {value!r:.80}"
    return invalid_value(message, operation, argument, value, wanted, use, fix)


def invalid_class(
    message: str,
    operation: str,
    argument: str,
    value: Any,
    wanted: str | None = None,
    fix: Fix | None = None,
) -> WeftTypeError:
    """The error for a value of a wrong class, which the message shows."""
    got = f"{argument}={value!r:.80} of class {type(value).__name__}"
    return refusal(WeftTypeError, message, operation, got, wanted, fix)


def invalid_dtype(
    message: str,
    operation: str,
    argument: str,
    aval: Any,
    wanted: str | None = None,
    fix: Fix | None = None,
) -> DTypeError:
    """The error for an array of a dtype that the function does not take."""
    return refusal(DTypeError, message, operation, f"{argument} of type {aval}", wanted, fix)


def invalid_shape(
    message: str,
    operation: str,
    argument: str,
    shape: Any,
    wanted: str | None = None,
    fix: Fix | None = None,
) -> ShapeError:
    """The error for an array of a shape that the function does not take."""
    return refusal(ShapeError, message, operation, f"{argument} of shape {shape}", wanted, fix)


def invalid_type(
    message: str,
    operation: str,
    argument: str,
    value: Any,
    wanted: str | None = None,
    use: Any = NOT_GIVEN,
    fix: Fix | None = None,
) -> WeftTypeError:
    """The error for a value of a kind that the function does not take."""
    got = f"{argument}={value!r:.80}"
    return refusal(WeftTypeError, message, operation, got, wanted, _pass_fix(argument, use, fix))


def invalid_value(
    message: str,
    operation: str,
    argument: str,
    value: Any,
    wanted: str | None = None,
    use: Any = NOT_GIVEN,
    fix: Fix | None = None,
) -> WeftValueError:
    """The error for a value of the right kind that the function cannot take."""
    got = f"{argument}={value!r:.80}"
    return refusal(WeftValueError, message, operation, got, wanted, _pass_fix(argument, use, fix))


def integer_of(value: Any, argument: str, operation: str = "") -> int:
    """A static integer. Raises WeftTypeError for anything else, a traced value included."""
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, WeftTypeError):
            raise
        message = with_operation(operation, f"{argument} is an integer")
        wanted = "an integer that is known while tracing"
        raise invalid_type(message, operation, argument, value, wanted) from None


def integers_of(values: Any, argument: str, operation: str = "") -> tuple[int, ...]:
    """Static integers. Raises WeftTypeError if `values` is not a sequence of integers."""
    try:
        return tuple(map(operator.index, values))
    except TypeError as error:
        if isinstance(error, WeftTypeError):
            raise
        message = with_operation(operation, f"{argument} is a sequence of integers")
        wanted = "a sequence of integers that are known while tracing"
        raise invalid_type(message, operation, argument, values, wanted) from None


def wrong_value(got: str, wanted: str) -> WeftValueError:
    """The error for a value that a function does not take."""
    fix = Fix("values", f"pass {wanted}")
    return WeftValueError("cannot take these values", got=got, wanted=wanted, fix=fix)


def wrong_shape(got: str, wanted: str) -> ShapeError:
    """The error for shapes that do not fit."""
    fix = Fix("shape", f"pass {wanted}")
    return ShapeError("the shapes do not fit", got=got, wanted=wanted, fix=fix)
