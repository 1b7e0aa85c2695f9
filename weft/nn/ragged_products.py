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
from typing import Annotated, Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.api.vmap import vmap
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.loops import map as loop_map
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import ShapeError, WeftTypeError
from weft.errors.argument_errors import integers_of
from weft.interpreters.staging import rebuild
from weft.kinds.arguments import NEVER, NoSharding, Operand, Precision, of_dtypes, refused_kind
from weft.kinds.array_function import array_function
from weft.kinds.kind import Arguments, Kind
from weft.nn.scaled_products import take_pairs
from weft.numpy.choosing import where
from weft.numpy.elementwise import constant_like
from weft.numpy.linear_algebra import Preferred
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import div, max, min
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.flops import sums_of_products
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim, dynamic_update_slice_in_dim
from weft.ops.operand_errors import unfit
from weft.ops.products.dot import (
    canonical_precision,
    dot_general,
    from_front,
    other_dimensions,
    product_dtype,
    to_operand_dtype,
)
from weft.ops.reductions.cumulative import cumsum
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reduce_sum, reshape, transpose
from weft.ops.structural.tangents import add_tangents
from weft.typing import ArrayLike


class RaggedDotDimensionNumbers(NamedTuple):
    """The dimensions of `ragged_dot_general`.

    dot_dimension_numbers: as for `dot_general`; lhs_ragged_dimensions: the one of lhs that is
    divided into groups; rhs_group_dimensions: the one of rhs that counts the groups, or none.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def _take_numbers(value: Any, call: Arguments) -> RaggedDotDimensionNumbers:
    try:
        numbers = value.dot_dimension_numbers
        parts = (value.lhs_ragged_dimensions, value.rhs_group_dimensions)
    except AttributeError:
        message = f"{call.name} says what is what"
        wanted = "RaggedDotDimensionNumbers"
        raise WeftTypeError(message, got=f"{call.name}={value!r:.80}", wanted=wanted) from None
    ragged, groups = (integers_of(dims, call.name) for dims in parts)
    if len(ragged) != 1:
        got = f"lhs_ragged_dimensions={ragged}"
        raise ShapeError("there is one ragged dimension of lhs", got=got, wanted="one dimension")
    return RaggedDotDimensionNumbers(take_pairs(numbers, call), ragged, groups)


Sizes = Annotated[
    ArrayLike, of_dtypes(dtypes.INTEGER, dtypes.int32, "integers, one for each group")
]
_rows = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
_numbers_kind = Kind(_take_numbers, "which dimensions", (None, 3, "text"), _rows, plain=NEVER)
Numbers = Annotated[RaggedDotDimensionNumbers, _numbers_kind]
_use = "pass the groups, and the rows, that are to be computed"
GroupOffset = Annotated[None, refused_kind("all groups are computed", _use)]


@array_function
def ragged_dot(
    lhs: Operand,
    rhs: Operand,
    group_sizes: Sizes,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    group_offset: GroupOffset = None,
    out_sharding: NoSharding = None,
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
    if (lhs.ndim, rhs.ndim, group_sizes.ndim) != (2, 3, 1):
        got = f"lhs {lhs.type}, rhs {rhs.type}, group_sizes {group_sizes.type}"
        wanted = "arrays of shapes (m, k), (g, k, n) and (g,)"
        raise ShapeError("a group of rows has a matrix of its own", got=got, wanted=wanted)
    return ragged_dot_general(lhs, rhs, group_sizes, _rows, precision, preferred_element_type)


@array_function
def ragged_dot_general(
    lhs: Operand,
    rhs: Operand,
    group_sizes: Sizes,
    ragged_dot_dimension_numbers: Numbers,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    group_offset: GroupOffset = None,
    out_sharding: NoSharding = None,
) -> Array:
    """`dot_general` where one dimension of `lhs` is divided into consecutive groups.

    If the result keeps the ragged dimension, `rhs` has a dimension of groups, and each group is
    multiplied with its slice of `rhs`. If the dimension is contracted, the result has one sum per
    group, along a new first dimension. If it is a batch dimension, the groups change nothing.
    `group_sizes` has the lengths of the groups. Its shape is (g,) if they are the same everywhere;
    otherwise the batch dimensions come first, and then the dimensions of `lhs` of the same kind
    that precede the ragged one. Raises as `ragged_dot` does.

    ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`: the dimension numbers of
    `dot_general`, the ragged dimension of `lhs` and the dimension of groups of `rhs`; group_offset:
    must be None: it is not implemented.

    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> lax.ragged_dot_general(np.ones((3, 1)), np.ones((3, 1)), np.array([1, 2]), numbers)
    Array([[[1.]],
    <BLANKLINE>
           [[2.]]], dtype=float32)
    """
    plan = plan_product(lhs, rhs, ragged_dot_dimension_numbers)
    options = {
        "precision": canonical_precision(precision, "ragged_dot"),
        "preferred_element_type": preferred_element_type,
    }
    if plan.kind == "batch":
        return dot_general(lhs, rhs, plan.numbers, **options)
    return grouped_product(plan, lhs, rhs, group_sizes, options)


class Plan(NamedTuple):
    """The role of each dimension of both operands in a product.

    kind: "rows" if the result keeps the ragged dimension, "sums" if it is summed, or "batch".
    before, after: the dimensions of lhs of the same kind before and after the ragged one.
    """

    kind: str
    numbers: Any
    ragged: int
    group: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]


def plan_product(lhs: Any, rhs: Any, numbers: RaggedDotDimensionNumbers) -> Plan:
    """The plan of a product. Raises ShapeError for dimensions that do not match."""
    ((contract_l, contract_r), (batch_l, batch_r)), ragged, groups = numbers
    contract_l, batch_l, (place,) = (from_front(d, lhs.ndim) for d in (contract_l, batch_l, ragged))
    contract_r, batch_r, groups = (from_front(d, rhs.ndim) for d in (contract_r, batch_r, groups))
    whole = ((contract_l, contract_r), (batch_l, batch_r))
    kind = "batch" if place in batch_l else "sums" if place in contract_l else "rows"
    if len(groups) != (kind == "rows"):
        raise ShapeError(
            "rhs has one dimension of groups where the result has the ragged one, or else none",
            got=f"rhs_group_dimensions={groups}",
            wanted="one" if kind == "rows" else "none",
        )
    for left, right in whole:
        if kind != "batch" and lengths(lhs, left) != lengths(rhs, right):
            got = f"{lhs.type} and {rhs.type}"
            wanted = f"dimensions {left} of lhs like {right} of rhs"
            raise ShapeError("paired dimensions have equal lengths", got=got, wanted=wanted)
    dims = {
        "batch": batch_l,
        "sums": contract_l,
        "rows": other_dimensions(lhs.ndim, contract_l, batch_l),
    }[kind]
    at = dims.index(place)
    return Plan(kind, whole, place, groups[0] if groups else None, dims[:at], dims[at + 1 :])


def lengths(x: Any, dims: Sequence[int]) -> tuple[int, ...]:
    """The lengths of some dimensions."""
    return tuple([x.shape[d] for d in dims])


def merge_dims(x: Any, *dims: Sequence[int]) -> Any:
    """Transposes, and merges each sequence of dimensions into one."""
    order = tuple([d for group in dims for d in group])
    return reshape(transpose(x, order), tuple([prod(lengths(x, group)) for group in dims]))


def grouped_product(plan: Plan, lhs: Any, rhs: Any, sizes: Any, options: dict[str, Any]) -> Any:
    """The product of a plan, as ragged products of matrices, mapped over batches."""
    (contract_l, contract_r), (batch_l, batch_r) = plan.numbers
    free = other_dimensions(lhs.ndim, contract_l, batch_l)
    before, after = plan.before, plan.after
    batch, outer, inner = lengths(lhs, batch_l), lengths(lhs, before), prod(lengths(lhs, after))
    counts = broadcast_sizes(sizes, (*batch, *outer), rhs, plan) * inner
    if plan.kind == "rows":
        assert plan.group is not None
        group = (plan.group,)
        columns = other_dimensions(rhs.ndim, contract_r, batch_r, group)
        x = merge_dims(lhs, batch_l, before, (plan.ragged, *after), contract_l)
        w = merge_dims(rhs, batch_r, group, contract_r, columns)
        out = mapped_product(x, w, counts, rows_too=False, kind="rows", options=options)
        shape = (*batch, *outer, *lengths(lhs, (plan.ragged, *after)), *lengths(rhs, columns))
        # The free dimensions of lhs keep their order: before, ragged, after.
        return reshape(out, shape)
    columns = other_dimensions(rhs.ndim, contract_r, batch_r)
    pairs = dict(zip(contract_l, contract_r, strict=True))
    x = merge_dims(lhs, batch_l, before, (plan.ragged, *after), free)
    others = [tuple(pairs[d] for d in dims) for dims in (before, (plan.ragged, *after))]
    w = merge_dims(rhs, batch_r, *others, columns)
    out = mapped_product(x, w, counts, rows_too=True, kind="sums", options=options)
    out = reduce_sum(out, (1,)).swapaxes(0, 1)
    return reshape(out, (out.shape[0], *batch, *lengths(lhs, free), *lengths(rhs, columns)))


def broadcast_sizes(sizes: Any, outer: tuple[int, ...], rhs: Any, plan: Plan) -> Any:
    """Repeats the group sizes for the dimensions before the ragged one."""
    groups = sizes.shape[-1] if sizes.shape else 0
    fits = sizes.shape in ((groups,), (*outer, groups))
    if not fits or (plan.group is not None and groups != rhs.shape[plan.group]):
        wanted = f"group sizes of shape (g,) or {(*outer, 'g')}"
        got = f"group_sizes {sizes.type}, rhs {rhs.type}"
        raise ShapeError("there is one size per group", got=got, wanted=wanted)
    return broadcast_in_dim(
        sizes, (*outer, groups), range(len(outer) + 1 - sizes.ndim, len(outer) + 1)
    )


def mapped_product(
    x: Any, w: Any, sizes: Any, *, rows_too: bool, kind: str, options: dict[str, Any]
) -> Any:
    """The product of x (batch, outer, m, k) and w (batch, …), which has the outer dimension if
    `rows_too`; dimensions of length 1 are not mapped over."""

    def one(x: Any, w: Any, sizes: Any) -> Any:
        return ragged_product_p.bind(x, w, sizes, kind=kind, **options)

    batch, outer = x.shape[:2]
    sizes = reshape(sizes, (batch, outer, sizes.shape[-1]))
    product: Any = one
    product = (
        vmap(product, (0, 0 if rows_too else None, 0))
        if outer != 1
        else map_single(product, rows_too)
    )
    product = vmap(product) if batch != 1 else map_single(product, True)
    return product(x, w, sizes)


def map_single(function: Any, w_too: bool) -> Any:
    """Maps a function over a first dimension of length 1, without `vmap`."""

    def mapped(x: Any, w: Any, sizes: Any) -> Any:
        x, sizes = (reshape(v, v.shape[1:]) for v in (x, sizes))
        w = reshape(w, w.shape[1:]) if w_too else w
        out = function(x, w, sizes)
        return reshape(out, (1, *out.shape))

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
    options = params | {"preferred_element_type": of.dtype}
    if type(tangents[0]) is not Zero:
        total = ragged_product_p.bind(tangents[0], rhs, sizes, **options)
    if type(tangents[1]) is not Zero:
        total = add_tangents(total, ragged_product_p.bind(lhs, tangents[1], sizes, **options))
    return out, total


def ragged_transpose(
    ct: Any, lhs: Any, rhs: Any, sizes: Any, *, kind: str, preferred_element_type: Any, **how: Any
) -> list[Any]:
    left = type(lhs) is LinearOperand
    wanted = (lhs if left else rhs).type

    def product(x: Any, y: Any, kind: str) -> Any:
        out = ragged_product_p.bind(
            x, y, sizes, kind=kind, preferred_element_type=wanted.dtype, **how
        )
        return to_operand_dtype(out, wanted.dtype)

    if kind == "rows":
        if left:
            return [product(ct, transpose(rhs, (0, 2, 1)), "rows"), None, None]
        return [None, product(lhs, ct, "sums"), None]
    if left:
        return [product(rhs, transpose(ct, (0, 2, 1)), "rows"), None, None]
    return [None, product(lhs, ct, "rows"), None]


def ragged_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[Any, int]:
    """Runs one product after the other: each is large, and has its own groups."""
    fixed = [x if dim is None else None for x, dim in zip(args, dims, strict=True)]
    mapped = [
        move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True) if d is not None
    ]

    def one(values: Any) -> Any:
        mapped_values = iter(values)
        return ragged_product_p.bind(
            *[next(mapped_values) if x is None else x for x in fixed], **params
        )

    return loop_map(one, mapped), 0


def ragged_lower(context: Any, *values: Any, **params: Any) -> Any:
    compute = by_rows if params["kind"] == "rows" else by_sums

    def function(lhs: Any, rhs: Any, sizes: Any) -> list[Any]:
        return [compute(lhs, rhs, sizes, context.out_types[0], params["precision"])]

    program = rebuild(function, list(context.in_types), "ragged_product", "jit")
    return context.lower_jaxpr(program, values)[0]


def _of_rows(eqn: Equation) -> Work:
    """Each row times the matrix of its group: as many products as of all rows with one matrix."""
    lhs, out = eqn.inputs[0].type, eqn.outputs[0].type
    return sums_of_products(out, float(out.size) * lhs.shape[-1])._replace(known=out.ndim == 2)


primitive(
    ragged_product_p,
    type_rule=ragged_type,
    jvp=ragged_jvp,
    transpose=ragged_transpose,
    vmap=ragged_vmap,
    lower=ragged_lower,
    flops=_of_rows,
)


# ---- how it is computed ------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Blocks of rows, one for each group that has rows in the block.

    groups, starts: the group and first row of each; total: their number; bounds: the first row of
    each group, and the end of the last; length: of a block.
    """

    groups: Any
    starts: Any
    total: Any
    bounds: Any
    length: int


def divide_rows(sizes: Any, rows: int, length: int) -> Blocks:
    """Divides the rows of groups of these sizes into blocks; rows after the last are in none."""
    (groups,) = sizes.shape
    sizes = convert_element_type(sizes, np.int32)
    ends = min(cumsum(sizes), np.int32(rows))
    firsts = concatenate([full((1,), 0, np.int32), ends], 0)
    begins = firsts[:groups]
    # Blocks are counted from row 0 on: a group has those from its first row's to its last row's.
    first, last = (div(row, np.int32(length)) for row in (begins, ends - 1))
    counts = where(ends > begins, last - first + 1, 0)
    total = cumsum(counts)
    number = iota(np.int32, -(-rows // length) + groups)
    group = (number[:, None] >= total[None]).sum(1, dtype=np.int32)
    group = min(group, np.int32(groups - 1))
    starts = (first[group] + number - (total - counts)[group]) * length
    return Blocks(group, starts, total[-1], firsts, length)


def block_length(rows: int, groups: int, most: int) -> int:
    """The rows of a block: fewer than an average group has, so that few are read twice."""
    length = 16
    while length * 2 <= most and length * 4 * groups <= rows:
        length *= 2
    return rows if length > rows else length


def block_rows(blocks: Blocks, group: Any, start: Any, rows: int) -> tuple[Any, Any]:
    """The first row to read for a block, and the mask of the block's rows: if the length does not
    divide the rows, the last block starts earlier."""
    begin = min(start, np.int32(rows - blocks.length))
    number = begin + iota(np.int32, blocks.length)
    low = max(blocks.bounds[group], start)
    return begin, (number >= low) & (number < blocks.bounds[group + 1])


def by_rows(lhs: Any, rhs: Any, sizes: Any, out: ArrayType, precision: Any) -> Any:
    """Multiplies rows (m, k) by the matrices (g, k, n) of their groups."""
    rows, groups = lhs.shape[0], sizes.shape[0]
    total = full(out.shape, 0, out.dtype)
    if not out.size or not groups:
        return total
    blocks = divide_rows(sizes, rows, block_length(rows, groups, 256))
    numbers = (((1,), (0,)), ((), ()))

    def step(i: Any, total: Any) -> Any:
        group = blocks.groups[i]
        begin, inside = block_rows(blocks, group, blocks.starts[i], rows)
        part = dynamic_slice_in_dim(lhs, begin, blocks.length)
        product = dot_general(part, rhs[group], numbers, precision, out.dtype)
        old = dynamic_slice_in_dim(total, begin, blocks.length)
        return dynamic_update_slice_in_dim(total, where(inside[:, None], product, old), begin, 0)

    return fori_loop(np.int32(0), blocks.total, step, total)


def by_sums(lhs: Any, rhs: Any, sizes: Any, out: ArrayType, precision: Any) -> Any:
    """The products of the rows of each group, (m, k) and (m, n), summed to (g, k, n)."""
    rows, groups = lhs.shape[0], sizes.shape[0]
    if not out.size or not rows:
        return full(out.shape, 0, out.dtype)
    # Sums of 16-bit numbers are kept in 32 bits.
    narrow = out.dtype in dtypes.FLOATING and dtypes.itemsize_bits(out.dtype) < 32
    dtype = dtypes.float32 if narrow else out.dtype
    sums = full(out.shape, 0, dtype)
    blocks = divide_rows(sizes, rows, block_length(rows, groups, 512))
    numbers = (((0,), (0,)), ((), ()))

    def step(i: Any, sums: Any) -> Any:
        group = blocks.groups[i]
        begin, inside = block_rows(blocks, group, blocks.starts[i], rows)
        left, right = (dynamic_slice_in_dim(x, begin, blocks.length) for x in (lhs, rhs))
        # Both: a row of another group may have infinite numbers.
        left, right = (where(inside[:, None], x, constant_like(0, x)) for x in (left, right))
        product = dot_general(left, right, numbers, precision, dtype)
        block = dynamic_slice_in_dim(sums, group, 1) + product[None]
        return dynamic_update_slice_in_dim(sums, block, group, 0)

    return convert_element_type(fori_loop(np.int32(0), blocks.total, step, sums), out.dtype)
