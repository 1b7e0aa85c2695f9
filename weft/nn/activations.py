"""Activation functions, elementwise.

At a kink each has the one-sided derivative that networks expect: that of `relu` is 0 at 0. NaN
stays NaN. Integers become real numbers where the function needs it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.kinds.checks import axis_of, broadcast_shape, broadcasted, check_flag, inexact, promoted
from weft.kinds.compiled_functions import CompiledFunction, compiled
from weft.kinds.numbers import as_operand
from weft.numpy.choosing import where
from weft.numpy.elementary import logaddexp, tanh
from weft.numpy.elementwise import constant, filled, multiply, same, true_divide
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


def _real(function: CompiledFunction, doc: str) -> Unary:
    """Makes an activation of real numbers, named after the function; integers become real first."""
    return _activation(function.function.__name__[1:], {FLOATING: function}, doc, inexact=True)


def _operand(operation: str, x: Any) -> Any:
    """Converts the operand to real numbers."""
    x = as_operand(operation, x)
    of = type_of(x)
    dtype = inexact(of.dtype)
    if dtype not in FLOATING:
        message = f"{operation} takes real numbers"
        wanted = "an integer or floating-point dtype"
        fix = Fix("real", "apply it to the real and the imaginary part on their own", {})
        raise refusal(DTypeError, message, operation, str(of), wanted, fix)
    return x if of.dtype == dtype else convert_element_type(x, dtype, of.weak_type)


def _with_parameter(function: CompiledFunction, x: Any, parameter: Any) -> Any:
    """Applies a function whose parameter is a number, static in its jaxpr, or an array."""
    if type(parameter) in (int, float):
        return function(x, parameter=float(parameter))
    return function.function(x, parameter=parameter)


@compiled
def _relu(x: Any) -> Any:
    return lax.max(x, filled(0, x))


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


@compiled
def _leaky_relu(x: Any, *, parameter: Any) -> Any:
    return where(lax.ge(x, constant(0, x)), x, multiply(parameter, x))


def leaky_relu(x: ArrayLike, negative_slope: Any = 0.01) -> Array:
    """x where it is not negative, `negative_slope * x` elsewhere.

    negative_slope: the slope where `x` is negative.

    >>> leaky_relu(np.array([-1.0, 2.0]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    return _with_parameter(_leaky_relu, _operand("leaky_relu", x), negative_slope)


def _negative_part(x: Any) -> Any:
    """x where it is negative, 0 elsewhere: the argument of an exponential that is not selected for
    positive x, where its overflow would make the derivative NaN.
    """
    return select(lax.gt(x, constant(0, x)), filled(0, x), x)


@compiled
def _elu(x: Any, *, parameter: Any) -> Any:
    curve = multiply(parameter, elementary.expm1(_negative_part(x)))
    return where(lax.gt(x, constant(0, x)), x, curve)


def elu(x: ArrayLike, alpha: Any = 1.0) -> Array:
    """x where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    alpha: a number, the distance to which the function falls below 0.

    Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential
    linear units" (2015).

    >>> elu(np.array([-1000.0, 2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    return _with_parameter(_elu, _operand("elu", x), alpha)


@compiled
def _celu(x: Any, *, parameter: Any) -> Any:
    curve = elementary.expm1(true_divide(_negative_part(x), parameter))
    return where(lax.gt(x, constant(0, x)), x, multiply(parameter, curve))


def celu(x: ArrayLike, alpha: Any = 1.0) -> Array:
    """x where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere: smooth for every alpha.

    alpha: a positive number, the distance to which the function falls below 0.

    Barron, "Continuously differentiable exponential linear units" (2017).

    >>> celu(np.array([-1000.0, 2.0]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    return _with_parameter(_celu, _operand("celu", x), alpha)


@compiled
def _selu(x: Any) -> Any:
    # The constants for which activations keep mean 0 and variance 1 from layer to layer.
    scaled = _elu.function(x, parameter=1.6732632423543772848170429916717)
    return lax.mul(scaled, constant(1.0507009873554804934193349852946, x))


selu: Unary = _real(
    _selu,
    """The exponential linear unit that normalises itself.

    Klambauer, Unterthiner, Mayr and Hochreiter, "Self-normalizing neural networks" (2017).

    >>> selu(np.array([-1.0, 1.0]))
    Array([-1.1113307,  1.050701 ], dtype=float32)
    """,
)


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
    """x, but not below `least`: 0 times a lower number may be NaN, or its square overflow.

    `least` is so low that the function is 0 there, in every dtype.
    """
    return select(lax.lt(x, constant(least, x)), filled(least, x), x)


@compiled
def _silu(x: Any) -> Any:
    return lax.mul(x, elementary.logistic(x))


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


@compiled
def _softplus(x: Any) -> Any:
    return logaddexp(x, constant(0, x))


@compiled
def _log_sigmoid(x: Any) -> Any:
    return lax.neg(logaddexp(lax.neg(x), constant(0, x)))


softplus: Unary = _real(
    _softplus,
    """log(1 + exp(x)), without overflow.

    >>> softplus(np.array([-1.0, 0.0, 100.0]))
    Array([  0.3132617,   0.6931472, 100.       ], dtype=float32)
    """,
)
log_sigmoid: Unary = _real(
    _log_sigmoid,
    """The logarithm of the logistic function, -softplus(-x).

    >>> log_sigmoid(np.array([-1.0, 0.0]))
    Array([-1.3132617, -0.6931472], dtype=float32)
    """,
)
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


@compiled
def _gelu(x: Any, *, approximate: bool) -> Any:
    if approximate:
        return gelu_p.bind(x)
    half = constant(0.5, x)
    x = _at_least(x, -100.0)
    tail = special.erfc(lax.mul(x, constant(-math.sqrt(0.5), x)))
    return lax.mul(lax.mul(half, x), tail)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the probability that a normal variable is less than x.

    approximate: by the formula with tanh; otherwise by the error function. Hendrycks and Gimpel,
    "Gaussian error linear units" (2016).

    >>> gelu(np.array([0.0, 1.0]), approximate=False)
    Array([0.        , 0.8413447], dtype=float32)
    """
    check_flag(approximate, "gelu", "approximate")
    return _gelu(_operand("gelu", x), approximate=bool(approximate))


soft_sign: Unary = _activation(
    "soft_sign",
    {FLOATING: soft_sign_p.bind},
    """x / (1 + abs(x)).

    >>> soft_sign(np.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """,
    inexact=True,
)


@compiled
def _squareplus(x: Any, *, parameter: Any) -> Any:
    number = constant(parameter, x) if type(parameter) is float else parameter
    x, b = promoted("squareplus", x, number)
    shape = broadcast_shape("squareplus", type_of(x).shape, type_of(b).shape)
    return squareplus_p.bind(
        broadcasted(x, shape), broadcasted(b, shape) if type_of(b).shape else b
    )


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2: a rectifier smooth for b > 0, and NaN for b < 0.

    Barron, "Squareplus: a softplus-like algebraic rectifier" (2021).

    >>> squareplus(np.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    return _with_parameter(_squareplus, _operand("squareplus", x), b)


@compiled
def _hard_tanh(x: Any) -> Any:
    low, high = constant(-1, x), constant(1, x)
    return select(lax.gt(x, high), filled(1, x), select(lax.lt(x, low), filled(-1, x), x))


@compiled
def _hard_sigmoid(x: Any) -> Any:
    return lax.div(relu6_p.bind(lax.add(x, constant(3, x))), constant(6, x))


@compiled
def _sparse_plus(x: Any) -> Any:
    one = constant(1, x)
    # Beyond the curve its derivative would be infinite, and 0 times that NaN: there it is 0.
    bent = select(lax.ge(lax.abs(x), one), filled(-1, x), x)
    curve = lax.mul(constant(0.25, x), lax.square(lax.add(bent, one)))
    return select(lax.ge(x, one), x, curve)


@compiled
def _sparse_sigmoid(x: Any) -> Any:
    rise = lax.mul(constant(0.5, x), lax.add(x, constant(1, x)))
    return lax.max(constant(0, x), lax.min(constant(1, x), rise))


hard_tanh: Unary = _activation(
    "hard_tanh",
    {dtypes.SIGNED | FLOATING: _hard_tanh},
    """x held between -1 and 1; the derivative is 1 at both corners.

    >>> hard_tanh(np.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """,
)
hard_sigmoid: Unary = _real(
    _hard_sigmoid,
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """,
)
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
sparse_plus: Unary = _real(
    _sparse_plus,
    """0 up to -1, (x + 1)**2 / 4 up to 1, x above: a softplus that is exactly 0 and exactly x.

    >>> sparse_plus(np.array([-2.0, 0.0, 3.0]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """,
)
sparse_sigmoid: Unary = _real(
    _sparse_sigmoid,
    """(x + 1) / 2 held between 0 and 1: the derivative of `sparse_plus`.

    >>> sparse_sigmoid(np.array([-2.0, 0.0, 0.5]))
    Array([0.  , 0.5 , 0.75], dtype=float32)
    """,
)


@compiled
def _log1mexp(x: Any) -> Any:
    near = lax.lt(x, constant(math.log(2), x))
    # Each formula gets a harmless argument where the other one is selected.
    close = lax.log(lax.neg(elementary.expm1(lax.neg(select(near, x, filled(1, x))))))
    far = elementary.log1p(lax.neg(lax.exp(lax.neg(select(near, filled(1, x), x)))))
    return select(near, close, far)


log1mexp: Unary = _real(
    _log1mexp,
    """log(1 - exp(-x)) for positive x, exact for small and for large ones.

    Maechler, "Accurately computing log(1 - exp(-|a|))" (2012).

    >>> log1mexp(np.array([0.5, 2.0]))
    Array([-0.93275213, -0.14541346], dtype=float32)
    """,
)
identity: Unary = _activation(
    "identity",
    {dtypes.ANY: same},
    """The values themselves.

    >>> identity(np.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """,
)


@compiled
def _glu(x: Any, *, axis: int) -> Any:
    half = type_of(x).shape[axis] // 2
    # Both at once: the derivative is one concatenation, where XLA would add two padded arrays.
    values, gate = split(x, (half, half), axis)
    return lax.mul(values, elementary.logistic(gate))


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis times the logistic function of the second half.

    Dauphin, Fan, Auli and Grangier, "Language modeling with gated convolutional networks" (2017).
    Raises ShapeError if the length is odd.

    >>> glu(np.array([1.0, 0.0]))
    Array([0.5], dtype=float32)
    """
    x = _operand("glu", x)
    of = type_of(x)
    axis = axis_of(axis, of.ndim, "glu")
    if of.shape[axis] % 2:
        got = f"{of}, axis {axis} of length {of.shape[axis]}"
        raise refusal(ShapeError, "glu halves an axis of even length", "glu", got, "an even length")
    return _glu(x, axis=axis)
