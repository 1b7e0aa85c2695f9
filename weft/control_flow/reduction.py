"""Reductions by any associative function of two values: over axes, and over windows.

The function is traced once, on scalars, into a jaxpr that the primitives hold. A function that is
one known operation becomes the primitive for it (a sum, a maximum, …), which has faster rules. The
others are differentiated, and mapped where initial values are mapped, by writing the reduction out:
as a tree of the mapped jaxpr over halves, or as a fold over the elements of a window.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar, overload

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.control_flow.body_tracing import run_as_one
from weft.core import rules
from weft.core.inner_programs import NO_PROGRAMS, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, eval_jaxpr
from weft.core.primitive import Facts, Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Values
from weft.core.shared_jaxprs import share_jaxpr
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, JaxprError, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import refuse_sharding
from weft.interpreters.hoist import retype_together
from weft.interpreters.jvp import jvp_flat
from weft.interpreters.staging import function_name, trace_to_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise import arithmetic, bits
from weft.ops.elementwise.arithmetic import add, mul
from weft.ops.elementwise.selection import select
from weft.ops.indexing.slicing import pad, slice, slice_in_dim
from weft.ops.reductions.reduce import (
    all_ones,
    axes_to_front,
    highest,
    lowest,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from weft.ops.reductions.window import (
    emit_windows,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    window_params,
    window_shape,
    with_dimension,
)
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import (
    broadcast_in_dim,
    canonical_axes,
    move_dim,
    reduce_sum,
    reduce_vmap_axes,
    reduced_shape,
    reshape,
)
from weft.runtime import stablehlo
from weft.typing import ArrayLike

Tree = TypeVar("Tree")

Computation = Callable[[Any, Any], Any]


# ---- the function ------------------------------------------------------------------------------

_traced: weakref.WeakKeyDictionary[Any, dict[Any, Jaxpr]] = weakref.WeakKeyDictionary()


def traced_computation(computation: Computation, types: Sequence[ArrayType], treedef: Any) -> Jaxpr:
    """The jaxpr of a function of two trees of scalars, cached for the function's life."""
    scalars = tuple(ArrayType((), t.dtype) for t in types)
    key = (scalars, treedef)
    try:
        known = _traced.setdefault(computation, {})
    except TypeError:  # a callable of a class without weak references: traced each time
        known = {}
    out = known.get(key)
    if out is None:
        out = known[key] = share_jaxpr(trace_computation(computation, scalars, treedef))
    return out


def trace_computation(
    computation: Computation, scalars: tuple[ArrayType, ...], treedef: Any
) -> Jaxpr:
    """Traces a reduction's function. Raises WeftTypeError or WeftValueError for others."""

    def flat(*values: Any) -> list[Any]:
        left, right = values[: len(scalars)], values[len(scalars) :]
        out = computation(tree.unflatten(treedef, left), tree.unflatten(treedef, right))
        outs, out_tree = tree.flatten(out)
        if out_tree != treedef:
            message = "the function of a reduction gives a result of the structure of its operands"
            raise WeftTypeError(message, got=str(out_tree), wanted=str(treedef))
        return outs

    jaxpr, consts = trace_to_jaxpr(
        flat, scalars * 2, transformation="reduce", name=function_name(computation)
    )
    if consts:
        message = "the function of a reduction closes over an array"
        found = ", ".join(str(type_of(x)) for x in consts)
        wanted = "a function of its two arguments and of Python numbers"
        fix = Fix("close_over_number", "use a Python number, or apply the array afterwards")
        raise WeftValueError(message, got=found, wanted=wanted, fix=fix)
    if [(t.shape, t.dtype) for t in jaxpr.out_types] != [((), t.dtype) for t in scalars]:
        message = "the function of a reduction gives scalars of the dtypes of its operands"
        found = ", ".join(map(str, jaxpr.out_types))
        wanted = ", ".join(map(str, scalars))
        scalar = not any(t.shape for t in jaxpr.out_types)
        advice = "convert the function's result to the operand's dtype"
        fix = Fix("convert", advice) if scalar else Fix("scalar", "return one number, as is given")
        raise WeftTypeError(message, got=found, wanted=wanted, fix=fix)
    return jaxpr


# Per primitive: the reduction over axes, the function, its identity, the reduction over windows.
_KNOWN: dict[Primitive, tuple[Any, Any, Callable[[Any], Any], Primitive | None]] = {
    arithmetic.add_p: (reduce_sum, add, lambda dtype: dtype.type(0), reduce_window_sum_p),
    arithmetic.mul_p: (reduce_prod, mul, lambda dtype: dtype.type(1), None),
    arithmetic.max_p: (reduce_max, arithmetic.max, lowest, reduce_window_max_p),
    arithmetic.min_p: (reduce_min, arithmetic.min, highest, reduce_window_min_p),
    bits.and_p: (reduce_and, bits.bitwise_and, all_ones, None),
    bits.or_p: (reduce_or, bits.bitwise_or, lambda dtype: dtype.type(0), None),
    bits.xor_p: (reduce_xor, bits.bitwise_xor, lambda dtype: dtype.type(0), None),
}


def known_operation(jaxpr: Jaxpr) -> Any:
    """The entry of `_KNOWN` for a jaxpr of one known operation of its inputs, or None."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.inputs) != 2:
        return None
    (eqn,) = jaxpr.eqns
    inner = eqn.params.get("jaxpr")
    if type(inner) is Jaxpr and list(eqn.inputs) == jaxpr.inputs and eqn.outputs == jaxpr.outputs:
        return known_operation(inner)
    plain = eqn.outputs == jaxpr.outputs and set(eqn.inputs) == set(jaxpr.inputs)
    return _KNOWN.get(eqn.primitive) if plain else None


def is_identity(value: Any, identity: Any) -> bool:
    """Whether an initial value is known to be the identity of the operation."""
    if isinstance(value, Tracer):
        return False
    return bool(np.all(np.asarray(value) == identity))


def initial_values(inits: Sequence[Any], types: Sequence[ArrayType]) -> list[Any]:
    """The initial values in the operands' dtypes. Raises ShapeError and WeftTypeError."""
    out = []
    for init, of in zip(inits, types, strict=True):
        if isinstance(init, (bool, int, float, complex)):
            init = dtypes.number(init, of.dtype)
        elif isinstance(init, np.generic) and init.dtype != of.dtype:
            init = user_value(init)
        if type_of(init).shape:
            message = "an initial value has no dimensions"
            wanted = f"{dtypes.short_name(of.dtype)}[]"
            raise ShapeError(message, got=str(type_of(init)), wanted=wanted)
        if type_of(init).dtype != of.dtype:
            message = "an initial value has the dtype of its operand"
            wanted = f"{dtypes.short_name(of.dtype)}[]"
            fix = Fix("convert", f"convert it to {of.dtype.name}", {"dtype": of.dtype.name})
            raise WeftTypeError(message, got=f"{type_of(init)} for {of}", wanted=wanted, fix=fix)
        out.append(init)
    return out


def flat_operands(
    operands: Any, init_values: Any, computation: Computation
) -> tuple[list[Any], list[Any], Jaxpr, Any]:
    """Operands and initial values as lists, the function's jaxpr, and the result's tree."""
    flat, treedef = tree.flatten(operands)
    inits, init_tree = tree.flatten(init_values)
    if treedef != init_tree or not flat:
        message = "a reduction takes one initial value per operand, in the same tree"
        got = f"operands {treedef}, initial values {init_tree}"
        raise WeftTypeError(message, got=got, wanted="equal structures, not empty")
    types = [type_of(x) for x in flat]
    if any(t.shape != types[0].shape for t in types):
        message = "a reduction takes operands of one shape"
        got = ", ".join(map(str, types))
        raise ShapeError(message, got=got, wanted="equal shapes")
    jaxpr = traced_computation(computation, types, treedef)
    return flat, initial_values(inits, types), jaxpr, treedef


def apply_elementwise(jaxpr: Jaxpr, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Applies a jaxpr of scalars to every pair of elements of arrays of one shape."""
    shape = type_of(left[0]).shape
    size = prod(shape)
    mapped, _ = vmap_jaxpr(jaxpr, AxisData(None, size), (0,) * len(jaxpr.inputs), True)
    outs = eval_jaxpr(mapped, (), *(reshape(x, (size,)) for x in (*left, *right)))
    return [reshape(x, shape) for x in outs]


# ---- over axes ---------------------------------------------------------------------------------


@overload
def reduce(
    operands: ArrayLike,
    init_values: Any,
    computation: Computation,
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Array: ...
@overload
def reduce(
    operands: Tree,
    init_values: Any,
    computation: Computation,
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Tree: ...
@api_boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Computation,
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combines the elements along dimensions by an associative function of two scalars.

    operands: an array, or a tree of arrays of one shape; init_values: for each, a scalar that
    leaves the other operand of the function unchanged; computation: takes two trees of scalars and
    gives one. Raises ShapeError, AxisError and WeftTypeError.

    dimensions: the indices of the dimensions that are combined and dropped.

    >>> import weft.lax as lax
    >>> import numpy as np
    >>> reduce(np.array([1, 2, 3]), 0, lambda a, b: lax.bitwise_or(a, b), (0,))
    Array(3, dtype=int32)
    """
    refuse_sharding("reduce", out_sharding)
    flat, inits, jaxpr, treedef = flat_operands(operands, init_values, computation)
    axes = canonical_axes(tuple(dimensions), type_of(flat[0]).ndim, "reduce")
    known = known_operation(jaxpr)
    if known is not None:
        reduction, function, identity, _ = known
        out = reduction(flat[0], axes)
        if not is_identity(inits[0], identity(type_of(out).dtype)):
            out = function(inits[0], out)
        return tree.unflatten(treedef, [out])
    return tree.unflatten(treedef, reduce_p.bind(*flat, *inits, jaxpr=jaxpr, dimensions=axes))


def runs_in_elements(eqn: Equation) -> InnerPrograms:
    """None: a jaxpr of two numbers belongs to the cost of the operation itself."""
    return NO_PROGRAMS


reduce_p = Primitive("reduce", multiple_results=True, memoise=False)
reduce_p.facts = Facts(fuses_operands=True)


def check_operands(operation: str, types: Sequence[ArrayType], jaxpr: Jaxpr) -> None:
    """Raises JaxprError if operands and initial values do not fit the jaxpr's inputs."""
    operands, inits = types[: len(types) // 2], types[len(types) // 2 :]
    if (
        len(types) != len(jaxpr.inputs)
        or [t.dtype for t in types] != [t.dtype for t in jaxpr.in_types]
        or any(t.shape != operands[0].shape for t in operands)
        or any(t.shape for t in inits)
    ):
        raise JaxprError(
            f"{operation}: the operands do not fit the program",
            got=", ".join(map(str, types)),
            wanted=f"arrays of one shape, then initial values without dimensions, of the dtypes of "
            f"{', '.join(map(str, jaxpr.in_types))}",
        )


def reduce_type(*types: ArrayType, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[ArrayType]:
    check_operands("reduce", types, jaxpr)
    operands = types[: len(types) // 2]
    shape = reduced_shape(operands[0], dimensions, "reduce")
    return [result_type(types, shape, t.dtype) for t in operands]


def reduce_by_tree(
    jaxpr: Jaxpr, operands: Sequence[Any], starts: Sequence[Any], dimensions: tuple[int, ...]
) -> list[Any]:
    """Writes the reduction out: combines neighbours in order until one row is left, and that with
    `starts`, the initial values in the shape of the result."""
    rows = [axes_to_front(x, dimensions) for x in operands]
    length = type_of(rows[0]).shape[0]
    if not length:
        return list(starts)
    while length > 1:
        pairs = length // 2
        left = [slice_in_dim(x, 0, 2 * pairs, 2) for x in rows]
        joined = apply_elementwise(jaxpr, left, [slice_in_dim(x, 1, 2 * pairs, 2) for x in rows])
        if length % 2:
            last = [slice_in_dim(x, length - 1, length) for x in rows]
            joined = [concatenate(pair, 0) for pair in zip(joined, last, strict=True)]
        rows, length = joined, pairs + length % 2
    shape = type_of(starts[0]).shape
    return apply_elementwise(jaxpr, starts, [reshape(x, shape) for x in rows])


def jvp_written_out(
    primals: Values,
    tangents: Values,
    shape: tuple[int, ...],
    reduced: Callable[..., list[Any]],
    name: str,
) -> Derived:
    """The derivative of a reduction that is written out. `reduced` takes the operands, the initial
    values, and these in the shape of the result."""
    count = len(primals) // 2

    def written_out(*values: Any) -> list[Any]:
        inits = values[count:]
        return reduced(values[:count], inits, [broadcast_in_dim(x, shape, ()) for x in inits])

    return jvp_flat(written_out, primals, tangents, name)


def rows_and_inits(
    axis: AxisData, args: Values, dims: Dims
) -> tuple[list[Any], Sequence[Any], Sequence[int | None]]:
    """The operands, mapped along dimension 0; the initial values, and their mapped dimensions."""
    n = len(args) // 2
    rows = [move_dim(x, d, 0, axis.size) for x, d in zip(args[:n], dims[:n], strict=True)]
    return rows, args[n:], dims[n:]


def reduce_jvp(
    primals: Values, tangents: Values, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]
) -> Derived:
    def reduced(operands: Sequence[Any], _: Any, starts: Sequence[Any]) -> list[Any]:
        return reduce_by_tree(jaxpr, operands, starts, dimensions)

    shape = reduced_shape(type_of(primals[0]), dimensions, "reduce")
    return jvp_written_out(primals, tangents, shape, reduced, "reduce")


def reduce_vmap(
    axis: AxisData, args: Values, dims: Dims, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]
) -> Mapped:
    rows, inits, init_dims = rows_and_inits(axis, args, dims)
    moved, place = reduce_vmap_axes(dimensions, 0)
    if all(dim is None for dim in init_dims):
        return reduce_p.bind(*rows, *inits, jaxpr=jaxpr, dimensions=moved), [place] * len(rows)
    shape = reduced_shape(type_of(rows[0]), moved, "reduce")
    starts = mapped_starts(inits, init_dims, shape)
    return reduce_by_tree(jaxpr, rows, starts, moved), [0] * len(rows)


def mapped_starts(inits: Sequence[Any], dims: Dims, shape: tuple[int, ...]) -> list[Any]:
    """Broadcasts initial values, mapped or not, to a result whose first dimension is mapped."""
    pairs = zip(inits, dims, strict=True)
    return [broadcast_in_dim(x, shape, () if d is None else (0,)) for x, d in pairs]


def reduce_lower(
    context: Any, *values: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]
) -> list[Any]:
    count = len(values) // 2
    return stablehlo.reduce(
        values[:count],
        values[count:],
        dimensions,
        lambda a, b: context.lower_jaxpr(jaxpr, [*a, *b]),
    )


rules.impl.register(reduce_p, partial(run_as_one, reduce_p, True))
rules.retype.register(reduce_p, retype_together)
rules.runs.register(reduce_p, runs_in_elements)
primitive(reduce_p, type_rule=reduce_type, jvp=reduce_jvp, vmap=reduce_vmap, lower=reduce_lower)


# ---- over windows ------------------------------------------------------------------------------


@overload
def reduce_window(
    operand: ArrayLike,
    init_value: Any,
    computation: Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array: ...
@overload
def reduce_window(
    operand: Tree,
    init_value: Any,
    computation: Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Tree: ...
@api_boundary
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Computation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combines the elements of each window by an associative function of two scalars.

    operand: an array, or a tree of arrays of one shape; init_value: for each, a scalar that leaves
    the other operand of the function unchanged, and that fills the padding too; computation: takes
    two trees of scalars and gives one; window_dimensions: the window's length in every dimension;
    the rest as in `reduce_window_sum`. Raises ShapeError, WeftTypeError and WeftValueError.

    base_dilation: the distance between neighbours of the operand, per dimension; by default 1;
    window_dilation: the distance between neighbours of the window, per dimension; by default 1.

    >>> import weft.lax as lax
    >>> import numpy as np
    >>> reduce_window(np.array([1, 3, 2, 5]), 0, lax.max, (2,))
    Array([3, 3, 5], dtype=int32)
    """
    flat, inits, jaxpr, treedef = flat_operands(operand, init_value, computation)
    of = type_of(flat[0])
    params = window_params(
        of.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    known = known_operation(jaxpr)
    if known is not None and known[3] is not None and is_identity(inits[0], known[2](of.dtype)):
        return tree.unflatten(treedef, [known[3].bind(flat[0], **params)])
    return tree.unflatten(treedef, reduce_window_p.bind(*flat, *inits, jaxpr=jaxpr, **params))


reduce_window_p = Primitive("reduce_window", multiple_results=True, memoise=False)


def reduce_window_type(*types: ArrayType, jaxpr: Jaxpr, **params: Any) -> list[ArrayType]:
    check_operands("reduce_window", types, jaxpr)
    operands = types[: len(types) // 2]
    shape = window_shape(operands[0].shape, **params)
    return [result_type(types, shape, t.dtype) for t in operands]


def window_elements(padded: Any, shape: tuple[int, ...], params: dict[str, Any]) -> list[Any]:
    """For each position in a window, in order, the elements of all windows there."""
    steps, spread = params["window_strides"], params["window_dilation"]
    out = []
    for place in np.ndindex(*params["window_dimensions"]):
        starts = [i * apart for i, apart in zip(place, spread, strict=True)]
        rows = zip(starts, shape, steps, strict=True)
        limits = [start + (count - 1) * step + 1 if count else start for start, count, step in rows]
        out.append(slice(padded, starts, limits, steps))
    return out


def reduce_window_by_fold(
    jaxpr: Jaxpr, params: dict[str, Any], operands: Values, fills: Values, starts: Values
) -> list[Any]:
    """Writes the windowed reduction out, one element of the window after the other. `starts` are
    the initial values in the shape of the result. Padding counts for nothing, as in an executable,
    even if an initial value is not the identity."""
    pairs = zip(params["padding"], params["base_dilation"], strict=True)
    config = [(low, high, apart - 1) for (low, high), apart in pairs]
    shape = type_of(starts[0]).shape
    if not prod(shape):
        return list(starts)
    padded = [pad(x, fill, config) for x, fill in zip(operands, fills, strict=True)]
    of = type_of(operands[0]).shape
    held = pad(broadcast_in_dim(np.bool_(True), of, ()), np.bool_(False), config)
    total = list(starts)
    for inside, *elements in zip(
        *(window_elements(x, shape, params) for x in (held, *padded)), strict=True
    ):
        wider = apply_elementwise(jaxpr, total, elements)
        total = [select(inside, new, old) for new, old in zip(wider, total, strict=True)]
    return total


def reduce_window_jvp(primals: Values, tangents: Values, *, jaxpr: Jaxpr, **params: Any) -> Derived:
    shape = window_shape(type_of(primals[0]).shape, **params)
    reduced = partial(reduce_window_by_fold, jaxpr, params)
    return jvp_written_out(primals, tangents, shape, reduced, "reduce_window")


def reduce_window_vmap(
    axis: AxisData, args: Values, dims: Dims, *, jaxpr: Jaxpr, **params: Any
) -> Mapped:
    rows, inits, init_dims = rows_and_inits(axis, args, dims)
    wide = with_dimension(params, 0)
    if all(dim is None for dim in init_dims):
        return reduce_window_p.bind(*rows, *inits, jaxpr=jaxpr, **wide), [0] * len(rows)
    starts = mapped_starts(inits, init_dims, window_shape(type_of(rows[0]).shape, **wide))
    zeros = [type_of(x).dtype.type(0) for x in rows]
    return reduce_window_by_fold(jaxpr, wide, rows, zeros, starts), [0] * len(rows)


def reduce_window_lower(context: Any, *values: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    count = len(values) // 2
    return emit_windows(
        values[:count], values[count:], lambda a, b: context.lower_jaxpr(jaxpr, [*a, *b]), **params
    )


rules.impl.register(reduce_window_p, partial(run_as_one, reduce_window_p, True))
rules.retype.register(reduce_window_p, retype_together)
rules.runs.register(reduce_window_p, runs_in_elements)
primitive(
    reduce_window_p,
    type_rule=reduce_window_type,
    jvp=reduce_window_jvp,
    vmap=reduce_window_vmap,
    lower=reduce_window_lower,
)
