"""Numbers with a bound of how far a program may be from them: values in wider precision, for each
element the largest error that rounding allows, and the rules of elementwise operations.

A bound is the sum of what the operands' errors make of the exact function and of the rounding of
the result (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3). Where nothing was
rounded it is 0, and the program has to give these bits. An element whose value depends on rounding
without a bound, such as a comparison of two numbers that rounding may exchange, is not known: its
bound is infinite. Of a NaN or an infinity with a finite bound, the program has to give the same.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "BOOL", "UNKNOWN", "Bounded", "bounded", "elementwise", "exact", "is_float", "limits",
    "rounded", "unknown_where", "wide",
]  # fmt: skip

Array = np.ndarray[Any, Any]
BOOL = np.dtype(bool)
UNKNOWN = np.inf


@dataclasses.dataclass(frozen=True)
class Limits:
    """What rounding in a dtype depends on: half the distance of 1 and the next number, the least
    normal number, the largest, and how many bits a significand has."""

    unit: float
    tiny: float
    most: Any
    bits: int


@functools.cache
def limits(dtype: Any) -> Limits:
    info = ml_dtypes.finfo(_real(dtype))
    most = np.longdouble(info.max)
    return Limits(float(info.eps) / 2, float(info.smallest_normal), most, int(info.nmant) + 1)


@functools.cache
def _real(dtype: Any) -> Any:
    return np.empty(0, dtype).real.dtype if np.dtype(dtype).kind == "c" else np.dtype(dtype)


@functools.cache
def is_float(dtype: Any) -> bool:
    """Whether numbers of a dtype are rounded."""
    return np.dtype(dtype).kind in "fcV" and np.dtype(dtype) != BOOL


@functools.cache
def wide(dtype: Any) -> Any:
    """The dtype in which the values of a dtype are computed."""
    if not is_float(dtype):
        return np.dtype(dtype)
    double = np.dtype(_real(dtype)).itemsize == 8
    if np.dtype(dtype).kind == "c":
        return np.dtype(np.clongdouble if double else np.complex128)
    return np.dtype(np.longdouble if double else np.float64)


@dataclasses.dataclass(frozen=True)
class Bounded:
    """An array: values in the wide dtype, a bound for each, and the dtype that the program has.

    signed: whether also the signs of zeros are known, which they are as long as elements are only
    moved.
    """

    value: Array
    error: Array
    dtype: Any
    signed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def known(self) -> Array:
        """Which elements have a bound."""
        return np.isfinite(self.error)

    @property
    def nan(self) -> Array:
        """Which elements are NaN, whatever was rounded."""
        return (
            np.isnan(self.value) & self.known
            if is_float(self.dtype)
            else np.zeros(self.shape, bool)
        )

    def moved(self, function: Callable[[Array], Any]) -> Bounded:
        """The elements in other places."""
        value, error = np.asarray(function(self.value)), np.asarray(function(self.error))
        return Bounded(value, error, self.dtype, self.signed)

    def as_operand(self) -> Bounded:
        """The number as arithmetic may take it: subnormal numbers count as 0 on some machines."""
        if not is_float(self.dtype):
            return self
        size = abs(self.value)
        small = (size < limits(self.dtype).tiny) & (size > 0)
        if not small.any():
            return self
        return dataclasses.replace(
            self, error=np.where(small, self.error + size.astype(float), self.error)
        )

    def nearest(self) -> Array:
        """The value in the dtype of the program."""
        with np.errstate(all="ignore"):
            return np.asarray(self.value).astype(self.dtype)


def exact(value: Any, dtype: Any) -> Bounded:
    """Numbers that the program has as they are."""
    value = np.asarray(value, dtype)
    return Bounded(value.astype(wide(dtype)), np.zeros(value.shape), np.dtype(dtype), True)


def bounded(value: Any, error: Any, dtype: Any) -> Bounded:
    """Values with bounds; a bound that is not a number is none."""
    value = np.asarray(value, wide(dtype))
    error = np.broadcast_to(np.asarray(error, np.float64), value.shape)
    return Bounded(value, np.where(np.isnan(error), UNKNOWN, error), np.dtype(dtype))


def unknown_where(mask: Any, value: Any, dtype: Any) -> Bounded:
    """Numbers that are exact but where the mask says that they are not known."""
    return bounded(value, np.where(mask, UNKNOWN, 0.0), dtype)


def rounded(
    value: Any,
    spread: Any,
    dtype: Any,
    units: float = 1.0,
    exactly: Any = None,
    product: bool = False,
) -> Bounded:
    """The result of an operation whose exact result is `value` and which operands' errors move by
    `spread`: the program rounds it by as many units, or not at all.

    exactly: where the operation gives the nearest number, whatever its result; by default where it
    is a number of the dtype and operands are exact, if `units` is 1. product: whether it may become
    a part of a fused multiply-add, which does not round it to infinity.
    """
    value, spread = np.asarray(value), np.asarray(spread, np.float64)
    bound = limits(dtype)
    size = abs(value).astype(np.float64)
    finite = np.isfinite(value)
    if exactly is None and units == 1.0:
        exactly = (value.astype(dtype).astype(value.dtype) == value) & (spread == 0)
    # Results below the least normal number may be flushed to 0.
    error = spread + 1.001 * units * bound.unit * (size + spread) + (units + 1) * bound.tiny
    most = float(bound.most)
    overflow = finite & (size * (1 + 2 * bound.unit) + error >= most)
    beyond = finite & (size - spread > most * (1 + 8 * units * bound.unit)) & (bound.tiny < 1e-6)
    beyond &= np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize > 2 and not product
    error = np.where(overflow, UNKNOWN, error)
    error = np.where(~finite & (spread == 0), 0.0, error)
    if exactly is not None:
        exactly = exactly & ((size >= bound.tiny) | (size == 0))
        error = np.where(exactly & finite & ~overflow, 0.0, error)
    if beyond.any():
        value = np.where(beyond, np.copysign(np.inf, value), value)
        error = np.where(beyond, 0.0, error)
    return bounded(value, error, dtype)


# ---- how functions spread errors --------------------------------------------------------------


def increasing(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """The spread of a function that rises or falls wherever it is defined."""

    def spread(out: Array, x: Bounded) -> Any:
        if not x.error.any():
            return 0.0
        low, high = function(x.value - x.error), function(x.value + x.error)
        found = np.maximum(abs(high - out), abs(out - low))
        return np.where(x.error == 0, 0.0, np.where((low == out) & (high == out), 0.0, found))

    return spread


def even(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """The spread of a function of the absolute value that rises with it."""

    def spread(out: Array, x: Bounded) -> Any:
        if not x.error.any():
            return 0.0
        size = abs(x.value)
        low = function(np.maximum(size - x.error, 0))
        found = np.maximum(abs(function(size + x.error) - out), abs(out - low))
        return np.where(x.error == 0, 0.0, found)

    return spread


def steady(slope: float) -> Callable[..., Array]:
    """The spread of a function whose derivative is at most so large."""
    return lambda out, x: slope * x.error


def _times(a: Any, b: Any) -> Any:
    """Products of sizes and errors, where 0 is 0 times anything."""
    with np.errstate(all="ignore"):
        return np.where((np.asarray(a) == 0) | (np.asarray(b) == 0), 0.0, np.multiply(a, b))


def _sum_spread(out: Array, a: Bounded, b: Bounded) -> Any:
    return np.where(np.isinf(a.value) | np.isinf(b.value), 0.0, a.error + b.error) + np.where(
        a.known & b.known, 0.0, UNKNOWN
    )


def _sure(x: Bounded) -> Array:
    """Where errors change neither the sign nor whether a number is 0."""
    return (x.error == 0) | (abs(x.value) > x.error)


def _product_spread(out: Array, a: Bounded, b: Bounded) -> Any:
    sizes = abs(a.value).astype(float), abs(b.value).astype(float)
    found = _times(sizes[0], b.error) + _times(sizes[1], a.error) + _times(a.error, b.error)
    infinite = np.isinf(a.value) | np.isinf(b.value)
    known = a.known & b.known
    return np.where(infinite & known & _sure(a) & _sure(b), 0.0, found)


def _quotient_spread(out: Array, a: Bounded, b: Bounded) -> Any:
    size, known = abs(b.value).astype(float), a.known & b.known & _sure(b)
    # The sign of a zero that was computed is not known, nor is that of what it divides.
    known &= (b.value != 0) | b.signed | (a.value == 0)
    apart = size - b.error
    found = (a.error + _times(abs(out).astype(float), b.error)) / np.where(apart > 0, apart, 1.0)
    found = np.where((np.isinf(a.value) | (b.value == 0)) & _sure(a), 0.0, found)
    found = np.where(np.isinf(b.value) & np.isfinite(a.value), 0.0, found)
    return np.where(known, found, UNKNOWN)


def _rem_spread(out: Array, a: Bounded, b: Bounded) -> Any:
    inexact = (a.error > 0) | (b.error > 0)
    # With a quotient of 2**20 or more the remainder is not what rounding leaves of it.
    far = abs(a.value) > abs(b.value) * 2.0**20
    return np.where(inexact | (far & np.isfinite(a.value) & np.isfinite(b.value)), UNKNOWN, 0.0)


def _power_spread(out: Array, a: Bounded, b: Bounded) -> Any:
    inexact = (a.error > 0) | (b.error > 0)
    with np.errstate(all="ignore"):
        units = limits(a.dtype).unit * abs(b.value * np.log(abs(a.value))) * abs(out)
        corners = [
            abs((a.value + i * a.error) ** (b.value + j * b.error) - out)
            for i in (-1, 1)
            for j in (-1, 1)
        ]
    found = functools.reduce(np.maximum, corners)
    found = np.where(a.value - a.error > 0, found, UNKNOWN)
    usual = (a.value > 0) & np.isfinite(a.value) & np.isfinite(b.value)
    return np.where(usual, np.where(inexact, found, 0.0) + units, np.where(inexact, UNKNOWN, 0.0))


# ---- the table ---------------------------------------------------------------------------------


def _logistic(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x)))


def _inverse_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _inverse_root_spread(out: Array, x: Bounded) -> Any:
    # The sign of a zero that was computed is not known.
    return np.where((x.value != 0) | x.signed, increasing(_inverse_root)(out, x), UNKNOWN)


# A function, how it spreads errors, and by how many units its result may be rounded. Those of the
# elementary functions are what the compiler's own tests allow.
_UNARY: dict[str, tuple[Callable[[Array], Array], Callable[..., Any], float]] = {
    "exp": (np.exp, increasing(np.exp), 16),
    "exp2": (np.exp2, increasing(np.exp2), 16),
    "expm1": (np.expm1, increasing(np.expm1), 16),
    "log": (np.log, increasing(np.log), 16),
    "flat_log": (np.log, increasing(np.log), 16),
    "log1p": (np.log1p, increasing(np.log1p), 16),
    "log2": (np.log2, increasing(np.log2), 16),
    "log10": (np.log10, increasing(np.log10), 16),
    "sin": (np.sin, steady(1), 16),
    "cos": (np.cos, steady(1), 16),
    "tanh": (np.tanh, increasing(np.tanh), 16),
    "atan": (np.arctan, increasing(np.arctan), 16),
    "sinh": (np.sinh, increasing(np.sinh), 32),
    "cosh": (np.cosh, even(np.cosh), 32),
    "asinh": (np.arcsinh, increasing(np.arcsinh), 32),
    "logistic": (_logistic, increasing(_logistic), 16),
    "sqrt": (np.sqrt, increasing(np.sqrt), 4),
    "flat_sqrt": (np.sqrt, increasing(np.sqrt), 4),
    "cbrt": (np.cbrt, increasing(np.cbrt), 16),
    "rsqrt": (_inverse_root, _inverse_root_spread, 16),
    "square": (np.square, even(np.square), 1),
}
_BINARY: dict[str, tuple[Callable[..., Array], Callable[..., Any], float]] = {
    "add": (np.add, _sum_spread, 1),
    "add_any": (np.add, _sum_spread, 1),
    "add_tangents": (np.add, _sum_spread, 1),
    "sub": (np.subtract, _sum_spread, 1),
    "mul": (np.multiply, _product_spread, 1),
    "div": (np.divide, _quotient_spread, 2),
    "rem": (np.fmod, _rem_spread, 1),
    "pow": (np.power, _power_spread, 64),
}
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_STEPS = {"floor": np.floor, "ceil": np.ceil, "sign": np.sign}
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_NAN_MAY_VANISH = {"pow"}


def elementwise(name: str, operands: Sequence[Bounded], params: dict[str, Any], dtype: Any) -> Any:
    """The result of an elementwise operation, or None if there is no rule for it."""
    rule = _RULES.get(name)
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        operands = [
            x if x.shape == shape else x.moved(lambda a: np.broadcast_to(a, shape))
            for x in operands
        ]
        return rule(name, operands, params, np.dtype(dtype))


def _inexact(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    if not is_float(dtype):
        return _integers(name, operands, dtype)
    operands = [x.as_operand() for x in operands]
    function, spread, units = (_UNARY | _BINARY)[name]
    out = function(*(x.value for x in operands))
    if np.dtype(dtype).kind == "c":
        return _complex(name, operands, out, dtype)
    exactly = None
    if name == "div":
        # The compiler multiplies by reciprocals where many numbers have one divisor.
        exactly = (np.frexp(operands[1].value)[0] == 0.5) & (operands[0].error == 0)
        exactly = (exactly & (operands[1].error == 0)) | (out == 0) & (operands[0].error == 0)
    product = name in ("mul", "square")
    found = rounded(out, spread(out, *operands), dtype, units, exactly, product)
    zero = np.zeros(found.shape, bool)
    nan = (
        zero
        if name in _NAN_MAY_VANISH
        else functools.reduce(operator.or_, (x.nan for x in operands))
    )
    lost = functools.reduce(operator.or_, (~x.known for x in operands))
    return bounded(found.value, np.where(nan, 0.0, np.where(lost, UNKNOWN, found.error)), dtype)


def _complex(name: str, operands: list[Bounded], out: Array, dtype: Any) -> Bounded:
    """Sums, products and quotients of complex numbers, as long as all of it is finite."""
    sizes = [abs(x.value).astype(float) for x in operands]
    if name in ("mul", "div", "add", "sub", "add_any", "add_tangents"):
        spread = _BINARY[name][1](
            abs(out), *(dataclasses.replace(x, value=abs(x.value)) for x in operands)
        )
        size = sum(sizes) if name[:3] in ("add", "sub") else abs(out)
        units = 16.0
    else:
        spread, size, units = np.full(out.shape, UNKNOWN), abs(out), 1.0
    bound = limits(dtype)
    large = np.sqrt(float(bound.most)) / 16
    small = np.sqrt(bound.tiny) * 16
    plain = np.isfinite(out)
    for s in sizes:
        plain &= (s < large) & ((s > small) | (s == 0))
    if name == "div":
        plain &= sizes[1] > 0
    error = spread + units * bound.unit * (size + spread) + 8 * bound.tiny
    return bounded(out, np.where(plain, error, UNKNOWN), dtype)


def _integers(name: str, operands: list[Bounded], dtype: Any) -> Bounded:
    """Integers wrap around; what is divided by 0 is not known."""
    function = (_UNARY | _BINARY)[name][0]
    lost = functools.reduce(operator.or_, (~x.known for x in operands))
    values = [x.value for x in operands]
    if name in ("div", "rem", "pow"):
        lost = lost | (values[1] == 0) | (values[1] == -1) | (values[1] < 0) & (name == "pow")
        safe = np.where(lost, np.ones_like(values[1]), values[1])
        out = values[0] ** safe if name == "pow" else np.fmod(values[0], safe)
        if name == "div":
            out = (values[0] - out) // safe
    elif dtype == BOOL:
        out = {"add": np.logical_or, "mul": np.logical_and}.get(name, np.logical_xor)(*values)
    else:
        out = function(*values)
    return unknown_where(lost, out.astype(dtype), dtype)


def _comparison(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    a, b = (x.as_operand() for x in operands)
    out = _COMPARISONS[name](a.value, b.value)
    if not is_float(a.dtype):
        return unknown_where(~(a.known & b.known), out, bool)
    slack = a.error + b.error
    sure = (slack == 0) | np.isinf(a.value) | np.isinf(b.value) | (abs(a.value - b.value) > slack)
    sure = (sure & a.known & b.known) | a.nan | b.nan
    return unknown_where(~sure, out, bool)


def _step(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    (x,) = operands
    if not is_float(dtype):
        return unknown_where(~x.known, np.sign(x.value) if name == "sign" else x.value, dtype)
    x, function = x.as_operand(), _STEPS[name]
    out, low, high = (function(x.value + s * x.error) for s in (0, -1, 1))
    error = np.where(
        (low == high) | np.isnan(x.value) | (x.error == 0), 0.0, np.maximum(high - out, out - low)
    )
    return bounded(out, np.where(x.known, error, UNKNOWN), dtype)


def _extremum(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    function = {"max": np.maximum, "min": np.minimum}[name]
    if not is_float(dtype):
        a, b = operands
        return unknown_where(~(a.known & b.known), function(a.value, b.value), dtype)
    a, b = (x.as_operand() for x in operands)
    out = function(a.value, b.value)
    ends = [function(a.value + s * a.error, b.value + s * b.error) for s in (-1, 1)]
    error = np.where(ends[0] == ends[1], 0.0, np.maximum(abs(ends[1] - out), abs(out - ends[0])))
    nan = a.nan | b.nan
    return bounded(out, np.where(nan, 0.0, np.where(a.known & b.known, error, UNKNOWN)), dtype)


def _sign_changes(
    name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any
) -> Bounded:
    (x,) = operands
    value = np.negative(x.value) if name == "neg" else np.conj(x.value)
    return Bounded(value, x.error, dtype, x.signed)


def _abs(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    (x,) = operands
    if np.dtype(x.dtype).kind != "c":
        return Bounded(abs(x.value), x.error, dtype, True)
    out = abs(x.value)
    size = abs(x.value.real) + abs(x.value.imag)
    most, tiny = float(limits(dtype).most), limits(dtype).tiny
    plain = np.isfinite(size) & (size < most / 4) & ((size > tiny * 4) | (size == 0)) & x.known
    error = x.error + 8 * limits(dtype).unit * out + 2 * tiny
    return bounded(out, np.where(plain, error, UNKNOWN), dtype)


def _parts(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    if name == "complex":
        a, b = operands
        value = np.empty(a.shape, wide(dtype))
        value.real, value.imag = a.value, b.value
        return Bounded(value, a.error + b.error, dtype, a.signed and b.signed)
    (x,) = operands
    return Bounded(np.array(getattr(x.value, name)), x.error, dtype, x.signed)


def _select(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    # A choice by a comparison may become a maximum, which flushes.
    which, *cases = (x.as_operand() for x in operands)
    index = which.value.astype(int)
    values, errors = np.stack([x.value for x in cases]), np.stack([x.error for x in cases])
    value = np.take_along_axis(values, index[None], 0)[0]
    error = np.take_along_axis(errors, index[None], 0)[0]
    if not which.known.all():
        same = (values == values[:1]).all(0)
        if is_float(dtype):
            same |= np.isnan(values).all(0)
            apart = np.where(same, 0.0, abs(values - value).max(0).astype(float)) + errors.max(0)
            apart = np.where(np.isfinite(apart) & np.isfinite(values).all(0) | same, apart, UNKNOWN)
        else:
            apart = np.where(same, errors.max(0), UNKNOWN)
        error = np.where(which.known, error, apart)
    return Bounded(
        value, np.where(np.isnan(error), UNKNOWN, error), dtype, all(x.signed for x in cases)
    )


def _relu(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    zeros = exact(np.zeros(operands[0].shape), dtype)
    return _extremum("max", [operands[0], zeros], params, dtype)


def _clamp(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    low, x, high = operands
    return _extremum("min", [_extremum("max", [low, x], {}, dtype), high], {}, dtype)


def _integer_pow(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    y, x = params["y"], operands[0]
    if not is_float(dtype):
        return unknown_where(~x.known | (y < 0), x.value ** max(y, 0), dtype)
    if np.dtype(dtype).kind == "c":
        return bounded(x.value, UNKNOWN, dtype)
    x = x.as_operand()
    size, steps = abs(x.value), max(1, abs(y))
    power = abs(y)
    out = x.value**power
    spread = even(lambda a: a**power)(abs(out), dataclasses.replace(x, value=size))
    found = rounded(
        out,
        spread,
        dtype,
        steps,
        (x.error == 0) & (abs(out) < 2.0 ** limits(dtype).bits) & (np.rint(x.value) == x.value),
    )
    found = bounded(
        found.value, np.where(x.nan & (y != 0), 0.0, np.where(x.known, found.error, UNKNOWN)), dtype
    )
    if y >= 0:
        return found
    return elementwise("div", [exact(np.ones(found.shape), dtype), found], {}, dtype)


def _bits(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    lost = functools.reduce(operator.or_, (~x.known for x in operands))
    if name == "not":
        return unknown_where(lost, np.invert(operands[0].value), dtype)
    out = _BITS[name](*(x.value for x in operands))
    if dtype == BOOL and lost.any():
        decides = {"and": False, "or": True}.get(name)
        for x in operands if decides is not None else ():
            lost &= ~(x.known & (x.value == decides))
            out = np.where(x.known & (x.value == decides), decides, out)
    return unknown_where(lost, out, dtype)


def _is_finite(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    return unknown_where(~operands[0].known, np.isfinite(operands[0].value), bool)


def _convert(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    (x,) = operands
    old, new = np.dtype(x.dtype), np.dtype(dtype)
    if old == new:
        return x
    if new == BOOL:
        x = x.as_operand()
        lost = ~x.known | ((x.error >= abs(x.value)) & (x.error > 0))
        return unknown_where(lost & ~x.nan, x.value != 0, bool)
    if old.kind == "c" and new.kind != "c":
        x = Bounded(np.array(x.value.real), x.error, _real(old), x.signed)
        return _convert(name, [x], params, dtype)
    if is_float(new):
        value = x.value.astype(wide(new))
        if new.kind == "c" or old.kind == "c":
            narrower = limits(new).unit > limits(old).unit if is_float(old) else True
            error = x.error + (
                limits(new).unit * 2 * abs(value) + limits(new).tiny if narrower else 0
            )
            real = np.dtype(_real(new))
            fits = value.real.astype(real).astype(value.real.dtype) == value.real
            fits &= value.imag.astype(real).astype(value.real.dtype) == value.imag
            return Bounded(value, np.where(fits & (x.error == 0), 0.0, error), new, x.signed)
        source = x.as_operand() if is_float(old) else x
        found = rounded(value, source.error, new)
        same = (value.astype(new).astype(value.dtype) == value) & (source.error == 0)
        error = np.where(source.nan | same, 0.0, np.where(x.known, found.error, UNKNOWN))
        return Bounded(found.value, error, new, x.signed)
    if not is_float(old):
        return unknown_where(~x.known, x.value.astype(new), new)
    x, info = x.as_operand(), np.iinfo(new)
    low, high = (np.trunc(x.value + s * x.error) for s in (-1, 1))
    lost = (low != high) | np.isnan(x.value) | ~x.known
    # NumPy's own conversion of what does not fit is not defined.
    inside = np.clip(np.where(lost, 0, low), float(info.min), float(info.max))
    out = np.where(
        inside >= float(info.max), info.max, np.where(inside <= float(info.min), info.min, 0)
    )
    middle = (inside < float(info.max)) & (inside > float(info.min))
    out = np.where(middle, np.where(middle, inside, 0).astype(new), out.astype(new))
    return unknown_where(lost, out, new)


def _log_of_sum(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    a, b = (x.as_operand() for x in operands)
    if np.dtype(dtype).kind == "c":
        return bounded(a.value, UNKNOWN, dtype)
    out = np.logaddexp(a.value, b.value)
    largest = np.maximum(*(np.where(np.isfinite(x.value), abs(x.value), 0) for x in (a, b)))
    found = a.error + b.error + 32 * limits(dtype).unit * (1 + largest)
    found = np.where(np.isfinite(out), found, np.where(a.known & b.known, 0.0, UNKNOWN))
    found = np.where(np.isfinite(out) & (largest > float(limits(dtype).most) / 4), UNKNOWN, found)
    return bounded(out, np.where(a.nan | b.nan, 0.0, found), dtype)


def _unchanged(name: str, operands: list[Bounded], params: dict[str, Any], dtype: Any) -> Bounded:
    return operands[0]


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys([*_UNARY, *_BINARY], _inexact),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_STEPS, _step),
    **dict.fromkeys([*_BITS, "not"], _bits),
    **dict.fromkeys(["max", "min"], _extremum),
    **dict.fromkeys(["neg", "conj"], _sign_changes),
    **dict.fromkeys(["real", "imag", "complex"], _parts),
    **dict.fromkeys(["stop_gradient", "optimization_barrier", "copy", "pbroadcast"], _unchanged),
    "abs": _abs,
    "clamp": _clamp,
    "logaddexp": _log_of_sum,
    "relu": _relu,
    "select_n": _select,
    "integer_pow": _integer_pow,
    "is_finite": _is_finite,
    "convert_element_type": _convert,
}
