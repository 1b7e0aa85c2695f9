"""Activation functions, elementwise.

At a kink each has the one-sided derivative that networks expect: that of `relu` is 0 at 0. NaN
stays NaN. Integers become real numbers where the function needs it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ParamSpec, cast

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.errors.argument_errors import refusal
from weft.kinds.arguments import Flag, OneAxis, Operand, operand_kind
from weft.kinds.array_function import ArrayFunction, array_function
from weft.kinds.checks import broadcast_shape, broadcasted, check_arrays, inexact, promote_values
from weft.kinds.kind import Arguments
from weft.kinds.numbers import number_for
from weft.numpy.choosing import where
from weft.numpy.elementary import logaddexp, tanh
from weft.numpy.elementwise import constant, constant_like, same
from weft.numpy.promotion import Unary, unary
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import elementary, special
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.rectified import (
    gelu_p,
    hard_silu_p,
    mish_p,
    relu6_p,
    relu_p,
    silu_p,
    soft_sign_p,
    squareplus_p,
)
from weft.ops.elementwise.selection import select
from weft.ops.structural.joining import split
from weft.typing import ArrayLike

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid",
    "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip

FLOATING, INEXACT, REAL = dtypes.FLOATING, dtypes.INEXACT, dtypes.REAL

# Functions that call one are recognised by what it is called where: see `is_global_of_weft`.
_activation = partial(unary, module="weft.nn")


def _take_real(value: Any, call: Arguments) -> Any:
    # No array of integers holds a large number, and a real one does.
    value = float(value) if type(value) is int else operand_kind.take(value, call)
    of = type_of(value)
    if inexact(of.dtype) not in FLOATING or dtypes.is_extended(of.dtype):
        message = "takes real numbers"
        wanted = "an integer or floating-point dtype"
        fix = Fix("real", "apply it to the real and the imaginary part on their own", {})
        raise DTypeError(message, got=str(of), wanted=wanted, fix=fix)
    return value


def _take_parameter(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    if isinstance(value, (np.ndarray, np.generic)):
        return number_for(value, inexact(call.type.dtype))
    return float(value) if type(value) in (bool, int) else value


_wrong = (*operand_kind.wrong, np.complex64(1j))
_real_kind = dataclasses.replace(
    operand_kind, take=_take_real, means="real numbers", wrong=_wrong, arrays=False
)
Real = Annotated[ArrayLike, _real_kind]
# A number is part of the program.
Parameter = Annotated[Any, dataclasses.replace(operand_kind, take=_take_parameter, fixed=True)]

P = ParamSpec("P")


class _ActivationFunction(ArrayFunction):
    """An activation: integers become real numbers, and narrow floats are computed in float32."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__(formula)
        self.formula, self.body = self.body, self.apply_formula

    def apply_formula(self, x: Any, **rest: Any) -> Any:
        """Applies the formula to an operand of any dtype."""
        of = type_of(x)
        dtype = inexact(of.dtype)
        if of.dtype != dtype:
            x = convert_element_type(x, dtype, of.weak_type)
        out = self.formula(x=x, **rest)
        narrow = of.dtype in dtypes.NARROW_FLOATING and len(self.operand_names) == 1
        return convert_element_type(out, of.dtype) if narrow else out


def _activation_of(formula: Callable[P, Any]) -> Callable[P, Array]:
    """Makes an activation from a formula of real numbers."""
    return cast(Any, _ActivationFunction(formula))


@array_function
def _relu(x: Operand) -> Any:
    return lax.max(x, constant_like(0, x))


relu: Unary = _activation(
    "relu",
    {FLOATING: relu_p.bind, dtypes.INTEGER: _relu},
    """max(x, 0), with derivative 0 at 0.

    Nair and Hinton, "Rectified linear units improve restricted Boltzmann machines" (2010).

    >>> relu(np.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """,
)
relu6: Unary = _activation(
    "relu6",
    {FLOATING: relu6_p.bind},
    """min(max(x, 0), 6), with derivative 0 at both corners.

    >>> relu6(np.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float32)
    """,
    inexact=True,
)


@_activation_of
def leaky_relu(x: Real, negative_slope: Parameter = 0.01) -> Array:
    """x where it is not negative, `negative_slope * x` elsewhere.

    negative_slope: the slope where `x` is negative.

    >>> leaky_relu(np.array([-1.0, 2.0]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    return where(x >= 0, x, negative_slope * x)


def _negative_part(x: Any) -> Any:
    """min(x, 0), so that an exponential that is not selected for x > 0 does not overflow: its
    derivative would be NaN."""
    return select(x > 0, constant_like(0, x), x)


@_activation_of
def elu(x: Real, alpha: Parameter = 1.0) -> Array:
    """x where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    alpha: a number, the distance to which the function falls below 0.

    Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential
    linear units" (2015).

    >>> elu(np.array([-1000.0, 2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    curve = alpha * elementary.expm1(_negative_part(x))
    return where(x > 0, x, curve)


@_activation_of
def celu(x: Real, alpha: Parameter = 1.0) -> Array:
    """x where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere: smooth for every alpha.

    alpha: a positive number, the distance to which the function falls below 0.

    Barron, "Continuously differentiable exponential linear units" (2017).

    >>> celu(np.array([-1000.0, 2.0]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    curve = elementary.expm1(_negative_part(x) / alpha)
    return where(x > 0, x, alpha * curve)


@_activation_of
def selu(x: Real) -> Array:
    """The exponential linear unit that normalises itself.

    Klambauer, Unterthiner, Mayr and Hochreiter, "Self-normalizing neural networks" (2017).

    >>> selu(np.array([-1.0, 1.0]))
    Array([-1.1113307,  1.050701 ], dtype=float32)
    """
    # The constants for which activations keep mean 0 and variance 1 from layer to layer.
    return elu(x, 1.6732632423543772848170429916717) * 1.0507009873554804934193349852946


sigmoid: Unary = _activation(
    "sigmoid",
    {INEXACT: elementary.logistic_p.bind},
    """The logistic function 1 / (1 + exp(-x)).

    >>> sigmoid(np.array([0.0, 2.0]))
    Array([0.5     , 0.880797], dtype=float32)
    """,
    inexact=True,
)


def _at_least(x: Any, least: float) -> Any:
    """max(x, least), since 0 times a lower number may be NaN, or its square overflow.

    The function is 0 in every dtype from `least` down.
    """
    return select(x < least, constant_like(least, x), x)


@array_function
def _silu(x: Operand) -> Any:
    return x * elementary.logistic(x)


silu: Unary = _activation(
    "silu",
    {FLOATING: silu_p.bind, dtypes.COMPLEX: _silu},
    """x * sigmoid(x), also known as swish.

    Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units" (2017).

    >>> silu(np.array([-1.0, 1.0]))
    Array([-0.26894143,  0.7310586 ], dtype=float32)
    """,
    inexact=True,
)
swish: Unary = silu


@_activation_of
def softplus(x: Real) -> Array:
    """log(1 + exp(x)), without overflow.

    >>> softplus(np.array([-1.0, 0.0, 100.0]))
    Array([  0.3132617,   0.6931472, 100.       ], dtype=float32)
    """
    return logaddexp(x, constant(0, x))


@_activation_of
def log_sigmoid(x: Real) -> Array:
    """The logarithm of the logistic function, -softplus(-x).

    >>> log_sigmoid(np.array([-1.0, 0.0]))
    Array([-1.3132617, -0.6931472], dtype=float32)
    """
    return -logaddexp(-x, constant(0, x))


mish: Unary = _activation(
    "mish",
    {FLOATING: mish_p.bind},
    """x * tanh(softplus(x)).

    Misra, "Mish: a self regularized non-monotonic activation function" (2019).

    >>> mish(np.array([-1.0, 1.0]))
    Array([-0.30340147,  0.8650984 ], dtype=float32)
    """,
    inexact=True,
)


@_activation_of
def gelu(x: Real, approximate: Flag = True) -> Array:
    """x times the probability that a normal variable is less than x.

    approximate: by the formula with tanh; otherwise by the error function. Hendrycks and Gimpel,
    "Gaussian error linear units" (2016).

    >>> gelu(np.array([0.0, 1.0]), approximate=False)
    Array([0.        , 0.8413447], dtype=float32)
    """
    if approximate:
        return gelu_p.bind(x)
    above = _at_least(x, -100.0)
    tail = special.erfc(above * -math.sqrt(0.5))
    return 0.5 * above * tail


soft_sign: Unary = _activation(
    "soft_sign",
    {FLOATING: soft_sign_p.bind},
    """x / (1 + abs(x)).

    >>> soft_sign(np.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """,
    inexact=True,
)


@_activation_of
def squareplus(x: Real, b: Parameter = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2: a rectifier smooth for b > 0, and NaN for b < 0.

    Barron, "Squareplus: a softplus-like algebraic rectifier" (2021).

    >>> squareplus(np.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    x, b = promote_values("squareplus", x, constant(b, x) if type(b) is float else b)
    shape = broadcast_shape(type_of(x).shape, type_of(b).shape)
    b = broadcasted(b, shape) if type_of(b).shape else b
    return squareplus_p.bind(broadcasted(x, shape), b)


@array_function
def _hard_tanh(x: Operand) -> Any:
    return select(x > 1, constant_like(1, x), select(x < -1, constant_like(-1, x), x))


hard_tanh: Unary = _activation(
    "hard_tanh",
    {dtypes.SIGNED | FLOATING: _hard_tanh},
    """x held between -1 and 1; the derivative is 1 at both corners.

    >>> hard_tanh(np.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """,
)


@_activation_of
def hard_sigmoid(x: Real) -> Array:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6_p.bind(x + 3) / 6


hard_silu: Unary = _activation(
    "hard_silu",
    {FLOATING: hard_silu_p.bind},
    """x * hard_sigmoid(x).

    >>> hard_silu(np.array([-4.0, 1.0, 4.0]))
    Array([-0.       ,  0.6666667,  4.       ], dtype=float32)
    """,
    inexact=True,
)
hard_swish: Unary = hard_silu


@_activation_of
def sparse_plus(x: Real) -> Array:
    """0 up to -1, (x + 1)**2 / 4 up to 1, x above: a softplus that is exactly 0 and exactly x.

    >>> sparse_plus(np.array([-2.0, 0.0, 3.0]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    # Beyond the curve its derivative would be infinite, and 0 times that NaN: there it is 0.
    inside = select(lax.abs(x) >= 1, constant_like(-1, x), x)
    curve = 0.25 * lax.square(inside + 1)
    return select(x >= 1, x, curve)


@_activation_of
def sparse_sigmoid(x: Real) -> Array:
    """(x + 1) / 2 held between 0 and 1: the derivative of `sparse_plus`.

    >>> sparse_sigmoid(np.array([-2.0, 0.0, 0.5]))
    Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    return lax.max(constant(0, x), lax.min(constant(1, x), 0.5 * (x + 1)))


@_activation_of
def log1mexp(x: Real) -> Array:
    """log(1 - exp(-x)) for positive x, exact for small and for large ones.

    Maechler, "Accurately computing log(1 - exp(-|a|))" (2012).

    >>> log1mexp(np.array([0.5, 2.0]))
    Array([-0.93275213, -0.14541346], dtype=float32)
    """
    near = x < math.log(2)
    # Each formula gets a harmless argument where the other one is selected.
    close = lax.log(-elementary.expm1(-select(near, x, constant_like(1, x))))
    far = elementary.log1p(-lax.exp(-select(near, constant_like(1, x), x)))
    return select(near, close, far)


identity: Unary = _activation(
    "identity",
    {dtypes.ANY: same},
    """The values themselves.

    >>> identity(np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """,
)


@_activation_of
def glu(x: Real, axis: OneAxis = -1) -> Array:
    """The first half along an axis times the logistic function of the second half.

    Dauphin, Fan, Auli and Grangier, "Language modeling with gated convolutional networks" (2017).
    Raises ShapeError if the length is odd.

    >>> glu(np.array([1.0, 0.0]))
    Array([0.5], dtype=float32)
    """
    length = x.shape[axis]
    if length % 2:
        got = f"{type_of(x)}, axis {axis} of length {length}"
        raise refusal(ShapeError, "glu halves an axis of even length", "glu", got, "an even length")
    # Both at once: the derivative is one concatenation, where XLA would add two padded arrays.
    values, gate = split(x, (length // 2, length // 2), axis)
    return values * elementary.logistic(gate)
