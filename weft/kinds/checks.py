"""Checking and converting the arguments of functions: arrays, axes, common dtypes, shapes.

Functions of `weft.numpy` take arrays, NumPy arrays and numbers, and no lists: turning a list into
an array element by element is slow and hides a mistake, so the user calls `weft.numpy.array`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.base import source as sources
from weft.core.trace import Tracer
from weft.core.types import check_unmasked, type_of, user_value
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftArgumentError,
    WeftTypeError,
    WeftValueError,
    with_operation,
)
from weft.errors.argument_errors import (
    NOT_GIVEN,
    close_name,
    describe_value,
    integer_of,
    integers_of,
    invalid_value,
    negative_value,
    refusal,
    unsupported_argument,
)
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.shape import broadcast_in_dim, canonical_axes, canonical_axis, reshape


def check_arrays(*values: Any, argument: str = "", operation: str = "") -> None:
    """Raises WeftTypeError naming the first argument that is neither an array nor a number.

    argument: the name of the argument, or of the sequence that has the values; operation: that of a
    function without a boundary.
    """
    for position, value in enumerate(values):
        if getattr(value, "type", None) is not None:
            continue
        if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
            dtype = getattr(value, "dtype", _FLOAT)
            if dtype.kind in "OSUMm":
                which, _ = _place_of(argument, position, len(values))
                text = f"a NumPy array of dtype {dtype} holds no numbers ({which})"
                message = with_operation(operation, text)
                wanted = "a numeric or boolean dtype"
                raise refusal(WeftTypeError, message, operation, f"dtype {dtype}", wanted)
            check_unmasked(value, operation)
            continue
        if not isinstance(value, (list, tuple, str, set, dict)) and value is not None:
            try:
                type_of(value)
            except WeftTypeError:
                pass
            else:
                continue
        fix = None
        which, name = _place_of(argument, position, len(values))
        if isinstance(value, (list, tuple)):
            changes = {"argument": argument or position}
            fix = Fix("array", f"convert it: weft.numpy.array({name})", changes)
        text = f"takes arrays or numbers, not a {type(value).__name__} ({which})"
        message = with_operation(operation, text)
        got = f"{describe_value(value)} as {which}"
        wanted = "an array, a NumPy array or a number"
        raise refusal(WeftTypeError, message, operation, got, wanted, fix)


def _place_of(argument: str, position: int, count: int) -> tuple[str, str]:
    """How an error calls one of so many values, and how its fix writes it."""
    if not argument:
        return f"argument {position}", "x"
    place = argument if count == 1 else f"{argument}[{position}]"
    return (f"argument {place}", place) if argument.isidentifier() else (place, "x")


def operand(operation: str, value: Any, argument: str = "") -> Any:
    """Returns an array or a number as it is, and a NumPy scalar in the default width.

    Raises WeftTypeError naming the operation for anything else.
    """
    check_arrays(value, argument=argument, operation=operation)
    return user_value(value) if isinstance(value, np.generic) else value


def operands(operation: str, *values: Any) -> tuple[Any, ...]:
    """Applies `operand` to several arguments."""
    check_arrays(*values, operation=operation)
    return tuple([user_value(x) if isinstance(x, np.generic) else x for x in values])


def check_fits(value: Any, dtype: Any, operation: str = "") -> None:
    """Raises WeftOverflowError for a Python integer that does not fit in an integer dtype."""
    if type(value) is int and dtype in dtypes.INTEGER and not dtypes.fits(value, dtype):
        dtypes.number(value, dtype, operation=operation)


_FLOAT = np.dtype(float)


def refuse_out(operation: str, out: Any) -> None:
    """Raises WeftNotImplementedError if an `out` is given: arrays do not change in place."""
    if out is not None:
        why = "arrays do not change in place; use the result"
        fix = f"leave it out and use the result: out = {operation}(...)"
        raise unsupported_argument(operation, "out", out, why, fix)


def axis_of(axis: Any, ndim: int, operation: str = "") -> int:
    """One axis, between 0 and ndim - 1. Raises TypeError if it is not an integer."""
    try:
        axis = operator.index(axis)
    except TypeError:
        if isinstance(axis, Tracer):
            raise  # it says that the number is not known
        message = with_operation(operation, "an axis is an integer")
        got = f"axis={axis!r:.80}"
        raise refusal(WeftArgumentError, message, operation, got, "an integer") from None
    return canonical_axis(axis, ndim, operation)


def along(operation: str, a: Any, axis: Any) -> tuple[Any, int]:
    """An operand and one of its axes; without one, the flattened operand and its axis 0."""
    a = operand(operation, a)
    if axis is None:
        return reshape(a, (type_of(a).size,)), 0
    return a, axis_of(axis, type_of(a).ndim, operation)


_axes: dict[tuple[Any, int], tuple[int, ...]] = {}


def axes_of(axis: Any, ndim: int, operation: str = "") -> tuple[int, ...]:
    """The axes that `axis` names: an integer, a sequence or array of them, or None for all."""
    plain = axis is None or type(axis) is int
    if plain or (type(axis) is tuple and all(type(a) is int for a in axis)):
        out = _axes.get((axis, ndim))
        if out is not None:
            return out
        plain = True
    if axis is None:
        out = tuple(range(ndim))
    else:
        several = [axis_of(a, ndim, operation) for a in one_or_several(axis)]
        out = canonical_axes(several, ndim, operation)
    if plain:
        _axes[axis, ndim] = out
    return out


def length_of(value: Any, argument: str, operation: str = "") -> int:
    """A static integer of 0 or more. Raises WeftValueError for a negative one."""
    return count_of(value, argument, 0, operation=operation)


def count_of(
    value: Any, argument: str, least: int, use: Any = NOT_GIVEN, operation: str = ""
) -> int:
    """A static integer from `least` on. Raises WeftTypeError and WeftValueError, which for a
    negative one advises to pass `use`."""
    count = integer_of(value, argument, operation)
    if count < least:
        if count < 0:
            raise negative_value(operation, argument, count, use=use)
        message, wanted = f"{argument} is {least} or more", f"{least} or more"
        use = least if use is NOT_GIVEN else use
        raise invalid_value(message, operation, argument, count, wanted, use)
    return count


def check_numbers(argument: str, x: Any, accepted: Any = dtypes.ANY) -> None:
    """Raises WeftTypeError unless x is an array, and DTypeError for other dtypes."""
    check_arrays(x, argument=argument)
    aval = type_of(x)
    if aval.dtype not in accepted:
        real = dtypes.complex64 not in accepted
        message = f"does not take {dtypes.short_name(aval.dtype)}"
        got, wanted = f"{argument}: {aval}", "real numbers" if real else "numbers"
        fix = to_dtype(argument, aval.dtype, dtypes.float32)
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)


def _of_dimensions(argument: str, shape: Sequence[int], least: int, most: int | None) -> Fix:
    """The fix for an array of too few or too many dimensions."""
    lacking = least - len(shape)
    if lacking > 0:
        return Fix("reshape", f"reshape it: {argument}.reshape({(*[1] * lacking, *shape)})")
    if most == 1:
        return Fix("reshape", f"flatten it: {argument}.reshape(-1)")
    return Fix("vmap", f"pass one of those it holds: {argument}[0]; weft.vmap maps over all")


def check_dimensions(
    argument: str, x: Any, least: int, most: int | None = None, accepted: Any = dtypes.ANY
) -> None:
    """Raises WeftTypeError unless x is an array, ShapeError for another number of dimensions, and
    DTypeError for other dtypes, of which None accepts all."""
    check_arrays(x, argument=argument)
    aval = type_of(x)
    if aval.ndim < least or (most is not None and aval.ndim > most):
        some = f"{least} or more" if most is None else f"{least} to {most}"
        message, got = f"{argument} has {aval.ndim} dimensions", f"{argument}: {aval}"
        wanted = f"{least if most == least else some} dimensions"
        fix = _of_dimensions(argument, aval.shape, least, most)
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    if accepted is not None:
        check_numbers(argument, x, accepted)


def check_number(value: Any, argument: str) -> None:
    """Raises WeftTypeError if a value is neither a number nor an array without dimensions."""
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return
    known = getattr(value, "type", None) is not None or isinstance(value, np.ndarray)
    if not known or type_of(value).shape:
        got = f"{argument}={value!r:.80}"
        raise WeftTypeError(f"{argument} is a number", got=got, wanted="a number")


def check_choice(value: Any, choices: Sequence[Any], argument: str) -> Any:
    """Returns the choice that a value is. Raises WeftValueError if it is none."""
    several = getattr(value, "shape", ()) != ()  # an array is compared element by element
    for choice in () if several else choices:
        if value is choice or value == choice:
            return choice
    words = [x for x in choices if isinstance(x, str)]
    near = close_name(value, words) if isinstance(value, str) else None
    # No name but a near one is what was meant: which of them is the user's to say.
    meant = " or ".join(map(repr, choices if near is None else [near]))
    fix, wanted = Fix("option", f"pass {argument}={meant}"), ", ".join(map(repr, choices))
    message, got = f"there is no {argument} {value!r:.80}", f"{argument}={value!r:.80}"
    raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


def check_fill(fill_value: Any, size: Any) -> None:
    """Raises WeftValueError for a `fill_value` without a `size`."""
    if fill_value is not None and size is None:
        what = "fill_value is what is missing from size= elements, and there is no size"
        got = f"fill_value={fill_value!r:.80} and no size"
        fix = Fix("size", "pass size=, how many elements to return, or no fill_value", {})
        raise WeftValueError(what, got=got, wanted="both or neither", fix=fix)


def check_fill_is_read(fill_value: Any, mode: Any, operation: str) -> None:
    """Raises WeftValueError for a fill value with a mode that does not fill; under JAX's rule for
    arguments it has no effect."""
    if config.lenient():
        return
    message = f"{operation}: fill_value is read with mode='fill'"
    got = f"fill_value={fill_value!r:.80} and mode={mode!r}"
    fix = Fix("mode", "pass mode='fill'", {"mode": "fill"})
    raise refusal(WeftValueError, message, operation, got, "mode='fill', or no fill_value", fix)


def one_or_several(value: Any) -> Sequence[Any]:
    """The elements of a sequence or of an array of one dimension; any other value alone."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    return tuple(value) if getattr(value, "ndim", 0) == 1 else (value,)


def sequence_of(value: Any, argument: str) -> Sequence[Any]:
    """A sequence, or the elements of an array of one dimension. Raises WeftTypeError for others."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return value
    if getattr(value, "ndim", 0) == 1:
        return tuple(value)
    got, wanted = f"{argument}={value!r:.80}", "a sequence, such as a tuple"
    raise WeftTypeError(f"{argument} is a sequence", got=got, wanted=wanted)


def shape_of(shape: Any, operation: str = "") -> tuple[int, ...]:
    """A shape from an integer or a sequence of integers, a library's class of shapes included."""
    if isinstance(shape, (tuple, list)):
        return tuple(integer_of(size, "each length of shape", operation) for size in shape)
    sequence = hasattr(shape, "__iter__")
    if getattr(shape, "ndim", 1 if sequence else 0) == 1 and not isinstance(shape, str):
        return integers_of(shape, "each length of shape", operation)
    return (integer_of(shape, "shape", operation),)


def convert(x: Any, dtype: Any) -> Any:
    """The value in a dtype, no longer weakly typed."""
    of = type_of(x)
    if of.dtype == dtype and not of.weak_type:
        return x
    return convert_element_type(x, dtype)


def strong(x: Any) -> Any:
    """The value without weak type."""
    of = type_of(x)
    return convert_element_type(x, of.dtype) if of.weak_type else x


def promote_values(operation: str, *values: Any) -> list[Any]:
    """The values promoted to a common dtype; weakly typed if all of them are."""
    types = [type_of(x) for x in values]
    first = types[0]
    for of in types[1:]:
        if of.dtype != first.dtype or of.weak_type != first.weak_type:
            break
    else:
        return list(values)
    try:
        dtype, weak = dtypes.promote(*[(of.dtype, of.weak_type) for of in types])
    except DTypeError as error:
        error.operation = error.operation or operation
        raise
    return [convert_element_type(x, dtype, weak) for x in values]


def inexact(dtype: Any) -> Any:
    """A dtype of real or complex numbers as it is; for integers and booleans a float dtype.

    64-bit integers become float64 and the others float32, whatever the default width.
    """
    if dtype in dtypes.INEXACT:
        return dtype
    return dtypes.float64 if dtype in (dtypes.int64, dtypes.uint64) else dtypes.float32


def computing_dtype(dtype: Any) -> Any:
    """The inexact dtype in which numbers of a dtype are computed: float32 for half precision."""
    found = inexact(dtype)
    return dtypes.float32 if found in (dtypes.float16, dtypes.bfloat16) else found


def common_shape(*shapes: Sequence[int]) -> tuple[int, ...] | None:
    """The shape to which all the shapes broadcast, or None."""
    rank = max((len(shape) for shape in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if out[i] not in (1, size):
                    return None
                out[i] = size
    return tuple(out)


def common_dtype(*arrays: Any) -> Any:
    """The dtype that arrays promote to. Raises DTypeError."""
    return dtypes.promote(*[(x.dtype, type_of(x).weak_type) for x in arrays])[0]


def broadcast_shape(
    *shapes: Sequence[int], what: str = "shapes", operation: str = ""
) -> tuple[int, ...]:
    """The shape to which all the shapes broadcast. Raises ShapeError if there is none, with the
    name of an operation that has no boundary."""
    out = common_shape(*shapes)
    if out is None:
        raise no_common_shape(operation, shapes, ", ".join(str(tuple(s)) for s in shapes), what)
    return out


def check_ranks(operation: str, shapes: Sequence[Sequence[int]]) -> None:
    """Applies the setting `numpy_rank_promotion`: a UserWarning under "warn" or a ShapeError under
    "raise" for arrays of different ranks other than 0."""
    setting = config.settings().numpy_rank_promotion
    if setting == "allow":
        return
    ranks = {len(shape) for shape in shapes if len(shape)}
    if len(ranks) < 2:
        return
    message = f"{operation}: the operands have different ranks"
    got = ", ".join(str(tuple(shape)) for shape in shapes)
    if setting == "warn":
        sources.warn(f"{message}, {got}, and are broadcast")
        return
    wanted = "equal ranks, because the setting numpy_rank_promotion is 'raise'"
    which = min(range(len(shapes)), key=lambda i: len(shapes[i]) or max(ranks))
    missing = ", ".join(["None"] * (max(ranks) - len(shapes[which])))
    text = f"write the new axes: y[{missing}], where y is operand {which}"
    fix = Fix("reshape", text, {"operand": which, "forms": [missing]})
    raise refusal(ShapeError, f"{message}, {got}", operation, got, wanted, fix)


_ORDINALS = ("first", "second", "third", "fourth")


def no_common_shape(
    operation: str, shapes: Sequence[Sequence[int]], got: str, what: str = "shapes"
) -> ShapeError:
    """The error for operands whose shapes do not broadcast together.

    Its fix inserts dimensions into one operand, if that gives the shape of the largest: a larger
    result would compute something else.
    """
    message = with_operation(operation, f"the {what} do not broadcast together")
    wanted = "lengths that are equal or 1, dimension by dimension from the last"
    whole = max(shapes, key=len)
    wrong = [i for i, s in enumerate(shapes) if common_shape(s, whole) != tuple(whole)]
    fix = None
    if len(wrong) == 1 and wrong[0] < len(_ORDINALS):
        (i,), n = wrong, len(whole)
        forms = [
            ", ".join(":" if d in kept else "None" for d in range(kept[-1] + 1))
            + ", None" * (n - 1 - kept[-1])
            for kept in itertools.combinations(range(n), len(shapes[i]))
            if all(size in (1, whole[d]) for size, d in zip(shapes[i], kept, strict=True))
        ]
        if 0 < len(forms) < 4 and len(shapes[i]) < n:
            text = " or ".join(f"y[{form}]" for form in forms)
            text = f"write {text}, where y is the {_ORDINALS[i]} operand"
            fix = Fix("reshape", text, {"operand": i, "forms": forms})
    return ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def broadcasted(x: Any, shape: tuple[int, ...], operation: str = "") -> Any:
    """The value repeated to a shape. Raises ShapeError if it does not broadcast to it, with the
    name of an operation that has no boundary."""
    old = type_of(x).shape
    if old == shape:
        return x
    lead = len(shape) - len(old)
    if lead < 0 or any(a not in (1, b) for a, b in zip(old, shape[max(lead, 0) :], strict=False)):
        message = with_operation(operation, f"shape {old} does not broadcast to {shape}")
        got, wanted = f"shape {old}", f"a shape that broadcasts to {shape}"
        raise ShapeError(message, operation=operation, got=got, wanted=wanted)
    return broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))


def apply_elementwise(operation: str, function: Any, *values: Any) -> Any:
    """An elementwise operation of `weft.ops` on values of one dtype and shape. Elementwise
    primitives broadcast values without dimensions."""
    values = tuple(promote_values(operation, *values))
    shapes = [type_of(x).shape for x in values]
    shape = broadcast_shape(*shapes, operation=operation)
    return function(
        *[x if not of else broadcasted(x, shape) for x, of in zip(values, shapes, strict=True)]
    )
