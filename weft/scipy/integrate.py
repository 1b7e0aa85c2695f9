"""`weft.scipy.integrate`: integrals of sampled functions."""

from __future__ import annotations

from typing import Any

from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.errors.argument_errors import wrong_shape
from weft.kinds.checks import axis_of, broadcast_shape, check_dimensions
from weft.numpy.differences import trapezoid as numpy_trapezoid

__all__ = ["trapezoid"]

__dir__ = public_names(globals())


@api_boundary("integrate.trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral of y along an axis by the trapezoidal rule: straight lines between samples.

    x: where the samples are, (n,) or of a shape that broadcasts with that of y; without it they are
    dx apart. The result is floating or complex, without the axis. Raises ShapeError if x does
    not fit, AxisError, DTypeError and WeftTypeError.

    dx: the distance between samples, where there is no x.

    >>> import weft.numpy as jnp
    >>> trapezoid(jnp.array([0.0, 1.0, 4.0]))
    Array(3., dtype=float32)
    """
    name = "integrate.trapezoid"
    check_dimensions("y", y, 1)
    of = type_of(y)
    place = axis_of(axis, of.ndim, name)
    check_dimensions("dx", dx, 0)
    if x is not None:
        check_dimensions("x", x, 1)
        x_type = type_of(x)
        if x_type.ndim == 1 and x_type.shape[0] != of.shape[place]:
            got = f"y: {of}, x: {x_type}, axis={axis}"
            raise wrong_shape(got, f"an x of {of.shape[place]} elements")
        if x_type.ndim > 1:
            broadcast_shape(of.shape, x_type.shape)
    return numpy_trapezoid(y, x, dx, axis)
