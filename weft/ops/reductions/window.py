"""Reductions over windows that slide over an array: sums, extrema and their derivatives.

A sum over windows is linear; its transpose is again a sum over windows. The derivative of a maximum
picks, from each window of the tangent, the element at the position of the maximum
(`select_and_gather_add`), and its transpose adds each cotangent there (`select_and_scatter_add`):
the forward and backward pass of max-pooling. Both are linear in the values that they move, and
transpose to each other. Of equal elements the first of the window is picked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import ShapeError
from weft.errors.argument_errors import integers_of, invalid_value
from weft.ops.declare import linear_jvp, primitive, result_type
from weft.ops.flops import real_flops, window_pairs
from weft.ops.operand_errors import unfit
from weft.ops.reductions.reduce import check_dtype, highest, lowest
from weft.ops.structural.narrow import in_accumulator
from weft.ops.structural.padding_sizes import (
    Pads,
    dilated_length,
    padding_of,
    padtype_to_pads,
    windows,
)
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo

Ints = tuple[int, ...]


# ---- windows -----------------------------------------------------------------------------------


def window_params(
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> dict[str, Any]:
    """The parameters of a windowed reduction, completed for each dimension. Raises ShapeError and
    WeftValueError if they do not fit the shape."""
    given = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }
    found = {
        name: (1,) * len(shape) if values is None else integers_of(values, name, "reduce_window")
        for name, values in given.items()
    }
    if isinstance(padding, str):
        check_window(shape, **found, padding=((0, 0),) * len(shape))
        padding = padtype_to_pads(*_extents(shape, found), found["window_strides"], padding)
    return found | {"padding": padding_of(padding, "reduce_window", ("low", "high"))}


def _extents(shape: Sequence[int], params: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The dilated lengths of an array and of the window."""
    window, spread = params["window_dimensions"], params["window_dilation"]
    sizes = map(dilated_length, shape, params["base_dilation"])
    return list(sizes), list(map(dilated_length, window, spread))


def check_window(shape: Sequence[int], *, padding: Pads, **params: Ints) -> None:
    """Raises ShapeError or WeftValueError if parameters do not fit a shape."""
    for name, values in (*params.items(), ("padding", padding)):
        if len(values) != len(shape):
            message = f"a windowed reduction needs one entry of {name} per dimension"
            got, wanted = f"{name}={values} for shape {tuple(shape)}", f"{len(shape)} entries"
            raise ShapeError(message, operation="reduce_window", got=got, wanted=wanted)
    for name, steps in params.items():
        if any(step < 1 for step in steps):
            message = f"a windowed reduction needs positive {name}"
            raise invalid_value(message, "reduce_window", name, steps, "numbers of 1 or more")


def window_shape(shape: Sequence[int], **params: Any) -> Ints:
    """The number of windows in each dimension."""
    check_window(shape, **params)
    extents = _extents(shape, params)
    return windows("reduce_window", *extents, params["window_strides"], params["padding"])


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Ints:
    """The shape of the result of `reduce_window`.

    Args:
        operand_shape: The shape of the array.
        window_dimensions: The window's length in every dimension.
        base_dilation: The distance between neighbours of the array, per dimension; by default 1.
        window_dilation: The distance between neighbours of the window, per dimension; by default 1.

    >>> lax.reduce_window_shape_tuple((8, 7), (2, 2), (2, 2), "VALID")
    (4, 3)
    """
    given = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return window_shape(operand_shape, **window_params(operand_shape, *given))


def with_dimension(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters for arrays with one more dimension, over which no window reaches."""
    return {
        name: (*values[:dim], (0, 0) if name == "padding" else 1, *values[dim:])
        for name, values in params.items()
    }


# ---- the lowering ------------------------------------------------------------------------------


def emit_windows(
    operands: Sequence[Any],
    inits: Sequence[Any],
    body: Callable[[list[Any], list[Any]], Sequence[Any]],
    *,
    window_dimensions: Ints,
    window_strides: Ints,
    **params: Any,
) -> list[Any]:
    """One StableHLO windowed reduction."""
    return stablehlo.reduce_window(
        operands, inits, body, window=window_dimensions, strides=window_strides, **params
    )


def declare_window(
    made: Primitive,
    *,
    accepts: frozenset[Any],
    identity: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    jvp: Callable[..., Any],
    transpose: Callable[..., Any] | None = None,
    rounds: bool = False,
    **facts: Any,
) -> Primitive:
    """Makes a primitive combine the elements of each window, and padding the identity; in a wider
    dtype if the combination `rounds`."""

    def type_rule(x: ArrayType, **params: Any) -> ArrayType:
        check_dtype(made.name, x, accepts)
        return result_type((x,), window_shape(x.shape, **params), x.dtype, x.weak_type)

    def vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[Any, int]:
        (dim,) = dims
        assert dim is not None
        return made.bind(args[0], **with_dimension(params, dim)), dim

    def lower(context: Any, x: Any, **params: Any) -> Any:
        dtype = context.in_types[0].dtype
        init = stablehlo.constant(identity(dtype), (), dtype)
        return emit_windows([x], [init], lambda a, b: [combine(a[0], b[0])], **params)[0]

    return primitive(
        made,
        type_rule=type_rule,
        jvp=jvp,
        transpose=transpose,
        vmap=vmap,
        lower=in_accumulator(lower) if rounds else lower,
        **facts,
    )


# ---- sum ---------------------------------------------------------------------------------------


def reduce_window_sum(
    operand: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The sum of each window of the given lengths (one per dimension).

    window_strides: the steps from window to window; padding: "VALID", "SAME", "SAME_LOWER" or (low,
    high) per dimension; base_dilation and window_dilation: the distance between neighbouring
    elements of the array and of the window. Raises ShapeError, DTypeError and WeftValueError.

    >>> import numpy as np
    >>> print(reduce_window_sum(np.array([1, 2, 3, 4]), (2,)))
    [3 5 7]
    """
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    params = window_params(type_of(operand).shape, *window)
    return reduce_window_sum_p.bind(operand, **params)


def reduce_window_sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    # Every element of the array lies in the windows that begin at most a window's reach before it.
    pads = []
    sizes, reaches = _extents(x.type.shape, params)
    strides, counts = params["window_strides"], type_of(ct).shape
    for size, reach, stride, count, (low, _) in zip(
        sizes, reaches, strides, counts, params["padding"], strict=True
    ):
        before = reach - 1 - low
        pads.append((before, size + reach - 1 - dilated_length(count, stride) - before))
    steps = {"window_strides": params["base_dilation"], "base_dilation": strides}
    return [reduce_window_sum_p.bind(ct, **params | steps | {"padding": tuple(pads)})]


def _window_work(eqn: Equation) -> Work:
    operand, out, params = eqn.inputs[0].type, eqn.outputs[0].type, eqn.params
    length = prod(
        window_pairs(length, size, outputs, stride, low, dilation, spread)
        for length, size, outputs, stride, (low, _), dilation, spread in zip(
            operand.shape, params["window_dimensions"], out.shape, params["window_strides"],
            params["padding"], params["base_dilation"], params["window_dilation"], strict=True,
        )
    )  # fmt: skip
    return Work(real_flops(out, max(0.0, float(length - out.size))))


reduce_window_sum_p = Primitive("reduce_window_sum")
declare_window(
    reduce_window_sum_p,
    accepts=dtypes.NUMERIC,
    identity=lambda dtype: dtype.type(0),
    combine=stablehlo.add,
    jvp=linear_jvp(reduce_window_sum_p.bind),
    transpose=reduce_window_sum_transpose,
    rounds=True,
    linear=True,
    flops=_window_work,
)


# ---- maximum and minimum -----------------------------------------------------------------------


def reduce_window_max(
    operand: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The maximum of each window; padding is below every number. See `reduce_window_sum`."""
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    params = window_params(type_of(operand).shape, *window)
    return reduce_window_max_p.bind(operand, **params)


def reduce_window_min(
    operand: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """The minimum of each window; padding is above every number. See `reduce_window_sum`."""
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    params = window_params(type_of(operand).shape, *window)
    return reduce_window_min_p.bind(operand, **params)


def extremum_jvp(made: Primitive, direction: str) -> Callable[..., Any]:
    """The jvp rule of an extremum: the tangents at the positions of the elements picked."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        out = made.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero(type_of(out).tangent())
        return out, select_and_gather_add_p.bind(
            tangents[0], primals[0], direction=direction, **params
        )

    return jvp


reduce_window_max_p = Primitive("reduce_window_max")
declare_window(
    reduce_window_max_p,
    accepts=dtypes.ORDERED,
    identity=lowest,
    combine=stablehlo.maximum,
    jvp=extremum_jvp(reduce_window_max_p, "GE"),
    flops=_window_work,
)
reduce_window_min_p = Primitive("reduce_window_min")
declare_window(
    reduce_window_min_p,
    accepts=dtypes.ORDERED,
    identity=highest,
    combine=stablehlo.minimum,
    jvp=extremum_jvp(reduce_window_min_p, "LE"),
    flops=_window_work,
)


# ---- picking by the extremum of a window -------------------------------------------------------


def select_and_gather_add(
    tangents: Any,
    operand: Any,
    direction: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """From each window of `tangents` the element at the position where `operand` is largest.

    direction: "GE" for the largest, "LE" for the smallest. Zero where a window holds only padding.
    See `reduce_window_sum` for the windows.
    """
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    params = window_params(type_of(operand).shape, *window)
    return select_and_gather_add_p.bind(tangents, operand, direction=direction, **params)


def check_direction(direction: str) -> None:
    """Raises WeftValueError for a direction other than "GE" and "LE"."""
    if direction not in ("GE", "LE"):
        message = "the element of a window is selected by GE or LE"
        wanted = '"GE" (the largest) or "LE" (the smallest)'
        raise invalid_value(message, "select_and_gather_add", "direction", direction, wanted)


def select_and_gather_add_type(
    tangents: ArrayType, operand: ArrayType, *, direction: str, **params: Any
) -> ArrayType:
    check_direction(direction)
    check_dtype("select_and_gather_add", operand, dtypes.ORDERED)
    check_dtype("select_and_gather_add", tangents, dtypes.NUMERIC)
    if tangents.shape != operand.shape:
        takes, types = "two arrays of one shape", (tangents, operand)
        raise unfit(ShapeError, "select_and_gather_add", takes, types, "equal shapes")
    shape = window_shape(operand.shape, **params)
    return result_type((tangents, operand), shape, tangents.dtype, tangents.weak_type)


def select_transpose(other: Callable[[], Primitive]) -> Callable[..., list[Any]]:
    """The transpose rule of both primitives, linear in the values that they move."""

    def transpose(ct: Any, moved: Any, operand: Any, **params: Any) -> list[Any]:
        assert type(moved) is LinearOperand and type(operand) is not LinearOperand
        return [other().bind(ct, operand, **params), None]

    return transpose


def select_vmap(made: Primitive) -> Callable[..., Any]:
    """The vmap rule of both primitives: no window reaches over the mapped dimension."""

    def vmap(
        axis: AxisData, args: Values, dims: Dims, *, direction: str, **params: Any
    ) -> tuple[Any, int]:
        moved = [move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        return made.bind(*moved, direction=direction, **with_dimension(params, 0)), 0

    return vmap


def best_of(values: list[Any], others: list[Any], direction: str) -> list[Any]:
    """Selects the (value, position, payload …) row that goes first. Negative positions mark
    padding, which always loses; ties go to the lower position, so that the order of combination
    does not matter."""
    x, i, *rest = values
    y, j, *others_rest = others
    zero = stablehlo.constant(0, (), stablehlo.dtype_of(i.type.element_type))
    better = stablehlo.compare(x, y, "GT" if direction == "GE" else "LT")
    tie = stablehlo.and_(stablehlo.compare(x, y, "EQ"), stablehlo.compare(i, j, "LT"))
    nan = stablehlo.and_(stablehlo.compare(x, x, "NE"), stablehlo.compare(y, y, "EQ"))
    first = stablehlo.or_(stablehlo.or_(better, tie), nan)
    # A NaN loses to no number; padding loses to all.
    first = stablehlo.or_(first, stablehlo.compare(j, zero, "LT"))
    first = stablehlo.and_(first, stablehlo.compare(i, zero, "GE"))
    pairs = zip([x, i, *rest], [y, j, *others_rest], strict=True)
    return [stablehlo.select(first, a, b) for a, b in pairs]


def pick(
    operand: Any, payload: Sequence[Any], type: ArrayType, direction: str, params: dict[str, Any]
) -> list[Any]:
    """The (value, row-major position, payload …) of the element picked from each window."""
    counter = np.dtype(np.int32 if type.size < 2**31 else np.int64)
    flat = stablehlo.iota((type.size,), counter, 0)
    places = stablehlo.reshape(flat, type.shape)
    worst = (lowest if direction == "GE" else highest)(type.dtype)
    inits = [
        stablehlo.constant(worst, (), type.dtype),
        stablehlo.constant(-1, (), counter),
        *(stablehlo.constant(0, (), stablehlo.dtype_of(x.type.element_type)) for x in payload),
    ]
    return emit_windows(
        [operand, places, *payload], inits, lambda a, b: best_of(a, b, direction), **params
    )


def select_and_gather_add_lower(
    context: Any, tangents: Any, operand: Any, *, direction: str, **params: Any
) -> Any:
    return pick(operand, [tangents], context.in_types[1], direction, params)[2]


select_and_gather_add_p = Primitive("select_and_gather_add")
primitive(
    select_and_gather_add_p,
    type_rule=select_and_gather_add_type,
    jvp=linear_jvp(select_and_gather_add_p.bind),
    transpose=select_transpose(lambda: select_and_scatter_add_p),
    vmap=select_vmap(select_and_gather_add_p),
    lower=select_and_gather_add_lower,
)


def select_and_scatter_add(
    source: Any,
    operand: Any,
    direction: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Zeros of the shape of `operand`, with each element of `source` added at the position where
    `operand` is largest in the window that the element belongs to.

    direction: "GE" for the largest, "LE" for the smallest. See `reduce_window_sum` for the windows.
    """
    window = window_dimensions, window_strides, padding, base_dilation, window_dilation
    params = window_params(type_of(operand).shape, *window)
    return select_and_scatter_add_p.bind(source, operand, direction=direction, **params)


def select_and_scatter_add_type(
    source: ArrayType, operand: ArrayType, *, direction: str, **params: Any
) -> ArrayType:
    check_direction(direction)
    check_dtype("select_and_scatter_add", operand, dtypes.ORDERED)
    check_dtype("select_and_scatter_add", source, dtypes.NUMERIC)
    shape = window_shape(operand.shape, **params)
    if source.shape != shape:
        message = "select_and_scatter_add takes one source element per window"
        raise ShapeError(message, got=f"{source} for windows of {operand}", wanted=f"shape {shape}")
    return result_type((source, operand), operand.shape, source.dtype, source.weak_type)


def select_and_scatter_add_lower(
    context: Any, source: Any, operand: Any, *, direction: str, **params: Any
) -> Any:
    type, of = context.in_types[1], context.in_types[0]
    # StableHLO's select_and_scatter is slow on the CPU: positions and a scatter take half the time.
    plain = params["base_dilation"] == params["window_dilation"] == (1,) * type.ndim
    if plain and type.dtype == of.dtype and context.platform != "cpu":
        return stablehlo.select_and_scatter(
            operand,
            source,
            stablehlo.constant(0, (), of.dtype),
            lambda x, y: stablehlo.compare(x, y, direction),
            stablehlo.add,
            window=params["window_dimensions"],
            strides=params["window_strides"],
            padding=params["padding"],
        )
    # Positions of padding, which are negative, are out of bounds and dropped.
    places = pick(operand, [], type, direction, params)[1]
    count = prod(of.shape)
    numbers = stablehlo.ScatterDimensions(
        inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1
    )
    (found,) = stablehlo.scatter(
        [stablehlo.full(0, (type.size,), of.dtype)],
        stablehlo.reshape(places, (count, 1)),
        [stablehlo.reshape(source, (count,))],
        numbers,
        lambda a, b: [stablehlo.add(a[0], b[0])],
    )
    return stablehlo.reshape(found, type.shape)


select_and_scatter_add_p: Primitive = Primitive("select_and_scatter_add")
primitive(
    select_and_scatter_add_p,
    type_rule=select_and_scatter_add_type,
    jvp=linear_jvp(select_and_scatter_add_p.bind),
    transpose=select_transpose(lambda: select_and_gather_add_p),
    vmap=select_vmap(select_and_scatter_add_p),
    lower=in_accumulator(select_and_scatter_add_lower),
)
