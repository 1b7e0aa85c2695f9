"""StableHLO operations that work element by element, declared in families.

Each function emits one operation at the current insertion point. Most have a result of their first
operand's type, and are made by `_unary` and `_binary`; those of the client dialect (CHLO) are
expanded by the compiler into StableHLO. See the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import dtype_of, element_type, ir, op1, operation_error, ranked
from weft.runtime.stablehlo.structural import constant

Unary = Callable[[ir.Value], ir.Value]
Binary = Callable[[ir.Value, ir.Value], ir.Value]

_create = ir.Operation.create


def _unary(name: str, result_type: Callable[[ir.Type], ir.Type] | None = None) -> Unary:
    """An operation whose result has the type of its operand, or the type `result_type` computes
    from it."""

    def emit(x: ir.Value) -> ir.Value:
        try:
            kind = x.type if result_type is None else result_type(x.type)
            return _create(name, (kind,), (x,)).result
        except (AttributeError, TypeError) as error:
            raise operation_error(name, (x,), error) from None

    return _set_name(emit, name)


def _binary(name: str) -> Binary:
    """An operation of two operands of one type, with a result of that type."""

    def emit(x: ir.Value, y: ir.Value) -> ir.Value:
        try:
            return _create(name, (x.type,), (x, y)).result
        except (AttributeError, TypeError) as error:
            raise operation_error(name, (x, y), error) from None

    return _set_name(emit, name)


def _division(name: str, by_zero: Callable[[ir.Value, ir.Value], ir.Value]) -> Binary:
    """A division that XLA does not fold for integers if the divisor may be 0: its folders divide
    with the processor, which ends the process. So a divisor computed from constants alone is
    compared with 0 first, unless it is known to differ, and `by_zero` of the dividend and 0 is the
    result there."""
    emit = _binary(name)

    def emit_safely(x: ir.Value, y: ir.Value) -> ir.Value:
        element = getattr(y.type, "element_type", None)
        if not isinstance(element, ir.IntegerType) or not _may_be_zero(y):
            return emit(x, y)
        zero, one = (constant(number, y.type.shape, dtype_of(element)) for number in (0, 1))
        none = compare(y, zero, "EQ")
        return select(none, by_zero(x, zero), emit(x, select(none, one, y)))

    return _set_name(emit_safely, name)


def _all_ones(x: ir.Value, zero: ir.Value) -> ir.Value:
    """The result of a compiled division by 0: -1, or the largest unsigned number."""
    return not_(zero)


_MOST_LOOKED_AT = 64


def _may_be_zero(divisor: ir.Value) -> bool:
    """Whether a value is computed from constants alone, and not known to differ from 0."""
    made = divisor.owner
    while not isinstance(made, ir.Block) and made.name == "stablehlo.broadcast_in_dim":
        made = made.operands[0].owner
    if not isinstance(made, ir.Block) and made.name == "stablehlo.constant":
        return _has_zero(made)
    pending = [made]
    for _ in range(_MOST_LOOKED_AT):
        if not pending:
            return True
        made = pending.pop()
        if isinstance(made, ir.Block):
            return False  # an argument
        pending += [operand.owner for operand in made.operands]
    return True


def _has_zero(constant: ir.Operation) -> bool:
    value = constant.attributes["value"]
    try:
        return not np.all(np.array(value))
    except (TypeError, ValueError):  # integers of fewer than eight bits
        return True


def _set_name(function: Callable[..., ir.Value], name: str) -> Callable[..., ir.Value]:
    function.__name__ = function.__qualname__ = name.partition(".")[2]
    function.__doc__ = f"Emits `{name}`."
    return function


def _real(kind: ir.Type) -> ir.Type:
    """The type of the parts of a complex number, in the shape of `kind`."""
    element = kind.element_type
    if isinstance(element, ir.ComplexType):
        return ranked(kind.shape, element.element_type)
    return kind


def _boolean(kind: ir.Type) -> ir.Type:
    return ranked(kind.shape, element_type(np.bool_))


abs_ = _unary("stablehlo.abs", _real)
add = _binary("stablehlo.add")
and_ = _binary("stablehlo.and")
atan2 = _binary("stablehlo.atan2")
cbrt = _unary("stablehlo.cbrt")
ceil = _unary("stablehlo.ceil")
cosine = _unary("stablehlo.cosine")
count_leading_zeros = _unary("stablehlo.count_leading_zeros")
divide = _division("stablehlo.divide", _all_ones)
exponential = _unary("stablehlo.exponential")
exponential_minus_one = _unary("stablehlo.exponential_minus_one")
floor = _unary("stablehlo.floor")
imag = _unary("stablehlo.imag", _real)
is_finite = _unary("stablehlo.is_finite", _boolean)
log = _unary("stablehlo.log")
log_plus_one = _unary("stablehlo.log_plus_one")
logistic = _unary("stablehlo.logistic")
maximum = _binary("stablehlo.maximum")
minimum = _binary("stablehlo.minimum")
multiply = _binary("stablehlo.multiply")
negate = _unary("stablehlo.negate")
not_: Unary = _unary("stablehlo.not")
or_ = _binary("stablehlo.or")
popcnt = _unary("stablehlo.popcnt")
power = _binary("stablehlo.power")
real = _unary("stablehlo.real", _real)
remainder = _division("stablehlo.remainder", lambda x, zero: x)
round_nearest_afz = _unary("stablehlo.round_nearest_afz")
round_nearest_even = _unary("stablehlo.round_nearest_even")
rsqrt = _unary("stablehlo.rsqrt")
shift_left = _binary("stablehlo.shift_left")
shift_right_arithmetic = _binary("stablehlo.shift_right_arithmetic")
shift_right_logical = _binary("stablehlo.shift_right_logical")
sign = _unary("stablehlo.sign")
sine = _unary("stablehlo.sine")
sqrt = _unary("stablehlo.sqrt")
subtract = _binary("stablehlo.subtract")
tan = _unary("stablehlo.tan")
tanh = _unary("stablehlo.tanh")
xor = _binary("stablehlo.xor")

acos = _unary("chlo.acos")
acosh = _unary("chlo.acosh")
asin = _unary("chlo.asin")
asinh = _unary("chlo.asinh")
atan = _unary("chlo.atan")
atanh = _unary("chlo.atanh")
bessel_i1e = _unary("chlo.bessel_i1e")
conj = _unary("chlo.conj")
cosh = _unary("chlo.cosh")
digamma = _unary("chlo.digamma")
erf = _unary("chlo.erf")
erf_inv = _unary("chlo.erf_inv")
erfc = _unary("chlo.erfc")
is_inf = _unary("chlo.is_inf", _boolean)
is_neg_inf = _unary("chlo.is_neg_inf", _boolean)
is_pos_inf = _unary("chlo.is_pos_inf", _boolean)
lgamma = _unary("chlo.lgamma")
next_after = _binary("chlo.next_after")
polygamma = _binary("chlo.polygamma")
sinh = _unary("chlo.sinh")
square = _unary("chlo.square")
zeta = _binary("chlo.zeta")


def complex_(real_part: ir.Value, imaginary_part: ir.Value) -> ir.Value:
    """The complex array of two real ones.

    Args:
        real_part: The real parts, float32 or float64.
        imaginary_part: The imaginary parts, of the type of the real ones.
    """
    kind = real_part.type
    made = ranked(kind.shape, ir.ComplexType.get(kind.element_type))
    return op1("stablehlo.complex", (real_part, imaginary_part), made)


def reduce_precision(x: ir.Value, exponent_bits: int, mantissa_bits: int) -> ir.Value:
    """Rounds to the numbers that a narrower floating-point format has, in the same type.

    Args:
        exponent_bits: How many bits the exponent of the narrower format has.
        mantissa_bits: How many bits of the fraction the narrower format stores.
    """
    config = {
        "exponent_bits": attrs.integer(exponent_bits, 32),
        "mantissa_bits": attrs.integer(mantissa_bits, 32),
    }
    return op1("stablehlo.reduce_precision", (x,), x.type, config)


@functools.cache
def _comparison(direction: str, kind: str) -> dict[str, ir.Attribute]:
    return {
        "comparison_direction": attrs.enum_value("ComparisonDirection", direction),
        "compare_type": attrs.enum_value("ComparisonType", kind),
    }


def compare(x: ir.Value, y: ir.Value, direction: str, kind: str | None = None) -> ir.Value:
    """Elementwise EQ, NE, LT, LE, GT or GE; `kind` TOTALORDER orders NaN and signed zeros too.

    Args:
        direction: The name of the comparison: "EQ", "NE", "LT", "LE", "GT" or "GE".
        kind: "TOTALORDER" orders NaN and signed zeros too; None for the usual order.
    """
    both = x.type
    attributes = _comparison(direction, kind or _comparison_kind(both.element_type))
    return op1("stablehlo.compare", (x, y), _boolean(both), attributes)


@functools.cache
def _comparison_kind(element: ir.Type) -> str:
    return {"i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}.get(dtype_of(element).kind, "FLOAT")


def select(predicate: ir.Value, on_true: ir.Value, on_false: ir.Value) -> ir.Value:
    """Elementwise choice; the predicate may be a scalar.

    Args:
        predicate: Booleans: of the shape of the choices, or without dimensions.
        on_true: The values where the predicate is true.
        on_false: The values elsewhere, of the same type.
    """
    return op1("stablehlo.select", (predicate, on_true, on_false), on_true.type)


def clamp(low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    """x kept between two bounds, which may be scalars.

    Args:
        low: The lower bound, of the dtype of x.
        high: The upper bound, of the dtype of x.
    """
    return op1("stablehlo.clamp", (low, x, high), x.type)
