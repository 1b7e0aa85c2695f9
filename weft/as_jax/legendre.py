"""`jax.scipy.special.lpmn` and `lpmn_values`, which JAX is to drop: Legendre functions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from weft import numpy as jnp
from weft.api.autodiff import jvp
from weft.core.types import type_of, user_value
from weft.errors import DTypeError, ShapeError, WeftNotImplementedError
from weft.errors.argument_errors import refusal

__all__ = ["lpmn", "lpmn_values"]


def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """The associated Legendre functions of orders and degrees up to m = n at the points z, and
    their derivatives, both of shape (m + 1, n + 1, len(z)). Raises DTypeError unless z is of
    float32 or float64, ShapeError unless it has one dimension, and WeftNotImplementedError if m is
    not n."""
    z = _check("lpmn", m, n, z)
    values: tuple[Any, Any] = jvp(functools.partial(_table, n, False), (z,), (jnp.ones_like(z),))
    return values


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """The first result of `lpmn`; with `is_normalized` those that are factors of orthonormal
    spherical harmonics. Raises what `lpmn` raises."""
    return _table(n, is_normalized, _check("lpmn_values", m, n, z))


def _check(operation: str, m: int, n: int, z: Any) -> Any:
    z = user_value(z)
    type = type_of(z)
    if type.dtype not in (np.float32, np.float64):
        message = f"{operation} takes points of float32 or float64"
        raise refusal(DTypeError, message, operation, f"z of type {type}", "a floating-point array")
    if type.ndim != 1:
        message = f"{operation} takes a vector of points"
        raise refusal(ShapeError, message, operation, f"z of type {type}", "one dimension")
    if m != n:
        message = f"{operation} makes tables of as many orders as degrees"
        raise refusal(WeftNotImplementedError, message, operation, f"m={m}, n={n}", "m = n")
    return z


def _table(n: int, normalized: bool, z: Any) -> Any:
    """The functions by order and degree: the diagonal is a power, the rest a recurrence in degrees.
    See Abramowitz and Stegun, Handbook of Mathematical Functions, 8.5.3."""
    orders = np.arange(n + 1)
    below = jnp.zeros((n + 1, len(z)), z.dtype)
    rows = [below, below]
    for degree in range(n + 1):
        first, second = (_orthonormal if normalized else _plain)(degree, orders)
        row = first[:, None].astype(z.dtype) * z * rows[-1]
        row = row - second[:, None].astype(z.dtype) * rows[-2]
        diagonal = _factor(degree, normalized) * (1 - z * z) ** (degree / 2)
        rows.append(jnp.where((orders == degree)[:, None], diagonal, row))
    return jnp.stack(rows[2:], 1)


def _plain(degree: int, orders: Any) -> tuple[Any, Any]:
    """The factors of the last two degrees, by order; zero where the order is not below."""
    less = np.where(orders < degree, degree - orders, 1)
    there = orders < degree
    return there * (2 * degree - 1) / less, there * (degree + orders - 1) / less


def _orthonormal(degree: int, orders: Any) -> tuple[Any, Any]:
    """As `_plain`, for functions with a norm."""
    there = orders < degree
    apart = np.where(there, degree**2 - orders**2, 1)
    scale = there * np.sqrt(abs(4 * degree**2 - 1) / apart)
    last = np.maximum((degree - 1) ** 2 - orders**2, 0) / max(4 * (degree - 1) ** 2 - 1, 1)
    return scale, scale * np.sqrt(last)


def _factor(order: int, normalized: bool) -> float:
    """The function of one order and degree, divided by a power of 1 - z**2."""
    product = math.prod(range(1, 2 * order, 2))
    sign = -1.0 if order % 2 else 1.0
    if not normalized:
        return sign * product
    return sign * product * math.sqrt((2 * order + 1) / (4 * math.pi * math.factorial(2 * order)))
