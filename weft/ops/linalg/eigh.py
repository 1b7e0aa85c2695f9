"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core import rules
from weft.core.rules import Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftValueError, api_boundary
from weft.ops.declare import emit_reduction
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, eq, gt, mul, scalar, sub
from weft.ops.elementwise.bits import bitwise_and, bitwise_not, bitwise_or
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.elementary import is_complex
from weft.ops.elementwise.families import inexact
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.indexing.creation import full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.cholesky import symmetrize, without_imaginary
from weft.ops.linalg.matrices import (
    INFO,
    adjoint,
    check_matrix,
    diagonal,
    factor_types,
    identity,
    lapack_call,
    matmul,
    matrix_primitive,
    nan_where_failed,
    no_algorithm,
    on_diagonal,
    part,
    triangle,
)
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim
from weft.runtime import stablehlo


class EighImplementation(enum.Enum):
    """Algorithms for the eigenvalues of a Hermitian matrix. On CPUs there is LAPACK's QR; the
    others are for other hardware and are refused."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


@api_boundary
def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors v, as columns, and eigenvalues w of Hermitian matrices: x v = v diag(w).

    x: shape (..., n, n), float32, float64, complex64 or complex128. v has the type of x; w is real,
    of shape (..., n), in increasing order. With `symmetrize_input` x is replaced by (x + its
    adjoint) / 2; without it, only the triangle that `lower` names is read. With `subset_by_index`,
    a start and a stop, only those eigenvalues and eigenvectors are given; all are computed.
    Eigenvalues are sorted also without `sort_eigenvalues`. Of the algorithms, only
    EighImplementation.QR (or None) is taken.

    The derivative (M. B. Giles, An extended collection of matrix derivative results for forward and
    reverse mode algorithmic differentiation, 2008) keeps v^H dv free of a diagonal. Where two
    eigenvalues are equal, their eigenvectors have no derivative and it is not finite; that of the
    eigenvalues is, and of the other eigenvectors. So is, where it exists, the second derivative in
    forward mode (`hessian`) of those and of functions such as sum(exp(w)). A matrix for which the
    iteration fails gives NaN.

    Args:
        lower: Whether the lower triangle of x is read, not the upper one, without
            `symmetrize_input`.
        sort_eigenvalues: Has no effect: eigenvalues are always sorted.
        implementation: The algorithm: None or `EighImplementation.QR`.

    Raises DTypeError, ShapeError, WeftValueError for a range of indices that does not exist, and
    WeftNotImplementedError for another implementation. By LAPACK's syevd and heevd.

    >>> import numpy as np
    >>> v, w = eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> print(w)
    [1. 2.]
    """
    check_flags(
        "eigh", lower=lower, symmetrize_input=symmetrize_input, sort_eigenvalues=sort_eigenvalues
    )
    if implementation not in (None, EighImplementation.QR):
        wanted = "implementation=None or EighImplementation.QR"
        raise no_algorithm(f"implementation={implementation!r}", wanted)
    check_matrix(type_of(x), square=True)
    chosen = index_range(subset_by_index, type_of(x).shape[-1])
    whole = bool(symmetrize_input)
    v, w = eigh_p.bind(symmetrize(x) if whole else x, lower=bool(lower), hermitian=whole)
    if chosen is not None:
        v, w = part(v, None, chosen), slice_in_dim(w, *chosen, axis=-1)
    return v, w


def index_range(given: Any, count: int) -> tuple[int, int] | None:
    """A range of indices as (start, stop). Raises WeftValueError for an invalid one."""
    if given is None:
        return None
    found = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(found) == 2 and all(isinstance(i, int) for i in found):
        start, stop = found
        if 0 <= start <= stop <= count:
            return start, stop
    argument, whole = "subset_by_index", (0, count)
    message, got = f"{argument} is not a range of indices", f"{argument}={given!r:.80}"
    wanted = f"integers (start, stop) with 0 <= start <= stop <= {count}"
    fix = Fix(argument, f"pass {argument}={whole}", {argument: whole})
    raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


def eigh_type(x: ArrayType, *, lower: bool, hermitian: bool) -> list[ArrayType]:
    check_matrix(x, square=True)
    return factor_types(x, (x.shape, x.dtype), (x.shape[:-1], dtypes.to_real(x.dtype)))


def eigh_jvp(
    primals: Values, tangents: Values, *, lower: bool, hermitian: bool
) -> tuple[list[Any], list[Any]]:
    """In the eigenbasis the diagonal of dx is the eigenvalues' tangent; off it, dx over the
    differences of eigenvalues is v^H dv. `hermitian` says that operand and tangent are Hermitian;
    otherwise one triangle counts."""
    v, w = outs = adapted_eigh_p.bind(*primals, lower=lower, hermitian=hermitian)
    turned = _in_basis(v, tangents[0], lower, hermitian)
    inside = within_blocks(w)
    # An eigenvector whose eigenvalue is equal to no other has a derivative, also where others are
    # equal: so what those lack does not reach it, in either direction.
    lacking = undefined(select(inside, turned, zeros_like_array(turned)))
    rotation = add(scale_by_real(turned, inverse_differences(w, inside)), lacking)
    return outs, [matmul(v, rotation), real_diagonal(turned)]


def _in_basis(v: Any, dx: Any, lower: bool, hermitian: bool) -> Any:
    """The tangent of the operand in the basis of the eigenvectors."""
    dx = dx if hermitian else hermitian_of_triangle(dx, lower)
    return matmul(adjoint(v), matmul(dx, v))


def eigh_lower(context: Any, x: Any, *, lower: bool, hermitian: bool) -> list[Any]:
    v, w = context.out_types
    if 0 in v.shape:
        return [x, stablehlo.full(0, w.shape, w.dtype)]
    routine = "heevd" if v.dtype in dtypes.COMPLEX else "syevd"
    results = [(v.shape[-2:], v.dtype), (w.shape[-1:], w.dtype), INFO]
    uplo = "L" if lower else "U"
    *found, info = lapack_call(context, routine, [x], results, mode="V", uplo=uplo)
    return [nan_where_failed(info, value) for value in found]


eigh_p = matrix_primitive(
    "eigh",
    type_rule=eigh_type,
    jvp=eigh_jvp,
    lower=eigh_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 9 * n**3),
)


# ---- equal eigenvalues -------------------------------------------------------------------------


def adapted_jvp(
    primals: Values, tangents: Values, *, lower: bool, hermitian: bool
) -> tuple[list[Any], list[Any]]:
    """The derivative of eigh in one direction, for functions that do not depend on the basis of
    equal eigenvalues.

    In the basis that makes the direction diagonal (T. Kato, Perturbation Theory for Linear
    Operators, 1966, II.2), there is no first-order mixing and so no 0 / 0, and the eigenvalues have
    their tangents in this direction.
    """
    v, w = adapted_eigh_p.bind(*primals, lower=lower, hermitian=hermitian)
    turned = _in_basis(v, tangents[0], lower, hermitian)
    u = block_basis(turned, w)
    v, turned = matmul(v, u), matmul(adjoint(u), matmul(turned, u))
    rotation = scale_by_real(turned, inverse_differences(w, within_blocks(w)))
    return [v, w], [matmul(v, rotation), real_diagonal(turned)]


def adapted_linearize(
    primals: Values, tangents: Values, *, lower: bool, hermitian: bool
) -> tuple[list[Any], list[Any]]:
    """The derivative in all directions; not finite for equal eigenvalues, even times 0."""
    v, w = outs = adapted_eigh_p.bind(*primals, lower=lower, hermitian=hermitian)
    turned = _in_basis(v, tangents[0], lower, hermitian)
    inside, inverse = within_blocks(w), inverse_differences(w)
    inverse = select(inside, full_like(inverse, math.inf), inverse)
    rotation = scale_by_real(turned, inverse)
    return outs, [matmul(v, rotation), real_diagonal(turned)]


adapted_eigh_p = matrix_primitive(
    "adapted_eigh", type_rule=eigh_type, jvp=adapted_jvp, lower=eigh_lower, multiple_results=True
)
rules.linearize.register(adapted_eigh_p, adapted_linearize)


def block_numbers(w: Any) -> Any:
    """For each of the rising eigenvalues, the number of those below that differ beyond rounding."""
    of = type_of(w)
    n = of.shape[-1]
    if n < 2:
        return zeros_like_array(w)
    bound = mul(
        reduce_max(abs_(w), (of.ndim - 1,)), scalar(4 * n * float(dtypes.finfo(of.dtype).eps), w)
    )
    steps = sub(slice_in_dim(w, 1, None, axis=-1), slice_in_dim(w, 0, n - 1, axis=-1))
    apart = gt(steps, broadcast_in_dim(bound, type_of(steps).shape, tuple(range(of.ndim - 1))))
    first = zeros_like_array(slice_in_dim(w, 0, 1, axis=-1))
    return cumsum(concatenate([first, convert_element_type(apart, of.dtype)], of.ndim - 1), -1)


def within_blocks(w: Any) -> Any:
    """Whether i and j are two eigenvalues that are equal but for rounding."""
    columns, rows = rows_and_columns(block_numbers(stop_gradient(w)))
    return bitwise_and(eq(columns, rows), bitwise_not(on_diagonal(type_of(rows))))


def undefined(x: Any) -> Any:
    """NaN where x is not 0, as a linear function: no derivative, times 0."""
    return undefined_p.bind(x)


def undefined_lower(context: Any, x: Any) -> Any:
    of = context.in_types[0]
    nan = complex("nan+nanj") if of.dtype in dtypes.COMPLEX else math.nan
    zero = stablehlo.full(0, of.shape, of.dtype)
    return stablehlo.select(
        stablehlo.compare(x, zero, "EQ"), zero, stablehlo.full(nan, of.shape, of.dtype)
    )


undefined_p = inexact(
    "undefined",
    jvp=lambda t, ans, x: undefined(t),
    transpose=lambda ct, x: undefined(ct),
    lower=undefined_lower,
)


def block_basis(turned: Any, w: Any) -> Any:
    """Unitary matrices that make the blocks of equal eigenvalues diagonal."""
    numbers = block_numbers(w)
    kept = select(within_blocks(w), turned, zeros_like_array(turned))
    # Each block is moved up beyond the one before, so that they stay apart.
    of = type_of(w)
    bound = reduce_max(abs_(turned), (of.ndim - 1, of.ndim))
    step = mul(bound, scalar(4 * of.shape[-1], bound))
    ends = broadcast_in_dim(step, of.shape, tuple(range(of.ndim - 1)))
    diagonals = add(real_diagonal(turned), mul(numbers, ends))
    columns = convert_element_type(rows_and_columns(diagonals)[0], type_of(turned).dtype)
    return block_basis_p.bind(select(on_diagonal(type_of(turned)), columns, kept))


def block_basis_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    """In blocks, the basis depends on more than the first derivative."""
    out = block_basis_p.bind(*primals)
    nothing = zeros_like_array(tangents[0])
    off = select(on_diagonal(type_of(nothing)), nothing, tangents[0])
    return out, undefined(off)


def block_basis_lower(context: Any, x: Any) -> Any:
    of = context.out_types[0]
    if 0 in of.shape:
        return x
    n = of.ndim
    size = stablehlo.abs_(x)
    part = stablehlo.dtype_of(size.type.element_type)
    one = identity(of.shape, of.dtype)
    nothing = stablehlo.full(0, of.shape, part)
    on = stablehlo.compare(identity(of.shape, part), nothing, "NE")
    off = stablehlo.and_(stablehlo.not_(on), stablehlo.compare(size, nothing, "NE"))
    any_off = emit_reduction(off, stablehlo.constant(False, (), np.bool_), range(n), stablehlo.or_)

    def turned() -> list[Any]:
        types = [of, ArrayType(of.shape[:-1], part)]
        inner = dataclasses.replace(context, out_types=types)
        return [eigh_lower(inner, x, lower=True, hermitian=True)[0]]

    return stablehlo.if_(any_off, turned, lambda: [one], [x.type])[0]


block_basis_p = matrix_primitive(
    "block_basis",
    type_rule=lambda x: factor_types(x, (x.shape, x.dtype))[0],
    jvp=block_basis_jvp,
    lower=block_basis_lower,
)


# ---- shared by rules about spectra -------------------------------------------------------------


def hermitian_of_triangle(x: Any, lower: bool) -> Any:
    """The Hermitian matrix with one triangle of x and the real part of its diagonal."""
    own = triangle(x, lower, -1 if lower else 1)
    return select(on_diagonal(type_of(x)), without_imaginary(x), add(own, adjoint(own)))


def real_diagonal(x: Any) -> Any:
    """The real part of the diagonal of each square matrix."""
    found = diagonal(x)
    return real(found) if is_complex(x) else found


def scale_by_real(x: Any, factor: Any) -> Any:
    """A real or complex array times a real one."""
    return mul(x, convert_element_type(factor, type_of(x).dtype))


def inverse_differences(w: Any, without: Any = None) -> Any:
    """The matrices of 1 / (w[j] - w[i]), with zeros on the diagonal and at `without`."""
    columns, rows = rows_and_columns(w)
    on = on_diagonal(type_of(rows))
    if without is not None:
        on = bitwise_or(on, without)
    # A non-zero divisor keeps the derivatives of the diagonal finite.
    apart = select(on, full_like(rows, 1), sub(columns, rows))
    return select(on, zeros_like_array(rows), div(scalar(1, apart), apart))


def rows_and_columns(w: Any) -> tuple[Any, Any]:
    """The matrices of w[j] and of w[i] in row i and column j."""
    aval = type_of(w)
    shape, batch = (*aval.shape, aval.shape[-1]), tuple(range(aval.ndim - 1))
    columns, rows = (broadcast_in_dim(w, shape, (*batch, aval.ndim - i)) for i in (0, 1))
    return columns, rows
