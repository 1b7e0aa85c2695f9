"""Bessel functions of the first kind and modified ones, and spherical harmonics.

Sequences of orders follow three-term recurrences: Bessel functions downwards (J. C. P. Miller,
1952; DLMF 3.6), Legendre functions upwards. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.fori_loop import fori_loop
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, WeftTypeError
from weft.errors.argument_errors import unsupported_argument
from weft.kinds.arguments import NEVER, Passed, Prepared, common_inexact, count_from
from weft.kinds.array_function import private_function, python_function
from weft.kinds.checks import broadcast_shape, check_ranks, computing_dtype, convert
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import as_operand
from weft.ops.elementwise import special
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.operand_errors import to_dtype
from weft.scipy.real_functions import Natural, Real, elementwise, real

__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e", "sph_harm_y"]


@elementwise
def i0e(x: Real) -> Array:
    """exp(-|x|) I0(x), which does not overflow.

    >>> i0e(np.array([0.0, 1000.0]))
    Array([1.        , 0.01261724], dtype=float32)
    """
    return special.bessel_i0e_p.bind(x)


@elementwise
def i1e(x: Real) -> Array:
    """exp(-|x|) I1(x), which does not overflow.

    >>> i1e(np.array([0.0, 1000.0]))
    Array([0.        , 0.01261093], dtype=float32)
    """
    return special.bessel_i1e_p.bind(x)


@elementwise
def i0(x: Real) -> Array:
    """The modified Bessel function of the first kind of order 0 (DLMF 10.25.2).

    >>> i0(np.array([0.0, 1.0]))
    Array([1.       , 1.2660658], dtype=float32)
    """
    return special.bessel_i0_p.bind(x)


@elementwise
def i1(x: Real) -> Array:
    """The modified Bessel function of the first kind of order 1 (DLMF 10.25.2).

    >>> i1(np.array([0.0, 1.0]))
    Array([0.       , 0.5651591], dtype=float32)
    """
    return special.bessel_i1_p.bind(x)


def _recurrence(z: Any, highest: int, start: int) -> Any:
    """J_0 … J_highest along a new first dimension, by downward recurrence from order `start`."""
    of = type_of(z)
    tiny = of.dtype.type(1e-30)
    safe = jnp.where(z == 0, 1.0, z)
    orders = broadcasted_iota(dtypes.int32, (highest + 1, *of.shape), 0)

    def body(step: Any, state: Any) -> Any:
        above, here, total, kept = state
        k = start - step  # the order of `here`; the next one is lower
        below = (2.0 * convert_element_type(k, of.dtype)) / safe * here - above
        # Growing numbers are all scaled together; dividing by the sum at the end cancels the scale.
        size = jnp.abs(below)
        scale = jnp.where(size > 1e15, 1.0 / jnp.where(size > 1e15, size, 1.0), 1.0)
        below, here, total, kept = (x * scale for x in (below, here, total, kept))
        even = (k - 1) % 2 == 0
        total = total + jnp.where(even, jnp.where(k == 1, 1.0, 2.0) * below, 0.0)
        kept = jnp.where(orders == k - 1, below, kept)
        return here, below, total, kept

    zero = jnp.zeros_like(z)
    here = zero + tiny
    kept = jnp.where(orders == start, here, jnp.zeros(orders.shape, of.dtype))
    total = 2.0 * here if start % 2 == 0 else zero
    _, _, total, kept = fori_loop(0, start, body, (zero, here, total, kept))
    return jnp.where(z == 0, jnp.where(orders == 0, 1.0, 0.0), kept / total)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _bessel(z: Any, highest: int, start: int) -> Any:
    return _recurrence(z, highest, start)


@_bessel.defjvp
def bessel_jvp(highest: int, start: int, primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    values = _bessel(z, highest + 1, start + 1)
    below = jnp.concatenate([-values[1:2], values[:-2]])  # J_{-1} = -J_1
    return values[:-1], 0.5 * (below - values[1:]) * t


@elementwise
def bessel_jn(z: Real, *, v: Natural, n_iter: Annotated[int, count_from(0, use=50)] = 50) -> Array:
    """Bessel functions of the first kind of orders 0 … v, along a new first dimension.

    v, n_iter: integers from 0, known while tracing. The recurrence descends from order n_iter (or
    from above v, if that is more), which has to exceed |z| by about 20. Raises WeftTypeError and
    WeftValueError for other v and n_iter. J. C. P. Miller's algorithm (DLMF 3.6, 10.74).

    z: the real numbers at which the functions are evaluated.

    >>> bessel_jn(np.array([0.0, 1.0]), v=1)
    Array([[1.        , 0.76519775],
           [0.        , 0.44005063]], dtype=float32)
    """
    return _bessel(z, v, max(n_iter, v + 16))


def _legendre(n: Any, m: Any, theta: Any, highest: int) -> Any:
    """The Legendre function of degree n and order m >= 0 at cos(theta), normalised for harmonics.

    Upward recurrence: along the diagonal to degree m (DLMF 14.7.15), then at fixed order (14.10.3).
    """
    x, s = jnp.cos(theta), jnp.sin(theta)
    s = jnp.where(s < 0, -s, s)  # The root of 1 - x * x, at negative angles too.
    order, degree = convert(m, type_of(x).dtype), n

    def body(k: Any, state: Any) -> Any:
        before, here = state
        at = convert(k, type_of(x).dtype)
        last = at - 1.0
        diagonal = -jnp.sqrt((2.0 * at + 1.0) / (2.0 * at)) * s * here
        above = m < k
        factor = jnp.sqrt((4.0 * at * at - 1.0) / jnp.where(above, at * at - order * order, 1.0))
        rest = jnp.where(above, last * last - order * order, 0.0)
        weight = jnp.sqrt(rest / jnp.maximum(4.0 * last * last - 1.0, 1.0))
        following = jnp.where(above, factor * (x * here - weight * before), diagonal)
        active = k <= degree
        return jnp.where(active, here, before), jnp.where(active, following, here)

    shape = jnp.broadcast_shapes(type_of(n).shape, type_of(m).shape, type_of(theta).shape)
    start = jnp.broadcast_to(x * 0.0 + math.sqrt(0.25 / math.pi), shape)
    zero = start * 0.0
    return fori_loop(1, highest + 1, body, (zero, start))[1]


@private_function
def _harmonic(
    n: Prepared, m: Prepared, theta: Prepared, phi: Prepared, *, highest: Passed, dtype: Passed
) -> Any:
    working = computing_dtype(dtype)
    theta, phi = convert(theta, working), convert(phi, working)
    size = jnp.abs(m)
    value = _legendre(n, size, theta, highest)
    odd = (m < 0) & (size % 2 == 1)
    value = jnp.where(size > n, 0.0, jnp.where(odd, -value, value))
    value = jnp.where((n < 0) | (n > highest), math.nan, value)
    angle = convert(m, working) * phi
    return complex_of(*jnp.broadcast_arrays(value * jnp.cos(angle), value * jnp.sin(angle)))


def _whole(value: Any, call: Arguments) -> Any:
    value = as_operand(call.operation, value, call.name)
    of = type_of(value)
    if of.dtype not in dtypes.INTEGER and of.dtype not in dtypes.BOOLEAN:
        message, got = f"takes integers as {call.name}", f"{call.name} of type {of}"
        fix = to_dtype(call.name, of.dtype, dtypes.int32)
        raise DTypeError(message, got=got, wanted="an integer dtype", fix=fix)
    return value


def _no_derivative(value: Any, call: Arguments) -> None:
    if value != 0:
        why = "weft's own transformations differentiate"
        fix = "leave it out and differentiate in theta and phi with weft.jvp or weft.jacfwd"
        raise unsupported_argument(call.operation, call.name, value, why, fix, 0)


Whole = Annotated[Any, Kind(_whole, "integers", ([1], "text", 0.5), 1, False, True, plain=NEVER)]
_angle_kind = real("real numbers", 0.5, lambda of, call: None)
Angle = Annotated[Any, dataclasses.replace(_angle_kind, together=common_inexact)]
Degree = Annotated[int, count_from(0, use=None)]
NoDerivative = Annotated[Any, Kind(_no_derivative, "None or 0", (1, "text"))]


@python_function
def sph_harm_y(
    n: Whole,
    m: Whole,
    theta: Angle,
    phi: Angle,
    diff_n: NoDerivative = None,
    n_max: Degree | None = None,
) -> Array:
    """Spherical harmonics of degree n and order m at polar angle theta and azimuth phi.

    n, m: integers, which broadcast with the real angles; the result is complex (DLMF 14.30.1). NaN
    for n < 0, 0 for |m| > n. theta: radians from the north pole; phi: radians. n_max: the largest
    degree, needed where n is traced; a degree above it gives NaN.
    Raises NotImplementedError where `diff_n` is neither None nor 0: weft's own transformations
    differentiate.

    >>> sph_harm_y(0, 0, 0.5, 0.25)
    Array(0.2820948+0.j, dtype=complex64)
    """
    check_ranks("sph_harm_y", [theta.shape, phi.shape])
    broadcast_shape(*[type_of(x).shape for x in (n, m, theta, phi)])
    if n_max is None:
        if isinstance(n, Tracer):
            raise WeftTypeError(
                "the largest degree has to be known while n is traced",
                got="a traced n and no n_max",
                wanted="n_max, an integer",
                fix=Fix("argument", "pass the largest degree there can be, such as n_max=10"),
            )
        n_max = max(int(np.max(np.asarray(n), initial=0)), 0)
    n, m = (convert(x, dtypes.int32) for x in (n, m))
    return _harmonic(n, m, theta, phi, highest=n_max, dtype=theta.dtype)
