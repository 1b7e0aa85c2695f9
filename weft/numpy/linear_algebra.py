"""Products of vectors, matrices and tensors: dot, matmul, tensordot, outer, kron, cross.

Each is one `dot_general` and moves of dimensions; products of 16-bit floats accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import dtypes
from weft.argument_errors import integer_of, invalid_value, refusal, refuse_sharding
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    combined,
    common_shape,
    convert,
    promoted,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import promote_operands
from weft.kinds.repeated import repeated
from weft.ops.elementwise.arithmetic import mul, rounded, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.complex import conj
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.products.dot import dot_general
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, move_dim, reshape, transpose
from weft.typing import ArrayLike

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def preferred_dtype(preferred: Any) -> Any:
    """The dtype in which a product is summed on the caller's request, or None."""
    return None if preferred is None else dtypes.requested(preferred)


def product(
    operation: str, a: Any, b: Any, numbers: Numbers, precision: Any, preferred: Any
) -> Any:
    """A `dot_general` of operands brought to one dtype."""
    a, b = promoted(operation, a, b)
    return dot_general(a, b, numbers, precision, preferred)


def _multiplied(operation: str, a: Any, b: Any, preferred: Any) -> Any:
    """The elementwise product, for operands without dimensions."""
    out = combined(operation, times, a, b)
    return out if preferred is None else convert(out, preferred)


def times(x: Any, y: Any) -> Any:
    """The elementwise product of numbers, or conjunction of booleans."""
    return bitwise_and(x, y) if type_of(x).dtype == dtypes.bool_ else mul(x, y)


def mismatch(operation: str, a: Any, b: Any, i: int, j: int) -> ShapeError:
    """The error for contracted dimensions of different lengths."""
    left, right = type_of(a), type_of(b)
    m, n = left.shape[i], right.shape[j]
    message = f"{operation}: the dimensions that are summed over have lengths {m} and {n}"
    wanted = f"equal lengths of dimension {i} of the first and dimension {j} of the second"
    forms = []
    if operation in ("matmul", "dot"):
        forms = _swapped(operation, left.shape, right.shape)
    rows = [*right.shape]
    rows[j] = m
    text = f"pass a second operand of shape {tuple(rows)}"
    if forms:
        text = f"write {' or '.join(forms)}, if that is what is meant"
    fix = Fix("swap" if forms else "shape", text, {"forms": forms, "shape": tuple(rows)})
    return refusal(ShapeError, message, operation, f"{left} and {right}", wanted, fix)


def _swapped(operation: str, left: tuple[int, ...], right: tuple[int, ...]) -> list[str]:
    """The ways to write the product of `x` and `y` with the matrices of one of them transposed."""

    def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return a[-1] == b[max(len(b) - 2, 0)] and (
            operation == "dot" or common_shape(a[:-2], b[:-2]) is not None
        )

    def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-2], *shape[-2:][::-1])

    def name(shape: tuple[int, ...]) -> str:
        return "T" if len(shape) == 2 else "mT"

    def spelled(x: str, y: str) -> str:
        return f"dot({x}, {y})" if operation == "dot" else f"{x} @ {y}"

    forms = []
    if len(right) > 1 and fits(left, turned(right)):
        forms.append(spelled("x", f"y.{name(right)}"))
    if len(left) > 1 and fits(turned(left), right):
        forms.append(spelled(f"x.{name(left)}", "y"))
    return forms


# Two types -> the dimension numbers of their product, where it is a single primitive.
_matmul_numbers: dict[Any, Any] = {}


@compiled
def _dot(a: Any, b: Any, *, precision: Any, preferred: Any) -> Any:
    left, right = type_of(a).ndim, type_of(b).ndim
    if not left or not right:
        return _multiplied("dot", a, b, preferred)
    numbers = (((left - 1,), (max(right - 2, 0),)), ((), ()))
    return product("dot", a, b, numbers, precision, preferred)


@repeated
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over the last dimension of `a` and the last but one (or only) of `b`.

    With an operand without dimensions, the product. preferred_element_type: the dtype of the sums
    and of the result; precision: "default", "high" or "highest". Raises ShapeError.

    >>> jnp.dot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    refuse_sharding("dot", out_sharding)
    if precision is None and preferred_element_type is None:
        x, y = getattr(a, "type", None), getattr(b, "type", None)
        numbers = _matmul_numbers.get((x, y))
        if numbers is not None and not numbers[1][0]:
            return dot_general(a, b, numbers)
    a, b = promote_operands("dot", a, b)
    left, right = type_of(a).shape, type_of(b).shape
    if left and right and left[-1] != right[max(len(right) - 2, 0)]:
        raise mismatch("dot", a, b, len(left) - 1, max(len(right) - 2, 0))
    if left and right and len(left) < 3 and len(right) < 3:
        # Without batch dimensions `dot` and `matmul` are the same.
        return matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
    return _dot(a, b, precision=precision, preferred=preferred_dtype(preferred_element_type))


def _simple_numbers(left: tuple[int, ...], right: tuple[int, ...]) -> Numbers | None:
    """The dimension numbers of a matmul that needs nothing else, or None. Raises ShapeError."""
    if len(left) > 2 and len(right) > 2 and left[:-2] != right[:-2]:
        return None
    if len(left) != len(right) and len(right) > 2:
        return None
    if len(left) > 2 and len(right) > 2:
        batch = tuple(range(len(left) - 2))
        return ((len(left) - 1,), (len(right) - 2,)), (batch, batch)
    return ((len(left) - 1,), (max(len(right) - 2, 0),)), ((), ())


@compiled
def _matmul(a: Any, b: Any, *, precision: Any, preferred: Any) -> Any:
    left, right = type_of(a).shape, type_of(b).shape
    simple = _simple_numbers(left, right)
    if simple is not None:
        return product("matmul", a, b, simple, precision, preferred)
    x = a if len(left) > 1 else expand_dims(a, (0,))
    y = b if len(right) > 1 else expand_dims(b, (1,))
    leading = (type_of(x).shape[:-2], type_of(y).shape[:-2])
    batch = broadcast_shape("matmul", *leading, what="dimensions before the matrices")
    rank = len(batch)
    # A batch dimension that only one operand has (or that is 1 in the other) is not multiplied
    # out: it stays a free dimension of that operand.
    shape_x = (1,) * (rank - type_of(x).ndim + 2) + type_of(x).shape
    shape_y = (1,) * (rank - type_of(y).ndim + 2) + type_of(y).shape
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
    out = product("matmul", x, y, numbers, precision, preferred)
    # The order of dot_general: shared, free of x (with its rows), free of y (with its columns).
    order = [*shared, *only_x, "row", *only_y, "column"]
    wanted = [*range(rank), "row", "column"]
    out = transpose(out, [order.index(d) for d in wanted])
    shape = type_of(out).shape
    if len(left) == 1:
        shape = (*shape[:-2], shape[-1])
    if len(right) == 1:
        shape = shape[:-1]
    return reshape(out, shape)


@repeated
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of matrices: the last two dimensions are theirs, those before broadcast.

    An operand of one dimension is a vector. preferred_element_type: the dtype of the sums and of
    the result; precision: "default", "high" or "highest". Raises ShapeError.

    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x: Any = getattr(a, "type", None)
    y: Any = getattr(b, "type", None)
    typed = type(x) is type(y) is ArrayType  # A user's class may mean something else by `type`.
    plain = precision is None and preferred_element_type is None and out_sharding is None
    if plain and typed:
        # Equal dtypes and no broadcasting: one primitive, whose dimension numbers are cached.
        numbers = _matmul_numbers.get((x, y))
        if numbers is not None:
            return dot_general(a, b, numbers)
    refuse_sharding("matmul", out_sharding)
    a, b = promote_operands("matmul", a, b)
    left, right = type_of(a).shape, type_of(b).shape
    if not left or not right:
        message = "matmul takes operands with dimensions"
        got = f"{type_of(a)} and {type_of(b)}"
        fix = Fix("multiply", "multiply by a number with *", {})
        raise refusal(ShapeError, message, "matmul", got, "one or more dimensions each", fix)
    j = max(len(right) - 2, 0)
    if left[-1] != right[j]:
        raise mismatch("matmul", a, b, len(left) - 1, j)
    if typed and x.dtype == y.dtype and x.weak_type == y.weak_type:
        simple = _simple_numbers(left, right)
        if simple is not None and precision is None and preferred_element_type is None:
            if len(_matmul_numbers) > 10_000:
                _matmul_numbers.clear()
            _matmul_numbers[x, y] = simple
            return dot_general(a, b, simple)
    preferred = preferred_dtype(preferred_element_type)
    return _matmul(a, b, precision=precision, preferred=preferred)


@repeated
def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The sum of products of all elements, those of `a` conjugated.

    a and b: any shapes with equally many elements; the result is a scalar. Raises ShapeError for
    others.

    >>> jnp.vdot(jnp.array([1j, 2.0]), jnp.array([1j, 3.0]))
    Array(7.+0.j, dtype=complex64)
    """
    a, b = promote_operands("vdot", a, b)
    x, y = reshape(a, (type_of(a).size,)), reshape(b, (type_of(b).size,))
    if type_of(x).dtype in dtypes.COMPLEX:
        x = conj(x)
    return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)


@compiled
def _vecdot(a: Any, b: Any, *, axes: tuple[int, int], precision: Any, preferred: Any) -> Any:
    a, b = promoted("vecdot", a, b)
    last = [type_of(x).ndim - 1 for x in (a, b)]
    a, b = (move_dim(x, i, n, 0) for x, i, n in zip((a, b), axes, last, strict=True))
    if type_of(a).dtype in dtypes.COMPLEX:
        a = conj(a)
    shape = broadcast_shape("vecdot", type_of(a).shape, type_of(b).shape)
    a, b = broadcasted(a, shape), broadcasted(b, shape)
    n = len(shape) - 1
    rest = tuple(range(n))
    return dot_general(a, b, (((n,), (n,)), (rest, rest)), precision, preferred)


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The sum of products along `axis` of each operand, those of `x1` conjugated; the other
    dimensions broadcast.

    >>> jnp.vecdot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    x1, x2 = promote_operands("vecdot", x1, x2)
    left, right = type_of(x1), type_of(x2)
    if not left.ndim or not right.ndim:
        raise ShapeError("vecdot takes operands with dimensions", operation="vecdot")
    i, j = axis_of(axis, left.ndim, "vecdot"), axis_of(axis, right.ndim, "vecdot")
    if left.shape[i] != right.shape[j]:
        raise mismatch("vecdot", x1, x2, i, j)
    preferred = preferred_dtype(preferred_element_type)
    return _vecdot(x1, x2, axes=(i, j), precision=precision, preferred=preferred)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices (last two dimensions of x1) with vectors (last dimension of x2).

    >>> jnp.matvec(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1.0, 1.0]))
    Array([3., 7.], dtype=float32)
    """
    x1, x2 = promote_operands("matvec", x1, x2)
    out = matmul(x1, expand_dims(x2, (type_of(x2).ndim,)))
    return reshape(out, type_of(out).shape[:-1])


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of vectors (last dimension of x1, conjugated) with matrices (of x2).

    >>> jnp.vecmat(jnp.array([1.0, 1.0]), jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([4., 6.], dtype=float32)
    """
    x1, x2 = promote_operands("vecmat", x1, x2)
    x = conj(x1) if type_of(x1).dtype in dtypes.COMPLEX else x1
    out = matmul(expand_dims(x, (type_of(x).ndim - 1,)), x2)
    shape = type_of(out).shape
    return reshape(out, (*shape[:-2], shape[-1]))


@compiled
def _inner(a: Any, b: Any, *, precision: Any, preferred: Any) -> Any:
    left, right = type_of(a).ndim, type_of(b).ndim
    if not left or not right:
        return _multiplied("inner", a, b, preferred)
    return product("inner", a, b, (((left - 1,), (right - 1,)), ((), ())), precision, preferred)


@repeated
def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The sum of products over the last dimension of both.

    >>> jnp.inner(jnp.array([[1.0, 2.0]]), jnp.array([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    a, b = promote_operands("inner", a, b)
    left, right = type_of(a).shape, type_of(b).shape
    if left and right and left[-1] != right[-1]:
        raise mismatch("inner", a, b, len(left) - 1, len(right) - 1)
    preferred = preferred_dtype(preferred_element_type)
    return _inner(a, b, precision=precision, preferred=preferred)


@compiled
def _outer(a: Any, b: Any) -> Any:
    a, b = promoted("outer", a, b)
    n, m = type_of(a).size, type_of(b).size
    rows = broadcast_in_dim(reshape(a, (n,)), (n, m), (0,))
    return times(rows, broadcast_in_dim(reshape(b, (m,)), (n, m), (1,)))


@repeated
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of every element of `a` with every one of `b`, both flattened, as a matrix.

    a: any shape of m elements, b: of n; the result has shape (m, n) and the dtype both promote to.

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    refuse_out("outer", out)
    a, b = promote_operands("outer", a, b)
    return _outer(a, b)


@repeated
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of products over axes of both: so many last and first ones, or (axes_a, axes_b).

    Raises ShapeError if their lengths or numbers differ.

    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 2)), axes=1)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    refuse_sharding("tensordot", out_sharding)
    a, b = promote_operands("tensordot", a, b)
    left, right = type_of(a), type_of(b)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise invalid_value("tensordot: axes is a number or a pair", "tensordot", "axes", axes)
        one = axes_of(_sequence(axes[0]), left.ndim, "tensordot")
        two = axes_of(_sequence(axes[1]), right.ndim, "tensordot")
    else:
        count = integer_of(axes, "tensordot", "axes")
        if count > min(left.ndim, right.ndim) or count < 0:
            message = f"tensordot: there are no {axes} axes to sum over"
            raise refusal(ShapeError, message, "tensordot", f"{left} and {right}, axes={axes}")
        one = tuple(range(left.ndim - count, left.ndim))
        two = tuple(range(count))
    if len(one) != len(two):
        message = "tensordot: not as many axes of one operand as of the other"
        raise refusal(ShapeError, message, "tensordot", f"axes={axes!r}")
    for i, j in zip(one, two, strict=True):
        if left.shape[i] != right.shape[j]:
            raise mismatch("tensordot", a, b, i, j)
    preferred = preferred_dtype(preferred_element_type)
    return _tensordot(a, b, one=one, two=two, precision=precision, preferred=preferred)


def _sequence(axes: Any) -> Any:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


@compiled
def _tensordot(a: Any, b: Any, *, one: Any, two: Any, precision: Any, preferred: Any) -> Any:
    return product("tensordot", a, b, ((one, two), ((), ())), precision, preferred)


@compiled
def _kron(a: Any, b: Any) -> Any:
    a, b = promoted("kron", a, b)
    rank = max(type_of(a).ndim, type_of(b).ndim)
    left = (1,) * (rank - type_of(a).ndim) + type_of(a).shape
    right = (1,) * (rank - type_of(b).ndim) + type_of(b).shape
    pairs = tuple(n for pair in zip(left, right, strict=True) for n in pair)
    x = broadcast_in_dim(reshape(a, left), pairs, tuple(range(0, 2 * rank, 2)))
    y = broadcast_in_dim(reshape(b, right), pairs, tuple(range(1, 2 * rank, 2)))
    return reshape(times(x, y), tuple(n * m for n, m in zip(left, right, strict=True)))


@repeated
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`, as blocks.

    a: shape (m, n), b: (p, q): the result is (m p, n q); with fewer dimensions, lengths of 1 are
    put in front.

    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    a, b = promote_operands("kron", a, b)
    return _kron(a, b)


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3 (or 2) numbers along an axis; others broadcast.

    axisa, axisb: the axes of the vectors; axisc: that of the result's; axis: all three at once. Of
    vectors of 2 numbers the result is the third component. Raises ShapeError for other lengths.

    >>> jnp.cross(jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    a, b = promote_operands("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = type_of(a), type_of(b)
    if not left.ndim or not right.ndim:
        raise ShapeError("cross takes operands with dimensions", operation="cross")
    one, two = axis_of(axisa, left.ndim, "cross"), axis_of(axisb, right.ndim, "cross")
    if left.shape[one] not in (2, 3) or right.shape[two] not in (2, 3):
        got = f"lengths {left.shape[one]} and {right.shape[two]}"
        raise refusal(ShapeError, "cross takes vectors of 2 or 3 numbers", "cross", got, "2 or 3")
    out = _cross(a, b, one=one, two=two)
    if left.shape[one] == right.shape[two] == 2:
        return out
    last = type_of(out).ndim - 1
    return move_dim(out, last, axis_of(axisc, last + 1, "cross"), 3)


@compiled
def _cross(a: Any, b: Any, *, one: int, two: int) -> Any:
    a, b = promoted("cross", a, b)
    shape = broadcast_shape(
        "cross", _without(type_of(a).shape, one), _without(type_of(b).shape, two)
    )
    x, y = _components(a, one, shape), _components(b, two, shape)
    if len(x) == len(y) == 2:
        return _minor(x, y, 0, 1)
    zero = broadcast_in_dim(type_of(a).dtype.type(0), shape, ())
    x, y = (v if len(v) == 3 else [*v, zero] for v in (x, y))
    parts = [_minor(x, y, i, j) for i, j in ((1, 2), (2, 0), (0, 1))]
    return concatenate([expand_dims(p, (len(shape),)) for p in parts], len(shape))


def _minor(x: Sequence[Any], y: Sequence[Any], i: int, j: int) -> Any:
    """x[i] y[j] - x[j] y[i], which is 0 where the vectors are equal."""
    first, second = mul(x[i], y[j]), mul(x[j], y[i])
    if type_of(first).dtype in dtypes.INEXACT:
        first, second = rounded(first), rounded(second)
    return sub(first, second)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d != axis)


def _components(x: Any, axis: int, shape: tuple[int, ...]) -> list[Any]:
    of = type_of(x)
    rest = _without(of.shape, axis)
    return [
        broadcasted(reshape(slice_in_dim(x, i, i + 1, axis=axis), rest), shape)
        for i in range(of.shape[axis])
    ]
