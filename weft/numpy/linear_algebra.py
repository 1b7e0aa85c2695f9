"""Products of vectors, matrices and tensors: dot, matmul, tensordot, outer, kron, cross.

Each is one `dot_general` and moves of dimensions; products of 16-bit floats accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of
from weft.kinds.arguments import NEVER, Integer, NoSharding, Out, Precision, Promoted
from weft.kinds.array_function import array_function
from weft.kinds.checks import axes_of, axis_of, broadcast_shape, broadcasted, common_shape
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import canonical_type
from weft.ops.elementwise.arithmetic import mul, round_product, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.complex import conj
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.products.dot import dot_general
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, move_dim, reshape, transpose

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


# ---- kinds ---------------------------------------------------------------------------------------


def preferred_dtype(preferred: Any) -> Any:
    """The dtype in which a product is summed on the caller's request, or None."""
    return None if preferred is None else dtypes.requested(preferred)


def _each_axis(value: Any, call: Arguments) -> tuple[int, ...]:
    ranks = [canonical_type(x).ndim for x in [*call.values()][:2]]
    if not all(ranks):
        raise ShapeError("takes operands with dimensions")
    return tuple(axis_of(value, rank) for rank in ranks)


def _take_contracted(value: Any, call: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left, right = (canonical_type(x) for x in [*call.values()][:2])
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise WeftValueError("axes is a number or a pair", got=f"axes={value!r:.80}")
        pair = [x if isinstance(x, (tuple, list)) else (x,) for x in value]
        one, two = (axes_of(x, of.ndim) for x, of in zip(pair, (left, right), strict=True))
    else:
        count = integer_of(value, "axes")
        if count > min(left.ndim, right.ndim) or count < 0:
            message = f"there are no {value} axes to sum over"
            raise ShapeError(message, got=f"{left} and {right}, axes={value}")
        one, two = tuple(range(left.ndim - count, left.ndim)), tuple(range(count))
    if len(one) != len(two):
        message = "not as many axes of one operand as of the other"
        raise ShapeError(message, got=f"axes={value!r}")
    return one, two


Preferred = Annotated[
    Any,
    Kind(
        lambda value, call: dtypes.requested(value),
        "the dtype of the sums and of the result, or None for that of the operands",
        ("text", 5),
    ),
]
EachAxis = Annotated[Any, Kind(_each_axis, "an axis of both operands", (99, -99, 0.5), plain=NEVER)]
ContractedAxes = Annotated[
    Any,
    Kind(
        _take_contracted,
        "how many last axes of one operand and first ones of the other, or a pair of axes",
        (99, -99, 0.5, (0,)),
        plain=NEVER,
    ),
]


# ---- dot and matmul ------------------------------------------------------------------------------


def times(x: Any, y: Any) -> Any:
    """The elementwise product of numbers, or conjunction of booleans."""
    return bitwise_and(x, y) if x.dtype == dtypes.bool_ else mul(x, y)


def _multiply_scalar(a: Any, b: Any, preferred: Any) -> Any:
    """The product with an operand without dimensions."""
    out = times(a, b)
    return out if preferred is None else out.astype(preferred)


def mismatch(a: Any, b: Any, i: int, j: int, forms: Sequence[str] = ()) -> ShapeError:
    """The error for contracted dimensions of different lengths; forms: other ways to write the
    product."""
    m, n = a.shape[i], b.shape[j]
    rows = [*b.shape]
    rows[j] = m
    text = f"pass a second operand of shape {tuple(rows)}"
    if forms:
        text = f"write {' or '.join(forms)}, if that is what is meant"
    data = {"forms": [*forms], "shape": tuple(rows)}
    return ShapeError(
        f"the dimensions that are summed over have lengths {m} and {n}",
        got=f"{type_of(a)} and {type_of(b)}",
        wanted=f"equal lengths of dimension {i} of the first and dimension {j} of the second",
        fix=Fix("swap" if forms else "shape", text, data),
    )


def _transposed_forms(
    product: str, left: tuple[int, ...], right: tuple[int, ...], broadcasts: bool
) -> list[str]:
    """The products, written as "{} @ {}", that fit with one operand's matrices transposed;
    broadcasts: whether batch dimensions do."""

    def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        met = not broadcasts or common_shape(a[:-2], b[:-2]) is not None
        return met and a[-1] == b[max(len(b) - 2, 0)]

    def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], *shape[-2:][::-1])

    def name(shape: tuple[int, ...]) -> str:
        return "T" if len(shape) == 2 else "mT"

    forms = []
    if len(right) > 1 and fits(left, turned(right)):
        forms.append(product.format("x", f"y.{name(right)}"))
    if len(left) > 1 and fits(turned(left), right):
        forms.append(product.format(f"x.{name(left)}", "y"))
    return forms


@array_function
def dot(
    a: Promoted,
    b: Promoted,
    *,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    out_sharding: NoSharding = None,
) -> Array:
    """The sum of products over the last dimension of `a` and the last but one (or only) of `b`.

    With an operand without dimensions, the product. preferred_element_type: the dtype of the sums
    and of the result; precision: "default", "high" or "highest". Raises ShapeError.

    >>> jnp.dot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    if not a.ndim or not b.ndim:
        return _multiply_scalar(a, b, preferred_element_type)
    i, j = a.ndim - 1, max(b.ndim - 2, 0)
    if a.shape[i] != b.shape[j]:
        raise mismatch(a, b, i, j, _transposed_forms("dot({}, {})", a.shape, b.shape, False))
    return dot_general(a, b, (((i,), (j,)), ((), ())), precision, preferred_element_type)


def _simple_numbers(left: tuple[int, ...], right: tuple[int, ...]) -> Numbers | None:
    """The dimension numbers of a matmul that is one `dot_general`, or None."""
    if len(left) > 2 and len(right) > 2 and left[:-2] != right[:-2]:
        return None
    if len(left) != len(right) and len(right) > 2:
        return None
    if len(left) > 2 and len(right) > 2:
        batch = tuple(range(len(left) - 2))
        return ((len(left) - 1,), (len(right) - 2,)), (batch, batch)
    return ((len(left) - 1,), (max(len(right) - 2, 0),)), ((), ())


@array_function
def matmul(
    a: Promoted,
    b: Promoted,
    *,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    out_sharding: NoSharding = None,
) -> Array:
    """The product of matrices: the last two dimensions are theirs, those before broadcast.

    An operand of one dimension is a vector. preferred_element_type: the dtype of the sums and of
    the result; precision: "default", "high" or "highest". Raises ShapeError.

    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    left, right = a.shape, b.shape
    if not left or not right:
        raise ShapeError(
            "it takes operands with dimensions",
            got=f"{type_of(a)} and {type_of(b)}",
            wanted="one or more dimensions each",
            fix=Fix("multiply", "multiply by a number with *", {}),
        )
    j = max(len(right) - 2, 0)
    if left[-1] != right[j]:
        raise mismatch(a, b, len(left) - 1, j, _transposed_forms("{} @ {}", left, right, True))
    simple = _simple_numbers(left, right)
    if simple is not None:
        return dot_general(a, b, simple, precision, preferred_element_type)
    return _broadcast_matmul(a, b, precision, preferred_element_type)


def _broadcast_matmul(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    """The product of matrices whose batch dimensions broadcast."""
    left, right = a.shape, b.shape
    x = a if a.ndim > 1 else expand_dims(a, (0,))
    y = b if b.ndim > 1 else expand_dims(b, (1,))
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2], what="dimensions before the matrices")
    rank = len(batch)
    # A batch dimension that only one operand has (or that is 1 in the other) is not multiplied
    # out: it stays a free dimension of that operand.
    shape_x = (1,) * (rank - x.ndim + 2) + x.shape
    shape_y = (1,) * (rank - y.ndim + 2) + y.shape
    x, y = reshape(x, shape_x), reshape(y, shape_y)
    shared = [d for d in range(rank) if shape_x[d] == shape_y[d]]
    only_x = [d for d in range(rank) if d not in shared and shape_x[d] != 1]
    only_y = [d for d in range(rank) if d not in shared and shape_y[d] != 1]
    x = reshape(x, tuple(n for d, n in enumerate(shape_x) if d not in only_y))
    y = reshape(y, tuple(n for d, n in enumerate(shape_y) if d not in only_x))
    dims_x = [d for d in range(rank + 2) if d not in only_y]
    dims_y = [d for d in range(rank + 2) if d not in only_x]
    numbers = (
        ((dims_x.index(rank + 1),), (dims_y.index(rank),)),
        (tuple(dims_x.index(d) for d in shared), tuple(dims_y.index(d) for d in shared)),
    )
    out = dot_general(x, y, numbers, precision, preferred)
    # The order of dot_general: shared, free of x (with its rows), free of y (with its columns).
    order = [*shared, *only_x, "row", *only_y, "column"]
    wanted = [*range(rank), "row", "column"]
    out = transpose(out, [order.index(d) for d in wanted])
    shape = out.shape
    if len(left) == 1:
        shape = (*shape[:-2], shape[-1])
    if len(right) == 1:
        shape = shape[:-1]
    return reshape(out, shape)


# ---- products of vectors -------------------------------------------------------------------------


def _conjugate(x: Any) -> Any:
    """Conjugates complex numbers; real ones stay as they are."""
    return conj(x) if x.dtype in dtypes.COMPLEX else x


@array_function
def vdot(
    a: Promoted, b: Promoted, *, precision: Precision = None, preferred_element_type: Preferred =
    None,
) -> Array:  # fmt: skip
    """The sum of products of all elements, those of `a` conjugated.

    a and b: any shapes with equally many elements; the result is a scalar. Raises ShapeError for
    others.

    >>> jnp.vdot(jnp.array([1j, 2.0]), jnp.array([1j, 3.0]))
    Array(7.+0.j, dtype=complex64)
    """
    x, y = _conjugate(a.reshape(a.size)), b.reshape(b.size)
    if x.size != y.size:
        raise mismatch(x, y, 0, 0)
    return dot_general(x, y, (((0,), (0,)), ((), ())), precision, preferred_element_type)


@array_function
def vecdot(
    x1: Promoted,
    x2: Promoted,
    /,
    *,
    axis: EachAxis = -1,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
) -> Array:
    """The sum of products along `axis` of each operand, those of `x1` conjugated; the other
    dimensions broadcast.

    >>> jnp.vecdot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    i, j = axis
    if x1.shape[i] != x2.shape[j]:
        raise mismatch(x1, x2, i, j)
    a = _conjugate(move_dim(x1, i, x1.ndim - 1, 0))
    b = move_dim(x2, j, x2.ndim - 1, 0)
    shape = broadcast_shape(a.shape, b.shape)
    n = len(shape) - 1
    numbers = (((n,), (n,)), (tuple(range(n)),) * 2)
    a, b = broadcasted(a, shape), broadcasted(b, shape)
    return dot_general(a, b, numbers, precision, preferred_element_type)


@array_function
def matvec(x1: Promoted, x2: Promoted, /) -> Array:
    """The products of matrices (last two dimensions of x1) with vectors (last dimension of x2).

    >>> jnp.matvec(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1.0, 1.0]))
    Array([3., 7.], dtype=float32)
    """
    out = matmul(x1, x2[..., None])
    return out.reshape(out.shape[:-1])


@array_function
def vecmat(x1: Promoted, x2: Promoted, /) -> Array:
    """The products of vectors (last dimension of x1, conjugated) with matrices (of x2).

    >>> jnp.vecmat(jnp.array([1.0, 1.0]), jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([4., 6.], dtype=float32)
    """
    x = _conjugate(x1)
    out = matmul(expand_dims(x, (x.ndim - 1,)), x2)
    return out.reshape(*out.shape[:-2], out.shape[-1])


@array_function
def inner(
    a: Promoted, b: Promoted, *, precision: Precision = None, preferred_element_type: Preferred =
    None,
) -> Array:  # fmt: skip
    """The sum of products over the last dimension of both.

    >>> jnp.inner(jnp.array([[1.0, 2.0]]), jnp.array([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    if not a.ndim or not b.ndim:
        return _multiply_scalar(a, b, preferred_element_type)
    i, j = a.ndim - 1, b.ndim - 1
    if a.shape[i] != b.shape[j]:
        raise mismatch(a, b, i, j)
    return dot_general(a, b, (((i,), (j,)), ((), ())), precision, preferred_element_type)


@array_function
def outer(a: Promoted, b: Promoted, out: Out = None) -> Array:
    """The products of every element of `a` with every one of `b`, both flattened, as a matrix.

    a: any shape of m elements, b: of n; the result has shape (m, n) and the dtype both promote to.

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    shape = a.size, b.size
    rows = broadcast_in_dim(a.reshape(a.size), shape, (0,))
    return times(rows, broadcast_in_dim(b.reshape(b.size), shape, (1,)))


# ---- products of tensors -------------------------------------------------------------------------


@array_function
def tensordot(
    a: Promoted,
    b: Promoted,
    axes: ContractedAxes = 2,
    *,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    out_sharding: NoSharding = None,
) -> Array:
    """The sum of products over axes of both: so many last and first ones, or (axes_a, axes_b).

    Raises ShapeError if their lengths or numbers differ.

    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 2)), axes=1)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    for i, j in zip(*axes, strict=True):
        if a.shape[i] != b.shape[j]:
            raise mismatch(a, b, i, j)
    return dot_general(a, b, (axes, ((), ())), precision, preferred_element_type)


@array_function
def kron(a: Promoted, b: Promoted) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`, as blocks.

    a: shape (m, n), b: (p, q): the result is (m p, n q); with fewer dimensions, lengths of 1 are
    put in front.

    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    rank = max(a.ndim, b.ndim)
    left = (1,) * (rank - a.ndim) + a.shape
    right = (1,) * (rank - b.ndim) + b.shape
    pairs = tuple(n for pair in zip(left, right, strict=True) for n in pair)
    x = broadcast_in_dim(a.reshape(left), pairs, tuple(range(0, 2 * rank, 2)))
    y = broadcast_in_dim(b.reshape(right), pairs, tuple(range(1, 2 * rank, 2)))
    return times(x, y).reshape([n * m for n, m in zip(left, right, strict=True)])


@array_function
def cross(
    a: Promoted,
    b: Promoted,
    axisa: Integer = -1,
    axisb: Integer = -1,
    axisc: Integer = -1,
    axis: Integer | None = None,
) -> Array:
    """The cross product of vectors of 3 (or 2) numbers along an axis; others broadcast.

    axisa, axisb: the axes of the vectors; axisc: that of the result's; axis: all three at once. Of
    vectors of 2 numbers the result is the third component. Raises ShapeError for other lengths.

    >>> jnp.cross(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    if not a.ndim or not b.ndim:
        raise ShapeError("it takes operands with dimensions")
    one, two = axis_of(axisa, a.ndim, "cross"), axis_of(axisb, b.ndim, "cross")
    m, n = a.shape[one], b.shape[two]
    if m not in (2, 3) or n not in (2, 3):
        raise ShapeError(
            "it takes vectors of 2 or 3 numbers", got=f"lengths {m} and {n}", wanted="2 or 3"
        )
    shape = broadcast_shape(_without(a.shape, one), _without(b.shape, two))
    x, y = _components(a, one, shape), _components(b, two, shape)
    if m == n == 2:
        return _minor(x, y, 0, 1)
    zero = broadcast_in_dim(a.dtype.type(0), shape, ())
    x, y = (v if len(v) == 3 else [*v, zero] for v in (x, y))
    last = len(shape)
    parts = [_minor(x, y, i, j) for i, j in ((1, 2), (2, 0), (0, 1))]
    out = concatenate([expand_dims(p, (last,)) for p in parts], last)
    return move_dim(out, last, axis_of(axisc, last + 1, "cross"), 3)


def _minor(x: Sequence[Any], y: Sequence[Any], i: int, j: int) -> Any:
    """x[i] y[j] - x[j] y[i], which is exactly 0 for equal vectors."""
    first, second = mul(x[i], y[j]), mul(x[j], y[i])
    if first.dtype in dtypes.INEXACT:
        first, second = round_product(first), round_product(second)
    return sub(first, second)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d != axis)


def _components(x: Any, axis: int, shape: tuple[int, ...]) -> list[Any]:
    rest = _without(x.shape, axis)
    return [
        broadcasted(reshape(slice_in_dim(x, i, i + 1, axis=axis), rest), shape)
        for i in range(x.shape[axis])
    ]
