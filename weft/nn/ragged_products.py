"""Products of groups of rows with matrices of their own: `ragged_dot` and its general form.

The rows of an array are divided into consecutive groups of given lengths, which may be traced. One
primitive computes both products, of rows with their group's matrix and of each group's rows with
one another; each is the derivative of the other. Rows are taken in blocks, and a block once for
every group that it has rows of: so the work is that of a product with one matrix and a little more,
and no array is larger than operands and result. (The idea is that of T. Gale, D. Narayanan,
C. Young, M. Zaharia, "MegaBlocks: efficient sparse training with mixture-of-experts", MLSys 2023.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.api.vmap import vmap
from weft.argument_errors import integers_of, refuse_sharding
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.loops import map as loop_map
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftNotImplementedError, api_boundary
from weft.interpreters.staging import rebuild
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import add, div, ge, gt, lt, min, mul, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim, dynamic_update_slice_in_dim
from weft.ops.operand_errors import unfit
from weft.ops.products.dot import (
    canonical_element_type,
    canonical_precision,
    dot_general,
    narrowed,
    product_dtype,
    rest,
)
from weft.ops.reductions.cumulative import cumsum
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reduce_sum, reshape, transpose
from weft.ops.structural.tangents import add_tangents
from weft.typing import ArrayLike, DTypeLike


class RaggedDotDimensionNumbers(NamedTuple):
    """The dimensions of `ragged_dot_general`.

    dot_dimension_numbers: as for `dot_general`; lhs_ragged_dimensions: the one of lhs that is
    divided into groups; rhs_group_dimensions: the one of rhs that counts the groups, or none.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product of each group of rows of `lhs` (m, k) with a matrix of its own, `rhs` (g, k, n).

    The groups are consecutive and have the lengths `group_sizes` (g,), integers; rows after the
    last group give zeros. The result has the shape (m, n), and a dtype as for `dot`. Raises
    ShapeError and DTypeError for operands that do not fit together, WeftNotImplementedError for a
    `group_offset`.

    group_offset: must be None: it is not implemented.

    >>> x, w = np.ones((3, 2)), np.array([[[1.0], [2.0]], [[10.0], [20.0]]])
    >>> lax.ragged_dot(x, w, np.array([1, 2]))
    Array([[ 3.],
           [30.],
           [30.]], dtype=float32)
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    for x, ndim, what in ((lhs, 2, "(m, k)"), (rhs, 3, "(g, k, n)"), (group_sizes, 1, "(g,)")):
        if type_of(user_value(x)).ndim != ndim:
            types = [type_of(user_value(value)) for value in (lhs, rhs, group_sizes)]
            takes = "arrays of shapes (m, k), (g, k, n) and (g,)"
            raise unfit(ShapeError, "ragged_dot", takes, types, f"{ndim} dimensions: {what}")
    how = (precision, preferred_element_type, group_offset, out_sharding)
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, *how)


@api_boundary
def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """`dot_general` where one dimension of `lhs` is divided into consecutive groups.

    Is it one that the result keeps, `rhs` has a dimension of groups, and each group is multiplied
    with its own part. Is it one that is summed, there is one sum per group, along a first dimension
    of the result. Is it a batch dimension, the groups change nothing. `group_sizes` has the lengths
    of the groups, alike for all (g,), or after the batch dimensions and the dimensions of `lhs` of
    the ragged one's kind that precede it. Raises as `ragged_dot` does.

    ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`: the dimension numbers of
    `dot_general`, the ragged dimension of `lhs` and the dimension of groups of `rhs`; group_offset:
    must be None: it is not implemented.

    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> lax.ragged_dot_general(np.ones((3, 1)), np.ones((3, 1)), np.array([1, 2]), numbers)
    Array([[[1.]],
    <BLANKLINE>
           [[2.]]], dtype=float32)
    """
    if group_offset is not None:
        raise WeftNotImplementedError(
            "ragged_dot computes all groups: it takes no group_offset",
            operation="ragged_dot",
            got="group_offset",
            wanted="group_offset=None",
            fix=Fix("slice", "pass the groups, and the rows, that are to be computed"),
        )
    refuse_sharding("ragged_dot_general", out_sharding)
    x, w, sizes = map(user_value, (lhs, rhs, group_sizes))
    if type_of(sizes).dtype not in dtypes.INTEGER:
        fix = Fix("convert", "convert them: sizes.astype('int32')")
        takes = "group sizes of integers"
        raise unfit(DTypeError, "ragged_dot", takes, [type_of(sizes)], "i32[g]", fix)
    plan = planned(type_of(x), type_of(w), ragged_dot_dimension_numbers)
    how = {
        "precision": canonical_precision(precision, "ragged_dot"),
        "preferred_element_type": canonical_element_type(preferred_element_type),
    }
    if plan.kind == "batch":
        return dot_general(x, w, plan.numbers, **how)
    return grouped(plan, x, w, sizes, how)


class Plan(NamedTuple):
    """The dimensions of both operands by their part in a product.

    kind: "rows" where the result keeps the ragged dimension, "sums" where it is summed, "batch".
    before, after: the dimensions of lhs of the same kind before and after the ragged one.
    """

    kind: str
    numbers: Any
    ragged: int
    group: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]


def planned(lhs: ArrayType, rhs: ArrayType, numbers: RaggedDotDimensionNumbers) -> Plan:
    """The plan of a product. Raises ShapeError for dimensions that do not belong together."""
    (contract_l, contract_r), (batch_l, batch_r) = (
        tuple(tuple(int(d) for d in dims) for dims in pair)
        for pair in numbers.dot_dimension_numbers
    )
    whole = ((contract_l, contract_r), (batch_l, batch_r))
    ragged = integers_of(
        numbers.lhs_ragged_dimensions, "ragged_dot_general", "the ragged dimension"
    )
    groups = integers_of(numbers.rhs_group_dimensions, "ragged_dot_general", "the group dimension")
    if len(ragged) != 1:
        takes = "one ragged dimension of lhs"
        raise unfit(ShapeError, "ragged_dot_general", takes, [ragged], "one dimension")
    (place,) = ragged
    kept = rest(lhs.ndim, contract_l, batch_l)
    kind = "batch" if place in batch_l else "sums" if place in contract_l else "rows"
    if len(groups) != (kind == "rows"):
        takes = (
            "one group dimension of rhs, where the ragged one is not summed and no batch, or none"
        )
        raise unfit(
            ShapeError, "ragged_dot_general", takes, [groups], f"for {kind}: {kind == 'rows':d}"
        )
    own = {"batch": batch_l, "sums": contract_l, "rows": kept}[kind]
    at = own.index(place)
    return Plan(kind, whole, place, groups[0] if groups else None, own[:at], own[at + 1 :])


def lengths(x: Any, dims: Sequence[int]) -> tuple[int, ...]:
    """The lengths of some dimensions."""
    shape = type_of(x).shape
    return tuple([shape[d] for d in dims])


def arranged(x: Any, *dims: Sequence[int]) -> Any:
    """The array with its dimensions in a new order, each of the sequences merged into one."""
    order = tuple([d for group in dims for d in group])
    return reshape(transpose(x, order), tuple([prod(lengths(x, group)) for group in dims]))


def grouped(plan: Plan, lhs: Any, rhs: Any, sizes: Any, how: dict[str, Any]) -> Any:
    """The product by plan, as ragged products of matrices, mapped over batches."""
    (contract_l, contract_r), (batch_l, batch_r) = plan.numbers
    kept = rest(type_of(lhs).ndim, contract_l, batch_l)
    before, after = plan.before, plan.after
    batch, outer, inner = lengths(lhs, batch_l), lengths(lhs, before), prod(lengths(lhs, after))
    repeated_sizes = spread_sizes(sizes, (*batch, *outer), lhs, rhs, plan)
    counts = mul(repeated_sizes, np.asarray(inner, type_of(sizes).dtype)[()])
    if plan.kind == "rows":
        assert plan.group is not None
        group = (plan.group,)
        columns = rest(type_of(rhs).ndim, contract_r, batch_r, group)
        x = arranged(lhs, batch_l, before, (plan.ragged, *after), contract_l)
        w = arranged(rhs, batch_r, group, contract_r, columns)
        check_contracted(lhs, rhs, contract_l, contract_r, batch_l, batch_r)
        out = mapped_product(x, w, counts, rows_too=False, kind="rows", how=how)
        shape = (*batch, *outer, *lengths(lhs, (plan.ragged, *after)), *lengths(rhs, columns))
        # Kept dimensions of lhs stand in their own order: before, ragged, after is that order.
        return reshape(out, shape)
    columns = rest(type_of(rhs).ndim, contract_r, batch_r)
    pairs = dict(zip(contract_l, contract_r, strict=True))
    check_contracted(lhs, rhs, contract_l, contract_r, batch_l, batch_r)
    x = arranged(lhs, batch_l, before, (plan.ragged, *after), kept)
    others = [tuple(pairs[d] for d in dims) for dims in (before, (plan.ragged, *after))]
    w = arranged(rhs, batch_r, *others, columns)
    found = mapped_product(x, w, counts, rows_too=True, kind="sums", how=how)
    out = move_groups_first(reduce_sum(found, (1,)))
    shape = (type_of(out).shape[0], *batch, *lengths(lhs, kept), *lengths(rhs, columns))
    return reshape(out, shape)


def move_groups_first(x: Any) -> Any:
    """The array (batch, groups, …) as (groups, batch, …)."""
    ndim = type_of(x).ndim
    return transpose(x, (1, 0, *range(2, ndim)))


def check_contracted(
    lhs: Any, rhs: Any, left: Sequence[int], right: Sequence[int], batch_l: Any, batch_r: Any
) -> None:
    """Raises ShapeError if paired dimensions have different lengths."""
    for pair in ((left, right), (batch_l, batch_r)):
        if lengths(lhs, pair[0]) != lengths(rhs, pair[1]):
            types = [type_of(lhs), type_of(rhs)]
            takes = "operands whose paired dimensions have equal lengths"
            wanted = f"dimensions {pair[0]} of lhs like {pair[1]} of rhs"
            raise unfit(ShapeError, "ragged_dot_general", takes, types, wanted)


def spread_sizes(sizes: Any, outer: tuple[int, ...], lhs: Any, rhs: Any, plan: Plan) -> Any:
    """The group sizes for every element of the dimensions that come before the ragged one."""
    of = type_of(sizes)
    groups = of.shape[-1] if of.shape else 0
    fits = of.shape in ((groups,), (*outer, groups))
    if plan.group is not None:
        fits = fits and groups == type_of(rhs).shape[plan.group]
    if not fits:
        types = [type_of(lhs), type_of(rhs), of]
        wanted = f"group sizes of shape (g,) or {(*outer, 'g')}"
        takes = "one size per group"
        raise unfit(ShapeError, "ragged_dot_general", takes, types, wanted)
    return broadcast_in_dim(
        sizes, (*outer, groups), range(len(outer) + 1 - of.ndim, len(outer) + 1)
    )


def mapped_product(
    x: Any, w: Any, sizes: Any, *, rows_too: bool, kind: str, how: dict[str, Any]
) -> Any:
    """The product of x (batch, outer, m, k) with w (batch, …), which has the outer dimension where
    `rows_too`; dimensions that are none are not mapped over."""

    def one(x: Any, w: Any, sizes: Any) -> Any:
        return ragged_product_p.bind(x, w, sizes, kind=kind, **how)

    batch, outer = type_of(x).shape[:2]
    sizes = reshape(sizes, (batch, outer, type_of(sizes).shape[-1]))
    found: Any = one
    found = vmap(found, (0, 0 if rows_too else None, 0)) if outer != 1 else single(found, rows_too)
    found = vmap(found) if batch != 1 else single(found, True)
    return found(x, w, sizes)


def single(function: Any, w_too: bool) -> Any:
    """The function of arrays with a first dimension of length 1, as `vmap` would map it."""

    def mapped(x: Any, w: Any, sizes: Any) -> Any:
        first = [reshape(v, type_of(v).shape[1:]) for v in (x, sizes)]
        w = reshape(w, type_of(w).shape[1:]) if w_too else w
        out = function(first[0], w, first[1])
        return reshape(out, (1, *type_of(out).shape))

    return mapped


# ---- the primitive -----------------------------------------------------------------------------


ragged_product_p = Primitive("ragged_product")


def ragged_type(
    lhs: ArrayType,
    rhs: ArrayType,
    sizes: ArrayType,
    *,
    kind: str,
    precision: Any,
    preferred_element_type: Any,
) -> ArrayType:
    types = (lhs, rhs, sizes)
    rows = kind == "rows"
    fits = lhs.ndim == 2 and rhs.ndim == 2 + rows and sizes.ndim == 1
    if fits and rows:
        fits = rhs.shape[:2] == (*sizes.shape, lhs.shape[1])
    elif fits:
        fits = rhs.shape[0] == lhs.shape[0]
    if not fits:
        wanted = "(m, k), (g, k, n), (g,)" if rows else "(m, k), (m, n), (g,)"
        raise unfit(ShapeError, "ragged_product", f"shapes {wanted}", types, wanted)
    dtype = product_dtype("ragged_dot", lhs, rhs, preferred_element_type)
    shape = (lhs.shape[0], rhs.shape[2]) if rows else (*sizes.shape, lhs.shape[1], rhs.shape[1])
    weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
    return result_type(types, shape, dtype, weak)


def ragged_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    lhs, rhs, sizes = primals
    out = ragged_product_p.bind(*primals, **params)
    of = type_of(out)
    total: Any = Zero(of.tangent())
    if of.dtype not in dtypes.INEXACT:
        return out, total
    how = params | {"preferred_element_type": of.dtype}
    if type(tangents[0]) is not Zero:
        total = ragged_product_p.bind(tangents[0], rhs, sizes, **how)
    if type(tangents[1]) is not Zero:
        total = add_tangents(total, ragged_product_p.bind(lhs, tangents[1], sizes, **how))
    return out, total


def ragged_transpose(
    ct: Any, lhs: Any, rhs: Any, sizes: Any, *, kind: str, preferred_element_type: Any, **how: Any
) -> list[Any]:
    left = type(lhs) is LinearOperand
    wanted = (lhs if left else rhs).type

    def product(x: Any, y: Any, kind: str) -> Any:
        found = ragged_product_p.bind(
            x, y, sizes, kind=kind, preferred_element_type=wanted.dtype, **how
        )
        return narrowed(found, wanted.dtype)

    if kind == "rows":
        if left:
            return [product(ct, transpose(rhs, (0, 2, 1)), "rows"), None, None]
        return [None, product(lhs, ct, "sums"), None]
    if left:
        return [product(rhs, transpose(ct, (0, 2, 1)), "rows"), None, None]
    return [None, product(lhs, ct, "rows"), None]


def ragged_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[Any, int]:
    """One product after the other: each is large, and has groups of its own."""
    fixed = [x if dim is None else None for x, dim in zip(args, dims, strict=True)]
    mapped = [
        move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True) if d is not None
    ]

    def one(values: Any) -> Any:
        given = iter(values)
        operands = [next(given) if x is None else x for x in fixed]
        return ragged_product_p.bind(*operands, **params)

    return loop_map(one, mapped), 0


def ragged_lower(context: Any, *values: Any, **params: Any) -> Any:
    types = list(context.in_types)
    out = context.out_types[0]

    def function(lhs: Any, rhs: Any, sizes: Any) -> list[Any]:
        compute = by_rows if params["kind"] == "rows" else by_sums
        return [compute(lhs, rhs, sizes, out, params["precision"])]

    program = rebuild(function, types, "ragged_product", "jit")
    return context.lower_jaxpr(program, values)[0]


primitive(
    ragged_product_p,
    type_rule=ragged_type,
    jvp=ragged_jvp,
    transpose=ragged_transpose,
    vmap=ragged_vmap,
    lower=ragged_lower,
)


# ---- how it is computed ------------------------------------------------------------------------


class Blocks(NamedTuple):
    """The blocks of rows, one for each group that has rows in it.

    groups, starts: the group and the first row of each; total: how many there are; bounds: the
    first row of each group, and the end of the last; length: of a block.
    """

    groups: Any
    starts: Any
    total: Any
    bounds: Any
    length: int


def blocks_of(sizes: Any, rows: int, length: int) -> Blocks:
    """The blocks of groups of these sizes; rows after the last group are in none."""
    groups = type_of(sizes).shape[0]
    nothing = full((1,), 0, np.int32)
    sizes = convert_element_type(sizes, np.int32)
    ends = min(cumsum(sizes), broadcast_in_dim(np.int32(rows), (groups,), ()))
    firsts = concatenate([nothing, ends], 0)
    begins = firsts[:groups]
    # Blocks are counted from row 0 on: a group has those from its first row's to its last row's.
    first = div(begins, np.int32(length))
    last = div(sub(ends, np.int32(1)), np.int32(length))
    counts = select(
        gt(ends, begins), add(sub(last, first), np.int32(1)), full((groups,), 0, np.int32)
    )
    total = cumsum(counts)
    most = -(-rows // length) + groups
    number = iota(np.int32, most)
    own = reduce_sum(
        convert_element_type(ge(spread(number, groups, 0), spread(total, most, 1)), np.int32), (1,)
    )
    own = min(own, broadcast_in_dim(np.int32(groups - 1), (most,), ()))
    before = sub(total, counts)
    starts = mul(add(first[own], sub(number, before[own])), np.int32(length))
    return Blocks(own, starts, total[-1], firsts, length)


def spread(x: Any, size: int, dim: int) -> Any:
    """A vector repeated to a matrix; its own dimension is `dim` of that."""
    of = type_of(x)
    shape = (of.shape[0], size) if dim == 0 else (size, of.shape[0])
    return broadcast_in_dim(x, shape, (dim,))


def block_length(rows: int, groups: int, most: int) -> int:
    """Rows of a block: fewer than a group has on average, so that few are taken twice."""
    length = 16
    while length * 2 <= most and length * 4 * groups <= rows:
        length *= 2
    return rows if length > rows else length


def own_rows(blocks: Blocks, group: Any, start: Any, rows: int) -> tuple[Any, Any]:
    """The first row that is read for a block, and which of the rows from there on are its own: the
    last block reaches back, where rows do not divide by its length."""
    begin = min(start, np.int32(rows - blocks.length))
    number = add(iota(np.int32, blocks.length), begin)
    low = select(gt(blocks.bounds[group], start), blocks.bounds[group], start)
    inside = bitwise_and(ge(number, low), lt(number, blocks.bounds[add(group, np.int32(1))]))
    return begin, inside


def by_rows(lhs: Any, rhs: Any, sizes: Any, out: ArrayType, precision: Any) -> Any:
    """Rows (m, k) times the matrices (g, k, n) of their groups."""
    (rows, _), groups = type_of(lhs).shape, type_of(sizes).shape[0]
    made = full(out.shape, 0, out.dtype)
    if not out.size or not groups:
        return made
    blocks = blocks_of(sizes, rows, block_length(rows, groups, 256))
    numbers = (((1,), (0,)), ((), ()))

    def step(i: Any, made: Any) -> Any:
        group = blocks.groups[i]
        begin, inside = own_rows(blocks, group, blocks.starts[i], rows)
        part = dynamic_slice_in_dim(lhs, begin, blocks.length)
        found = dot_general(part, rhs[group], numbers, precision, out.dtype)
        old = dynamic_slice_in_dim(made, begin, blocks.length)
        mask = broadcast_in_dim(inside, type_of(found).shape, (0,))
        return dynamic_update_slice_in_dim(made, select(mask, found, old), begin, 0)

    return fori_loop(np.int32(0), blocks.total, step, made)


def by_sums(lhs: Any, rhs: Any, sizes: Any, out: ArrayType, precision: Any) -> Any:
    """The products of the rows of each group, (m, k) and (m, n), summed to (g, k, n)."""
    rows, groups = type_of(lhs).shape[0], type_of(sizes).shape[0]
    if not out.size or not rows:
        return full(out.shape, 0, out.dtype)
    # Sums of 16-bit numbers are kept in 32 bits.
    narrow = out.dtype in dtypes.FLOATING and dtypes.itemsize_bits(out.dtype) < 32
    dtype = dtypes.float32 if narrow else out.dtype
    made = full(out.shape, 0, dtype)
    blocks = blocks_of(sizes, rows, block_length(rows, groups, 512))
    numbers = (((0,), (0,)), ((), ()))

    def step(i: Any, made: Any) -> Any:
        group = blocks.groups[i]
        begin, inside = own_rows(blocks, group, blocks.starts[i], rows)
        left, right = (dynamic_slice_in_dim(x, begin, blocks.length) for x in (lhs, rhs))
        # Both: a row of another group may have infinite numbers.
        left, right = (
            select(
                broadcast_in_dim(inside, type_of(x).shape, (0,)),
                x,
                full(type_of(x).shape, 0, type_of(x).dtype),
            )
            for x in (left, right)
        )
        found = dot_general(left, right, numbers, precision, dtype)
        total = add(
            dynamic_slice_in_dim(made, group, 1), reshape(found, (1, *type_of(found).shape))
        )
        return dynamic_update_slice_in_dim(made, total, group, 0)

    return convert_element_type(fori_loop(np.int32(0), blocks.total, step, made), out.dtype)
