"""`scatter`: writes or combines blocks into an array, at positions that another array lists.

The dimension numbers are those of XLA's scatter
(https://openxla.org/xla/operation_semantics#scatter), with the index vectors always in the last
dimension of the indices. `scatter_add` is linear in both arrays and transposes to a copy and a
`gather`; a gather transposes to it. Where a position is listed more than once, the derivative of
`scatter` follows the update that remains, which is found by scattering numbers of updates the same
way, and that of `scatter_min` and `scatter_max` is shared equally among the values that win.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core import rules
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftNotImplementedError
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import add, div, eq, mul, neg, sub
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.flops import real_flops
from weft.ops.indexing.block_positions import clamp_positions, write_block
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    canonical_numbers,
    check_block_numbers,
    check_index_dtype,
    gather,
    gather_p,
    increasing,
    last_starts,
    scattered_indices,
    shift_dims,
)
from weft.ops.operand_errors import to_dtype, unfit
from weft.ops.structural import extended_dtypes
from weft.ops.structural.narrow import accumulator, in_accumulator
from weft.ops.structural.shape import move_dim, reshape
from weft.ops.structural.tangents import add_tangents, instantiate, jointly_linear_jvp, zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "ScatterDimensionNumbers", "scatter", "scatter_add", "scatter_max", "scatter_min",
    "scatter_mul", "scatter_sub",
]  # fmt: skip


Rule = Callable[..., Any]


class ScatterDimensionNumbers(NamedTuple):
    """The roles of the dimensions of a scatter's operands.

    update_window_dims: the dimensions of the updates that run within a block;
    inserted_window_dims: the dimensions of the operand, of block length 1, that the updates lack;
    scatter_dims_to_operand_dims: the dimension of the operand that each element of an index vector
    is for; operand_batching_dims, scatter_indices_batching_dims: dimensions of operand and indices
    that go together, pair by pair, as if the scatter were mapped over them.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


# ---- public functions and their helpers -------------------------------------------------------


def scatter(
    operand: ArrayLike,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns the operand with the updates written at the listed positions.

    Where a position is listed more than once, the update that remains is not specified. Updates out
    of bounds are dropped, unless `mode` says "clip". Raises ShapeError if dimension numbers,
    indices and updates do not fit together, DTypeError if operand and updates differ in dtype.

    updates: the values that are written, in the dtype of the operand: one block for each position;
    dimension_numbers: which dimensions of the operand, the positions and the updates belong
    together.

    >>> cells = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(np.zeros(3, np.int32), np.array([[1], [9]]), np.array([5, 6]), cells)
    Array([0, 5, 0], dtype=int32)
    """
    numbers = canonical_numbers(dimension_numbers, ScatterDimensionNumbers, "scatter")
    flags = indices_are_sorted, unique_indices, mode
    if extended_dtypes.is_key(operand):
        dtype = _same_key_dtype(operand, updates)
        rank, tail = type_of(updates).ndim, dtype.key_shape
        inner = numbers._replace(
            update_window_dims=(*numbers.update_window_dims, *range(rank, rank + len(tail)))
        )
        bits = extended_dtypes.key_bits(operand), scatter_indices, extended_dtypes.key_bits(updates)
        return extended_dtypes.wrap_key_bits(_bind(scatter_p, *bits, inner, *flags), dtype)
    return _bind(scatter_p, operand, scatter_indices, updates, numbers, *flags)


def _same_key_dtype(operand: Any, updates: Any) -> Any:
    dtype = type_of(operand).dtype
    if type_of(updates).dtype != dtype:
        types, takes = map(type_of, (operand, updates)), "an operand and updates of one dtype"
        raise unfit(DTypeError, "scatter", takes, types, "equal dtypes")
    return dtype


def _bind(
    kind: Primitive,
    operand: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
) -> Any:
    return kind.bind(
        operand,
        indices,
        updates,
        dimension_numbers=numbers,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
    )


def _combining(kind: Primitive, summary: str, shown: str) -> Callable[..., Array]:
    """Returns the public function of a scatter that combines updates with the operand's elements.

    `shown` is the result of its example: three updates of three numbers, two of them of the first.
    """

    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        numbers = canonical_numbers(dimension_numbers, ScatterDimensionNumbers, "scatter")
        flags = indices_are_sorted, unique_indices, mode
        return _bind(kind, operand, scatter_indices, updates, numbers, *flags)

    function.__name__ = function.__qualname__ = kind.name
    function.__doc__ = f"""{summary}

    A position may be listed more than once: all its updates count. Updates out of bounds are
    dropped, unless `mode` says "clip". Raises ShapeError and DTypeError as `scatter` does.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, places = np.array([1.0, 2.0, 3.0]), np.array([[0], [2], [0]])
    >>> lax.{kind.name}(x, places, np.array([10.0, 0.0, 30.0]), numbers)
    Array({shown}, dtype=float32)
    """
    return function


# ---- rules that all scatters share -----------------------------------------------------------


def window_sizes(
    operand_shape: Sequence[int], updates_shape: Sequence[int], numbers: ScatterDimensionNumbers
) -> tuple[int, ...]:
    """The lengths of a block in every dimension of the operand."""
    lengths = iter([updates_shape[d] for d in numbers.update_window_dims])
    lacking = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return tuple(1 if d in lacking else next(lengths) for d in range(len(operand_shape)))


def scatter_type(name: str, accepts: frozenset[Any]) -> Callable[..., ArrayType]:
    """The type rule of a scatter."""

    def rule(
        operand: ArrayType,
        indices: ArrayType,
        updates: ArrayType,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
    ) -> ArrayType:
        check_index_dtype(name, indices)
        if operand.dtype not in accepts or updates.dtype != operand.dtype:
            raise DTypeError(
                f"{name} takes an operand and updates of one dtype"
                + ("" if operand.dtype in accepts else ", and not of this one"),
                got=f"{operand} and updates {updates}",
                wanted="equal dtypes among " + ", ".join(sorted(map(dtypes.short_name, accepts))),
                fix=to_dtype("updates", updates.dtype, operand.dtype)
                if operand.dtype in accepts
                else to_dtype("operand", operand.dtype, dtypes.int32),
            )
        wrong = _wrong_numbers(operand, indices, updates, dimension_numbers)
        if wrong is not None:
            got = f"{operand}, indices {indices}, updates {updates}, {dimension_numbers}"
            wanted = "dimension numbers that fit operand, indices and updates"
            raise ShapeError(f"{name}: {wrong}", got=got, wanted=wanted)
        weak = operand.weak_type and updates.weak_type
        return result_type((operand, indices, updates), operand.shape, operand.dtype, weak)

    return rule


def _wrong_numbers(
    operand: ArrayType, indices: ArrayType, updates: ArrayType, numbers: ScatterDimensionNumbers
) -> str | None:
    """The fault of a scatter's dimension numbers, or None."""
    wrong = check_block_numbers(operand, indices, numbers)
    if wrong is not None:
        return wrong
    window = numbers.update_window_dims
    lacking = len(numbers.inserted_window_dims) + len(numbers.operand_batching_dims)
    if len(window) != operand.ndim - lacking or not increasing(window, updates.ndim):
        return (
            "update_window_dims must be one dimension of the updates per block dimension, in order"
        )
    if updates.ndim != len(window) + indices.ndim - 1:
        return f"the updates must have {len(window) + indices.ndim - 1} dimensions"
    listed = tuple(s for d, s in enumerate(updates.shape) if d not in window)
    if listed != indices.shape[:-1]:
        return (
            f"there are index vectors of shape {indices.shape[:-1]} and updates of shape {listed}"
        )
    sizes = window_sizes(operand.shape, updates.shape, numbers)
    # Along a batching dimension, of any length, blocks are single by definition.
    own = [d for d in range(operand.ndim) if d not in numbers.operand_batching_dims]
    if updates.size and any(sizes[d] > operand.shape[d] for d in own):
        return f"blocks of shape {sizes} are larger than the operand"
    return None


def scatter_vmap(kind: Primitive) -> Callable[..., tuple[Any, int]]:
    """The vmap rule of a scatter: one more window or batching dimension."""

    def vmap(
        axis: AxisData,
        args: Values,
        dims: Dims,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> tuple[Any, int]:
        operand, updates = (move_dim(args[i], dims[i], 0, axis.size) for i in (0, 2))
        indices, numbers = args[1], dimension_numbers
        window = shift_dims(numbers.update_window_dims)
        batching = shift_dims(numbers.operand_batching_dims)
        indices_batching = numbers.scatter_indices_batching_dims
        if dims[1] is None:
            window = (0, *window)
        else:
            indices = move_dim(indices, dims[1], 0, axis.size)
            batching, indices_batching = (0, *batching), (0, *shift_dims(indices_batching))
        numbers = ScatterDimensionNumbers(
            window,
            shift_dims(numbers.inserted_window_dims),
            shift_dims(numbers.scatter_dims_to_operand_dims),
            batching,
            indices_batching,
        )
        return kind.bind(operand, indices, updates, dimension_numbers=numbers, **params), 0

    return vmap


def scatter_lower(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The lowering of a scatter; `combine` takes the operand's element and the update."""

    def lower(
        context: Any,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
    ) -> Any:
        operand_type, indices_type, updates_type = context.in_types
        if not operand_type.size or not updates_type.size:
            return operand
        numbers, index_map = dimension_numbers, dimension_numbers.scatter_dims_to_operand_dims
        indices, dtype = scattered_indices(context, indices, (operand_type, indices_type))
        if mode is GatherScatterMode.CLIP and index_map:
            sizes = window_sizes(operand_type.shape, updates_type.shape, numbers)
            last = last_starts(operand_type.shape, sizes, index_map, dtype)
            shape = indices_type.shape
            bound = stablehlo.broadcast_in_dim(stablehlo.constant(last), shape, (len(shape) - 1,))
            indices = stablehlo.clamp(stablehlo.full(0, shape, dtype), indices, bound)
        alone = indices_type.size == indices_type.shape[-1]
        if alone and index_map and not numbers.operand_batching_dims:
            sizes = window_sizes(operand_type.shape, updates_type.shape, numbers)
            vector = stablehlo.reshape(indices, (len(index_map),))
            starts: list[Any] = [stablehlo.constant(0, (), dtype)] * operand_type.ndim
            for k, dim in enumerate(index_map):
                starts[dim] = stablehlo.reshape(stablehlo.slice_(vector, (k,), (k + 1,)), ())
            block = stablehlo.reshape(updates, sizes)
            drops = mode is GatherScatterMode.FILL_OR_DROP
            return _one_block(context, combine, operand, block, starts, operand_type, dtype, drops)
        free = [d for d in range(operand_type.ndim) if d not in numbers.operand_batching_dims]
        if not index_map and free:
            # XLA takes a scatter without positions for an elementwise operation where the shapes
            # happen to be equal, even if all updates are for one element. So its index is given.
            index_map = (free[0],)
            indices = stablehlo.full(0, (*indices_type.shape[:-1], 1), np.int32)
        updates = whole_updates(context, updates, updates_type.shape, numbers)
        stored = stablehlo.ScatterDimensions(
            update_window_dims=numbers.update_window_dims,
            inserted_window_dims=numbers.inserted_window_dims,
            input_batching_dims=numbers.operand_batching_dims,
            scatter_indices_batching_dims=numbers.scatter_indices_batching_dims,
            scatter_dims_to_operand_dims=index_map,
            index_vector_dim=indices_type.ndim - 1,
        )
        return stablehlo.scatter(
            [operand],
            indices,
            [updates],
            stored,
            lambda old, new: [combine(old[0], new[0])],
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
        )[0]

    return lower


def _one_block(
    context: Any,
    combine: Callable[[Any, Any], Any],
    operand: Any,
    block: Any,
    starts: list[Any],
    of: ArrayType,
    dtype: Any,
    drops: bool,
) -> Any:
    """The operand with one block combined at positions in a dtype; with `drops`, a block outside
    changes nothing. XLA rewrites a scatter of one block so too, but adds the start of a slice that
    made the operand before it checks the bounds (`docs/compiler_faults.md`)."""
    sizes = block.type.shape
    inside = clamp_positions(starts, of.shape, sizes, dtype)
    old = stablehlo.dynamic_slice(operand, inside, sizes)
    new = combine(old, block)
    if drops:
        same = [stablehlo.compare(x, y, "EQ") for x, y in zip(starts, inside, strict=True)]
        chosen = functools.reduce(stablehlo.and_, same)
        new = stablehlo.select(stablehlo.broadcast_in_dim(chosen, sizes, ()), new, old)
    return write_block(context, operand, new, inside, of.shape, sizes)


def whole_updates(
    context: Any, updates: Any, shape: tuple[int, ...], numbers: ScatterDimensionNumbers
) -> Any:
    """The updates, with each scatter dimension that the devices do not divide kept whole. XLA's
    partitioner pads such a dimension over some mesh axes, and applies the padding to the first
    position (`docs/compiler_faults.md`)."""
    manual = context.module.manual
    if manual is not None and manual.has_all_axes:
        return updates
    devices = max(1, len(context.module.devices))
    uneven = [
        dim
        for dim, size in enumerate(shape)
        if size % devices and dim not in numbers.update_window_dims
    ]
    return context.module.with_whole(updates, uneven) if uneven else updates


def _declare(
    name: str,
    combine: Callable[[Any, Any], Any],
    jvp: Callable[[Primitive], Rule],
    transpose: Rule | None,
    accepts: frozenset[Any] = dtypes.NUMERIC,
    rounds: bool = True,
    **facts: Any,
) -> Primitive:
    """A scatter; `jvp` makes its rule from the primitive. A combination that `rounds` is computed
    in a wider dtype where updates may meet."""
    made = Primitive(name)
    lower = scatter_lower(combine)
    wide = in_accumulator(lower)

    def lower_in_dtype(context: Any, *values: Any, **params: Any) -> Any:
        indices = context.in_types[1]
        alone = params["unique_indices"] or indices.size == indices.shape[-1]
        return (wide if rounds and not alone else lower)(context, *values, **params)

    return primitive(
        made,
        type_rule=scatter_type(name, accepts),
        jvp=jvp(made),
        transpose=transpose,
        vmap=scatter_vmap(made),
        lower=lower_in_dtype,
        **facts,
    )


def _of_updates(eqn: Equation) -> Work:
    updates = eqn.inputs[2].type
    return Work(real_flops(updates, float(updates.size)))


def linear_scatter_jvp(made: Primitive) -> Rule:
    """The jvp rule of a scatter that is linear in operand and updates together."""
    return jointly_linear_jvp(made.bind, 0, 2)


def gather_at(
    x: Any,
    indices: Any,
    updates_shape: Sequence[int],
    *,
    dimension_numbers: ScatterDimensionNumbers,
    fill_value: Any = 0,
    **flags: Any,
) -> Any:
    """The elements where a scatter writes, `fill_value` for dropped updates."""
    numbers = GatherDimensionNumbers(*dimension_numbers)
    sizes = window_sizes(type_of(x).shape, updates_shape, dimension_numbers)
    return gather(x, indices, numbers, sizes, fill_value=fill_value, **flags)


# ---- gather's transpose ----------------------------------------------------------------------


def gather_transpose(
    ct: Any,
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    fill_value: Any,
    **params: Any,
) -> list[Any]:
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    start = zeros(operand.type)
    return [scatter_add_p.bind(start, indices, ct, dimension_numbers=numbers, **params), None]


# Not in `gather`: it needs `scatter_add`, whose own transpose needs `gather`.
rules.transpose.register(gather_p, gather_transpose)


# ---- scatter_add, scatter_sub ----------------------------------------------------------------


def signed_scatter_transpose(negative: bool) -> Callable[..., list[Any]]:
    """The transpose rule of scatter_add, or of scatter_sub."""

    def transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        ct_updates = None
        if type(updates) is LinearOperand:
            ct_updates = gather_at(ct, indices, updates.type.shape, **params)
            ct_updates = neg(ct_updates) if negative else ct_updates
        return [ct if type(operand) is LinearOperand else None, None, ct_updates]

    return transpose


scatter_add_p = _declare(
    "scatter_add",
    stablehlo.add,
    linear_scatter_jvp,
    signed_scatter_transpose(negative=False),
    linear=True,
    updates=2,
    flops=_of_updates,
)
scatter_add = _combining(
    scatter_add_p, "The operand with updates added at the listed positions.", "[41.,  2.,  3.]"
)
scatter_sub_p = _declare(
    "scatter_sub",
    stablehlo.subtract,
    linear_scatter_jvp,
    signed_scatter_transpose(negative=True),
    linear=True,
    updates=2,
    flops=_of_updates,
)
scatter_sub = _combining(
    scatter_sub_p,
    "The operand with updates subtracted at the listed positions.",
    "[-39.,   2.,   3.]",
)


# ---- scatter ---------------------------------------------------------------------------------


def scatter_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    operand, indices, updates = primals
    if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
        out = scatter_p.bind(operand, indices, updates, **params)
        return out, Zero(type_of(out).tangent())
    t_operand, t_updates = instantiate(tangents[0]), instantiate(tangents[2])
    if params["unique_indices"]:
        out = scatter_p.bind(operand, indices, updates, **params)
        return out, scatter_p.bind(t_operand, indices, t_updates, **params)
    shape = type_of(updates).shape
    winners, stays, wins = scatter_winners(type_of(operand).shape, indices, shape, **params)
    # Every update of an element writes the value of the one that stays in the tangent: a GPU runs
    # them in any order, and may choose another one each time.
    chosen = reshape(sub(stays, np.int32(1)), (prod(shape), 1))
    flat, table = reshape(updates, (prod(shape),)), GatherDimensionNumbers((), (0,), (0,))
    settled = gather(flat, chosen, table, (1,), mode=GatherScatterMode.CLIP)
    out = scatter_p.bind(operand, indices, reshape(settled, shape), **params)
    kept = select(eq(winners, np.int32(0)), t_operand, zeros(type_of(t_operand)))
    won = select(wins, t_updates, zeros(type_of(t_updates)))
    return out, scatter_add_p.bind(kept, indices, won, **params)


def scatter_winners(
    of: tuple[int, ...], indices: Any, shape: tuple[int, ...], **params: Any
) -> tuple[Any, Any, Any]:
    """For each element of the operand (of shape `of`) the number of the update that stays, from 1,
    or 0; for each update (in `shape`) the number that stays in its place, and whether it is its
    own."""
    numbers = reshape(add(iota(np.int32, prod(shape)), np.int32(1)), shape)
    winners = scatter_p.bind(full(of, 0, np.int32), indices, numbers, **params)
    stays = gather_at(winners, indices, shape, **params)
    return winners, stays, eq(numbers, stays)


def scatter_transpose(
    ct: Any, operand: Any, indices: Any, updates: Any, **params: Any
) -> list[Any]:
    shape = type_of(updates).shape
    ct_operand = ct_updates = None
    if type(operand) is LinearOperand:
        nothing = zeros(type_of(ct).update(shape=shape))
        ct_operand = scatter_p.bind(ct, indices, nothing, **params)
    if type(updates) is LinearOperand:
        ct_updates = gather_at(ct, indices, shape, **params)
        if not params["unique_indices"]:
            *_, wins = scatter_winners(type_of(ct).shape, indices, shape, **params)
            ct_updates = select(wins, ct_updates, zeros(type_of(ct_updates)))
    return [ct_operand, None, ct_updates]


scatter_p = _declare(
    "scatter",
    lambda old, new: new,
    lambda made: scatter_jvp,
    scatter_transpose,
    dtypes.ANY,
    False,
    flops="none",
    updates=2,
)


# ---- scatter_mul -----------------------------------------------------------------------------


def scatter_mul_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    operand, indices, updates = primals
    out = scatter_mul_p.bind(operand, indices, updates, **params)
    tangent: Any = Zero(type_of(out).tangent())
    if type(tangents[0]) is not Zero:
        tangent = scatter_mul_p.bind(tangents[0], indices, updates, **params)
    if type(tangents[2]) is not Zero:
        if not params["unique_indices"]:
            raise WeftNotImplementedError(
                "the derivative of scatter_mul in its updates needs positions that are listed once",
                operation="scatter_mul",
                got="unique_indices=False",
                wanted="unique_indices=True",
                fix=Fix("unique_indices", "pass unique_indices=True if they are"),
            )
        factors = gather_at(operand, indices, type_of(updates).shape, **params)
        start = zeros(type_of(out).tangent())
        term = scatter_add_p.bind(start, indices, mul(tangents[2], factors), **params)
        tangent = add_tangents(tangent, term)
    return out, tangent


scatter_mul_p: Primitive = _declare(
    "scatter_mul",
    stablehlo.multiply,
    lambda made: scatter_mul_jvp,
    lambda ct, x, indices, by, **params: [
        scatter_mul_p.bind(ct, indices, by, **params),
        None,
        None,
    ],
    updates=2,
    flops=_of_updates,
)
scatter_mul = _combining(
    scatter_mul_p,
    "The operand multiplied by updates at the listed positions.",
    "[300.,   2.,   0.]",
)


# ---- scatter_min, scatter_max ----------------------------------------------------------------


def extremum_jvp(kind: Primitive) -> Callable[..., tuple[Any, Any]]:
    """The jvp rule of scatter_min and scatter_max: winners share equally."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        operand, indices, updates = primals
        out = kind.bind(*primals, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, Zero(type_of(out).tangent())
        own = type_of(out).dtype
        dtype = accumulator(own)  # to count in, and to divide in before rounding

        def marks(wins: Any) -> Any:
            lengths = type_of(wins).shape
            return select(wins, full(lengths, 1, dtype), full(lengths, 0, dtype))

        held = marks(eq(operand, out))
        picked = gather_at(out, indices, type_of(updates).shape, **params)
        won = marks(eq(updates, picked))
        winners = scatter_add_p.bind(held, indices, won, **params)
        t_operand, t_updates = (
            convert_element_type(instantiate(tangents[i]), dtype) for i in (0, 2)
        )
        total = scatter_add_p.bind(mul(t_operand, held), indices, mul(t_updates, won), **params)
        return out, convert_element_type(div(total, winners), own)

    return jvp


scatter_min_p = _declare(
    "scatter_min",
    stablehlo.minimum,
    extremum_jvp,
    None,
    dtypes.ORDERED,
    False,
    updates=2,
    flops=_of_updates,
)
scatter_max_p = _declare(
    "scatter_max",
    stablehlo.maximum,
    extremum_jvp,
    None,
    dtypes.ORDERED,
    False,
    updates=2,
    flops=_of_updates,
)
scatter_min = _combining(
    scatter_min_p, "The minimum of operand and updates at the listed positions.", "[1., 2., 0.]"
)
scatter_max = _combining(
    scatter_max_p, "The maximum of operand and updates at the listed positions.", "[30.,  2.,  3.]"
)
