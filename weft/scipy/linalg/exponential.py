"""The matrix exponential and its derivative along a direction.

A is divided by a power of two, the exponential of the quotient approximated by a rational function
(Padé), and the result squared as often: N. J. Higham, The scaling and squaring method for the
matrix exponential revisited (2005). One order serves all matrices of a dtype, so that a batch is
one computation: 13 in double precision, 7 in single.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, overload

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.cond import cond
from weft.control_flow.loops import scan
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape
from weft.interpreters.jvp import jvp_flat
from weft.kinds.arguments import Flag, choice, count_from
from weft.kinds.array_function import array_function
from weft.kinds.checks import convert
from weft.numpy.linalg.operands import PromotedSquare, SquareMatrix, restore_dtype, widen_operand
from weft.numpy.linalg.solving import solve_batched
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.linalg.matrices import matmul, triangle
from weft.ops.linalg.triangular_solve import triangular_solve

__all__ = ["expm", "expm_frechet"]

# Coefficients of the numerator, and the norm up to which the approximation is exact to roundoff.
_DOUBLE = (
    (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
     10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1),
    5.371920351148152,
)  # fmt: skip
_SINGLE = ((17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1), 3.925724783138660)


def _rational(a: Any, coefficients: tuple[int, ...]) -> tuple[Any, Any]:
    """The odd and the even part of the numerator."""
    b = [float(x) for x in coefficients]
    one = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    square = matmul(a, a)
    if len(b) == 8:
        powers = [one, square, matmul(square, square)]
        powers.append(matmul(powers[2], square))
        odd = sum(c * p for c, p in zip(b[1::2], powers, strict=True))
        even = sum(c * p for c, p in zip(b[::2], powers, strict=True))
        return matmul(a, odd), even
    fourth = matmul(square, square)
    sixth = matmul(fourth, square)
    odd = matmul(sixth, b[13] * sixth + b[11] * fourth + b[9] * square)
    odd = odd + b[7] * sixth + b[5] * fourth + b[3] * square + b[1] * one
    even = matmul(sixth, b[12] * sixth + b[10] * fourth + b[8] * square)
    even = even + b[6] * sixth + b[4] * fourth + b[2] * square + b[0] * one
    return matmul(a, odd), even


def _exponential(a: Any, *, upper: bool, squarings: int) -> Any:
    """The exponential of matrices in a dtype of LAPACK."""
    if not a.size:
        return a
    double = type_of(a).dtype in (dtypes.float64, dtypes.complex128)
    coefficients, bound = _DOUBLE if double else _SINGLE
    size = jnp.max(jnp.sum(abs(stop_gradient(a)), axis=-2), axis=-1)
    # The least power of two that brings the norm down to the bound, from the exponent of the norm.
    mantissa, exponent = jnp.frexp(size / bound)
    needed = jnp.where(mantissa == 0.5, exponent - 1, exponent)
    times = jnp.clip(needed, 0, squarings)
    scale = jnp.ldexp(jnp.ones_like(size), -times)
    odd, even = _rational(a * convert(scale, a.dtype)[..., None, None], coefficients)
    if upper:
        out = triangular_solve(triangle(even - odd, False), even + odd, left_side=True)
    else:
        out = solve_batched(even - odd, even + odd)
    most = jnp.max(times)

    def step(x: Any, number: Any) -> tuple[Any, None]:
        def squared(x: Any) -> Any:
            return jnp.where((number < times)[..., None, None], matmul(x, x), x)

        return cond(number < most, squared, lambda x: x, x), None

    out, _ = scan(step, out, jnp.arange(squarings, dtype=times.dtype))
    beyond = ~(size <= bound * 2.0**squarings)
    return jnp.where(beyond[..., None, None], jnp.nan, out)


Method = Annotated[str, choice("SPS", "blockEnlarge")]
Count = Annotated[int, count_from(0)]


@array_function
def expm(A: SquareMatrix, *, upper_triangular: Flag = False, max_squarings: Count = 16) -> Array:
    """The exponential of square matrices: the sum of A^k / k! over all k.

    A: shape (..., n, n). upper_triangular: only the upper triangle is read, and a triangular system
    solved. max_squarings: a matrix that would need more has a result of NaN; 16 are enough for a
    norm of 257 000 (352 000 in double precision). By N. J. Higham (2005).

    Raises ShapeError, DTypeError, WeftTypeError, and WeftValueError for max_squarings below 0.

    >>> import weft.numpy as jnp
    >>> expm(jnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    x = triangle(widen_operand(A), False) if upper_triangular else widen_operand(A)
    return restore_dtype(_exponential(x, upper=upper_triangular, squarings=max_squarings), A.dtype)


@overload
def expm_frechet(
    A: Any, E: Any, *, method: str | None = ..., compute_expm: Literal[True] = ...
) -> tuple[Array, Array]: ...


@overload
def expm_frechet(
    A: Any, E: Any, *, method: str | None = ..., compute_expm: Literal[False]
) -> Array: ...


@overload
def expm_frechet(A: Any, E: Any, *, method: str | None = ..., compute_expm: bool = ...) -> Any: ...


@array_function
def expm_frechet(
    A: PromotedSquare, E: PromotedSquare, *, method: Method | None = None, compute_expm: Flag = True
) -> Any:
    """The exponential of A, and its derivative along E.

    A and E: shape (..., n, n), promoted to one dtype. method: "SPS" (or None) differentiates the
    algorithm of `expm`, "blockEnlarge" takes both from the exponential of [[A, E], [0, A]]. Without
    `compute_expm`, the derivative alone. By A. H. Al-Mohy and N. J. Higham, Computing the Frechet
    derivative of the matrix exponential (2009).

    Raises ShapeError, WeftValueError for another method, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> expm_frechet(jnp.zeros((2, 2)), jnp.ones((2, 2)), compute_expm=False)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    if A.shape != E.shape:
        raise wrong_shape(f"A: {type_of(A)}, E: {type_of(E)}", "an E of the shape of A")

    def exponential(x: Any) -> Any:
        return _exponential(x, upper=False, squarings=16)

    a, e = widen_operand(A), widen_operand(E)
    if method == "blockEnlarge":
        n = a.shape[-1]
        upper = jnp.concatenate([a, e], axis=-1)
        lower = jnp.concatenate([jnp.zeros_like(a), a], axis=-1)
        whole = exponential(jnp.concatenate([upper, lower], axis=-2))
        value, tangent = whole[..., :n, :n], whole[..., :n, n:]
    else:
        [value], [tangent] = jvp_flat(lambda x: [exponential(x)], [a], [e])
    tangent = restore_dtype(tangent, A.dtype)
    return (restore_dtype(value, A.dtype), tangent) if compute_expm else tangent
