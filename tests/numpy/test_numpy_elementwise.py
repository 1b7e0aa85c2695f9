"""Elementwise functions of weft.numpy against NumPy in double precision, and their derivatives."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as jnp
from weft import dtypes
from weft.api.autodiff import grad
from weft.api.jit import jit
from weft.api.vmap import vmap
from weft.errors import DTypeError, WeftTypeError
from weft.testing import check_grads, check_vmap, exact_array

REAL = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INEXACT = REAL + COMPLEX
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
NUMBERS = INEXACT + INTEGERS
ORDERED = REAL + INTEGERS


@dataclasses.dataclass(frozen=True)
class Row:
    """A function, the dtypes it takes, and how NumPy computes it; `smooth`: check derivatives."""

    name: str
    accepts: tuple[str, ...]
    reference: Callable[..., Any] | None = None
    arity: int = 1
    low: float = -3.0
    high: float = 3.0
    smooth: bool = False
    ulps: float = 8
    nonzero: bool = False

    def __str__(self):
        return self.name


def unary(name, accepts, **rest):
    return Row(name, accepts, **rest)


def binary(name, accepts, **rest):
    return Row(name, accepts, arity=2, **rest)


ROWS = [
    binary("add", (*NUMBERS, "bool"), smooth=True),
    binary("subtract", NUMBERS, smooth=True),
    binary("multiply", (*NUMBERS, "bool"), smooth=True),
    binary("true_divide", NUMBERS, smooth=True, low=0.5),
    binary("floor_divide", ORDERED, nonzero=True),
    binary("remainder", ORDERED, nonzero=True),
    binary("fmod", ORDERED, nonzero=True),
    binary("power", REAL, smooth=True, low=0.5, ulps=32),
    binary("float_power", REAL, smooth=True, low=0.5, ulps=32),
    binary("maximum", (*ORDERED, "bool", *COMPLEX), smooth=True),
    binary("minimum", (*ORDERED, "bool", *COMPLEX), smooth=True),
    binary("fmax", (*ORDERED, "bool")),
    binary("fmin", (*ORDERED, "bool")),
    binary("equal", (*NUMBERS, "bool")),
    binary("not_equal", (*NUMBERS, "bool")),
    binary("less", (*NUMBERS, "bool")),
    binary("less_equal", (*NUMBERS, "bool")),
    binary("greater", (*NUMBERS, "bool")),
    binary("greater_equal", (*NUMBERS, "bool")),
    binary("logical_and", (*NUMBERS, "bool")),
    binary("logical_or", (*NUMBERS, "bool")),
    binary("logical_xor", (*NUMBERS, "bool")),
    binary("bitwise_and", (*INTEGERS, "bool")),
    binary("bitwise_or", (*INTEGERS, "bool")),
    binary("bitwise_xor", (*INTEGERS, "bool")),
    binary("left_shift", INTEGERS, low=0),
    binary("right_shift", INTEGERS, low=0),
    binary("arctan2", REAL, smooth=True, ulps=16),
    binary("hypot", REAL, smooth=True),
    binary("copysign", REAL),
    binary("heaviside", REAL),
    binary("logaddexp", REAL, smooth=True),
    binary("logaddexp2", REAL, smooth=True),
    binary("nextafter", ("float32", "float64")),
    binary("gcd", INTEGERS),
    binary("lcm", INTEGERS),
    unary("logical_not", (*NUMBERS, "bool")),
    unary("invert", (*INTEGERS, "bool")),
    unary("bitwise_count", INTEGERS),
    unary("negative", NUMBERS, smooth=True),
    unary("positive", NUMBERS, smooth=True),
    unary("square", NUMBERS, smooth=True),
    unary("reciprocal", INEXACT, smooth=True, low=0.5),
    unary("abs", (*NUMBERS, "bool"), smooth=True),
    unary("fabs", REAL),
    unary("sign", NUMBERS),
    unary("exp", INEXACT, smooth=True, ulps=32),
    unary("exp2", INEXACT, smooth=True, ulps=32),
    unary("expm1", INEXACT, smooth=True, ulps=32),
    unary("log", INEXACT, smooth=True, low=0.1, ulps=16),
    unary("log2", INEXACT, smooth=True, low=0.1, ulps=32),
    unary("log10", INEXACT, smooth=True, low=0.1, ulps=32),
    unary("log1p", INEXACT, smooth=True, low=-0.5, ulps=32),
    unary("sqrt", INEXACT, smooth=True, low=0.1),
    unary("cbrt", REAL, smooth=True, low=0.1),
    unary("sin", INEXACT, smooth=True, ulps=32),
    unary("cos", INEXACT, smooth=True, ulps=32),
    unary("tan", INEXACT, smooth=True, low=-1, high=1, ulps=64),
    unary("arcsin", INEXACT, smooth=True, low=-0.9, high=0.9, ulps=64),
    unary("arccos", INEXACT, smooth=True, low=-0.9, high=0.9, ulps=64),
    unary("arctan", INEXACT, smooth=True, low=-0.9, high=0.9, ulps=64),
    unary("sinh", INEXACT, smooth=True, ulps=64),
    unary("cosh", INEXACT, smooth=True, ulps=64),
    unary("tanh", INEXACT, smooth=True, ulps=64),
    unary("arcsinh", INEXACT, smooth=True, ulps=64),
    unary("arccosh", INEXACT, smooth=True, low=1.5, ulps=64),
    unary("arctanh", INEXACT, smooth=True, low=-0.9, high=0.9, ulps=64),
    unary("deg2rad", REAL, smooth=True),
    unary("rad2deg", REAL, smooth=True),
    unary("sinc", ("float32", "float64"), smooth=True, ulps=256),
    unary("i0", ("float32", "float64"), smooth=True, ulps=64),
    unary("floor", ORDERED),
    unary("ceil", ORDERED),
    unary("trunc", ORDERED),
    unary("fix", ORDERED, reference=np.trunc),
    unary("rint", INEXACT),
    unary("isnan", (*NUMBERS, "bool")),
    unary("isinf", (*NUMBERS, "bool")),
    unary("isfinite", (*NUMBERS, "bool")),
    unary("isposinf", REAL),
    unary("isneginf", REAL),
    unary("signbit", ORDERED),
    unary("spacing", ("float32", "float64")),
    unary("real", NUMBERS, smooth=True),
    unary("imag", NUMBERS),
    unary("conj", NUMBERS, smooth=True),
    unary("iscomplex", (*NUMBERS, "bool")),
    unary("isreal", (*NUMBERS, "bool")),
    unary("angle", ("float32", "float64", *COMPLEX), ulps=16),
    unary("nan_to_num", NUMBERS),
]
ALIASES = {
    "absolute": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_not": "invert",
    "bitwise_right_shift": "right_shift", "conjugate": "conj", "degrees": "rad2deg",
    "divide": "true_divide", "mod": "remainder", "pow": "power", "radians": "deg2rad",
    "around": "round",
}  # fmt: skip


def draw(row, dtype, seed):
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.random(6) > 0.5
    if dtype in INTEGERS:
        low = max(int(row.low), 0 if dtype[0] == "u" else -9) if row.low >= 0 else -9
        value = generator.integers(0 if dtype[0] == "u" else low, 9, 6)
        return np.where(value == 0, 1, value) if row.nonzero else value
    value = generator.uniform(row.low, row.high, 6)
    if dtype in COMPLEX:
        value = value + 1j * generator.uniform(-0.5, 0.5, 6)
    return value


def operands(row, dtype):
    return [exact_array(draw(row, dtype, 2 * i + row.arity), dtype) for i in range(row.arity)]


def wide(x):
    value = np.asarray(x)
    if value.dtype in dtypes.FLOATING:
        return value.astype(np.float64)
    return value.astype(np.complex128) if value.dtype in dtypes.COMPLEX else value


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values(row):
    function = getattr(jnp, row.name)
    reference = row.reference or getattr(np, row.name)
    for dtype in row.accepts:
        args = operands(row, dtype)
        own = row.name in ("nextafter", "spacing")
        with np.errstate(all="ignore"):
            expected = reference(*[np.asarray(x) if own else wide(x) for x in args])
        out = function(*args)
        got = np.asarray(out)
        if got.dtype in dtypes.INEXACT:
            eps = float(dtypes.finfo(got.dtype).eps)
            np.testing.assert_allclose(
                wide(out), expected, rtol=row.ulps * eps, atol=row.ulps * eps, err_msg=dtype
            )
        else:
            np.testing.assert_array_equal(got, expected, err_msg=dtype)
        traced = np.asarray(jit(function)(*args))
        assert traced.dtype == got.dtype
        np.testing.assert_allclose(
            traced.astype(complex), got.astype(complex), rtol=1e-2, err_msg=f"{dtype} under jit"
        )


@pytest.mark.parametrize("row", [row for row in ROWS if row.smooth], ids=str)
def test_derivatives(row):
    kinds = ["float64"]
    if "complex128" in row.accepts and row.name not in ("abs", "maximum", "minimum", "real"):
        kinds.append("complex128")
    for dtype in kinds:
        check_grads(getattr(jnp, row.name), operands(row, dtype), 2)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_under_vmap(row):
    check_vmap(getattr(jnp, row.name), operands(row, row.accepts[0]))


OF_BITS = ("bitwise_count", "spacing")  # for which a wider dtype does not do


@pytest.mark.parametrize("row", [row for row in ROWS if row.arity == 1], ids=str)
def test_narrow_numbers_are_computed_in_float32_and_rounded(row):
    function, values = getattr(jnp, row.name), np.array([0.5, 0.25], np.float32)
    if row.name in OF_BITS or dtypes.float32 not in row.accepts:
        with pytest.raises(DTypeError):
            function(exact_array(values, "float8_e4m3fn"))
        return
    found = function(exact_array(values, "float8_e4m3fn"))
    assert found.dtype in (dtypes.parse("float8_e4m3fn"), dtypes.bool_, dtypes.float32)
    wanted = np.asarray(function(values)).astype(np.float32)
    # Three bits; functions of several operations round after each.
    np.testing.assert_allclose(np.asarray(found).astype(np.float32), wanted, rtol=0.13, atol=0.02)


def test_aliases():
    for alias, name in ALIASES.items():
        assert getattr(jnp, alias) is getattr(jnp, name), alias


# ---- special values ----------------------------------------------------------------------------

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
PAIRS = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]


@pytest.mark.parametrize(
    "name",
    [
        "maximum", "minimum", "fmax", "fmin", "hypot", "copysign", "logaddexp", "logaddexp2",
        "fmod", "heaviside", "arctan2", "nextafter",
    ],
)  # fmt: skip
def test_special_values_of_two(name):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*PAIRS)
    got = np.asarray(getattr(jnp, name)(*PAIRS))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_special_values_of_division(name):
    finite = [x[np.isfinite(PAIRS[0]) & (PAIRS[1] != 0)] for x in PAIRS]
    expected = getattr(np, name)(*finite)
    np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(*finite)), expected)
    zero = np.asarray(jnp.floor_divide(np.float32([1, -1, 0]), np.float32(0)))
    np.testing.assert_array_equal(zero, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    "name",
    ["rint", "trunc", "sign", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit",
     "nan_to_num", "reciprocal", "square", "abs"],
)  # fmt: skip
def test_special_values_of_one(name):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(SPECIAL)
    got = np.asarray(getattr(jnp, name)(SPECIAL))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    if got.dtype == np.float32 and name != "sign":  # whose sign of -0.0 is XLA's, -0.0
        np.testing.assert_array_equal(np.signbit(got)[:-1], np.signbit(expected)[:-1])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_division_of_integers_follows_the_signs(dtype):
    x, y = np.meshgrid(np.arange(-7, 8), [-3, -2, -1, 1, 2, 3])
    args = [exact_array(x, dtype), exact_array(y, dtype)]
    for name in ("floor_divide", "remainder", "fmod"):
        np.testing.assert_array_equal(
            np.asarray(getattr(jnp, name)(*args)), getattr(np, name)(x, y)
        )
    quotient, rest = divmod(*args)
    np.testing.assert_array_equal(np.asarray(quotient * args[1] + rest), x)
    zero = exact_array(np.zeros(x.shape), dtype)
    np.testing.assert_array_equal(np.asarray(args[0] % zero), 0 * x)


# ---- powers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "bfloat16", "complex64"])
def test_static_integer_powers(dtype, exponent):
    x = exact_array(np.array([0, 1, 2]), dtype)
    out = x**exponent
    assert out.dtype == x.dtype
    expected = np.asarray(x).astype(complex) ** exponent
    np.testing.assert_array_equal(np.asarray(out).astype(complex), expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_powers_of_integer_arrays(dtype):
    base = [0, 1, 2, 3, 5] if dtype[0] == "u" else [0, 1, -1, 2, -2, 3, -3, 5]
    x, y = np.meshgrid(np.array(base, dtype), np.arange(9).astype(dtype))
    got = np.asarray(jnp.power(exact_array(x, dtype), exact_array(y, dtype)))
    np.testing.assert_array_equal(got, x**y)


def test_integer_powers_beyond_the_range():
    x = jnp.array([-1, 1, 0, 2])
    assert (x ** jnp.array(1_000_001)).tolist() == [-1, 1, 0, 0]
    assert (x ** jnp.array([-1, -5, 3, -2])).tolist() == [-1, 1, 0, 0]
    assert (jnp.array([3, -2]) ** jnp.array(-3)).tolist() == [0, 0]


def test_a_negative_power_of_integers_known_now_is_an_error():
    with pytest.raises(WeftTypeError, match="negative power") as caught:
        jnp.arange(3) ** -1
    assert "-1.0" in caught.value.fix.text
    assert (jnp.arange(1, 3) ** -1.0).tolist() == [1.0, 0.5]


def test_the_derivative_of_a_static_power_at_zero():
    assert grad(lambda x: x**2)(0.0).item() == 0.0
    assert grad(grad(lambda x: x**2))(0.0).item() == 2.0
    assert grad(lambda x: x**1)(0.0).item() == 1.0
    assert grad(lambda x: x**0)(0.0).item() == 0.0


def test_divisors_of_special_values():
    x, y = [
        v.astype(np.int32) for v in np.meshgrid([0, 1, -6, 2**31 - 1, 832040], [0, 4, -9, 514229])
    ]
    assert np.asarray(jnp.gcd(x, y)).tolist() == np.gcd(x, y).tolist()
    assert jnp.gcd(12, 18).item() == 6 and jnp.lcm(4, 6).item() == 12
    with pytest.raises(DTypeError):
        jnp.gcd(1.5, 2)


# ---- rounding, parts, bounds -------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "complex64"])
def test_round(dtype, decimals):
    x = exact_array(np.array([123.456, -123.456, 150.0, 250.0, 5.0, 15.0, -25.0, 0.0]), dtype)
    got = jnp.round(x, decimals)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(np.asarray(got), np.round(np.asarray(x), decimals), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(x.round(decimals)), np.asarray(got))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_round_of_half_precision_does_not_overflow(dtype):
    x = exact_array(np.array([300.0, 0.125]), dtype)
    np.testing.assert_allclose(np.asarray(jnp.round(x, 3)).astype(float), [300, 0.125], rtol=1e-2)


def test_round_refuses():
    with pytest.raises(WeftTypeError, match="decimals"):
        jnp.round(1.5, 0.5)
    with pytest.raises(NotImplementedError, match="out"):
        jnp.round(1.5, 0, np.ones(1))


@pytest.mark.parametrize("dtype", REAL)
def test_frexp_and_ldexp_are_inverse(dtype):
    limits = dtypes.finfo(dtype)
    x = np.array([0, 1, -3.5, 0.75, 1e-3, float(limits.max), float(limits.tiny)])
    x = exact_array(x, dtype)
    mantissa, exponent = jnp.frexp(x)
    assert mantissa.dtype == x.dtype and exponent.dtype == np.int32
    expected = np.frexp(wide(x))
    np.testing.assert_array_equal(wide(mantissa), expected[0])
    np.testing.assert_array_equal(np.asarray(exponent), expected[1])
    np.testing.assert_array_equal(wide(jnp.ldexp(mantissa, exponent)), wide(x))


def test_frexp_of_special_values():
    x = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-40], np.float32)
    mantissa, exponent = jnp.frexp(x)
    np.testing.assert_array_equal(np.asarray(mantissa), np.frexp(x)[0])
    np.testing.assert_array_equal(np.asarray(exponent)[3:], np.frexp(x)[1][3:])


def test_derivatives_of_parts():
    check_grads(lambda x: jnp.frexp(x)[0], [exact_array([1.5, -3.5], "float64")], 1)
    check_grads(lambda x: jnp.ldexp(x, 3), [exact_array([1.5, -3.5], "float64")], 1)
    check_grads(lambda x: jnp.modf(x)[0], [exact_array([1.5, -3.25], "float64")], 1)


def test_modf():
    x = np.array([1.5, -2.25, 3.0, -np.inf, np.inf], np.float32)
    for got, expected in zip(jnp.modf(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)
        np.testing.assert_array_equal(np.signbit(np.asarray(got)), np.signbit(expected))


@pytest.mark.parametrize(("low", "high"), [(2, 6), (None, 4), (3, None), (5.5, 6.5), (8, 2)])
def test_clip(low, high):
    for x in (np.arange(10, dtype=np.int32), np.arange(10, dtype=np.float32)):
        got = jnp.clip(x, low, high)
        expected = np.minimum(np.maximum(x, x.min() if low is None else low), high or x.max())
        np.testing.assert_array_equal(np.asarray(got), expected)
        np.testing.assert_array_equal(np.asarray(jnp.asarray(x).clip(low, high)), expected)
        arrays = [None if b is None else np.float32(b) for b in (low, high)]
        np.testing.assert_array_equal(np.asarray(jnp.clip(x, *arrays)), expected)
    if None not in (low, high):
        x = jnp.arange(10.0)
        np.testing.assert_array_equal(
            np.asarray(jnp.clip(x, float(low), float(high))), np.asarray(jnp.clip(x, low, high))
        )


def test_clip_refuses():
    with pytest.raises(DTypeError, match="complex"):
        jnp.clip(1j, 0, 1)
    with pytest.raises(TypeError):
        jnp.clip(jnp.ones(2), a_min=0)


def test_nan_to_num_with_values():
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    for values in ({"nan": 7}, {"nan": 1.0, "posinf": 2.0, "neginf": -2.0}):
        np.testing.assert_array_equal(
            np.asarray(jnp.nan_to_num(x, **values)), np.nan_to_num(x, **values)
        )
    traced = jit(lambda x, v: jnp.nan_to_num(x, nan=v))(x, np.float32(5))
    np.testing.assert_array_equal(np.asarray(traced), np.nan_to_num(x, nan=5))
    z = np.array([complex(np.nan, 1), complex(2, np.inf)], np.complex64)
    np.testing.assert_array_equal(np.asarray(jnp.nan_to_num(z)), np.nan_to_num(z))


def test_sinc_at_zero_is_smooth():
    value = exact_array(0.0, "float64")
    assert jnp.sinc(value).item() == 1.0
    assert grad(jnp.sinc)(value).item() == 0.0
    np.testing.assert_allclose(grad(grad(jnp.sinc))(value).item(), -(math.pi**2) / 3)
    # Where NumPy's sine of a rounded multiple of pi is not zero.
    assert jnp.sinc(jnp.array([1.0, -3.0, 1e6])).tolist() == [0.0, 0.0, 0.0]
    fourth = grad(grad(grad(grad(jnp.sinc))))(value).item()
    np.testing.assert_allclose(fourth, math.pi**4 / 5)


def test_i0_against_scipy():
    x = np.linspace(-5, 5, 11)
    got = np.asarray(jnp.i0(exact_array(x, "float64")))
    np.testing.assert_allclose(got, scipy.special.i0(x), rtol=1e-13)


def test_logaddexp_has_a_derivative_at_infinities():
    for x, y in ((-np.inf, -np.inf), (np.inf, np.inf), (-np.inf, 1.0), (3.0, 3.0)):
        slopes = grad(jnp.logaddexp, (0, 1))(x, y)
        assert all(np.isfinite(s.item()) for s in slopes), (x, y)
        np.testing.assert_allclose(sum(s.item() for s in slopes), 1.0)


def test_logaddexp_is_smooth_where_its_operands_are_equal():
    for x in (0.0, 3.0, -40.0):
        np.testing.assert_allclose(grad(grad(jnp.logaddexp))(x, x).item(), 0.25)
        np.testing.assert_allclose(grad(grad(jnp.logaddexp), 1)(x, x).item(), -0.25)
        np.testing.assert_allclose(
            grad(grad(jnp.logaddexp2))(x, x).item(), 0.25 * math.log(2), rtol=1e-6
        )


def test_hypot_is_smooth_away_from_the_origin():
    for x, y in ((0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, 0.0)):
        slope = grad(jnp.hypot)(x, y).item()
        curvature = grad(grad(jnp.hypot))(x, y).item()
        np.testing.assert_allclose(slope, x / math.hypot(x, y), rtol=1e-6)
        np.testing.assert_allclose(curvature, y * y / math.hypot(x, y) ** 3, rtol=1e-6, atol=1e-7)
    assert grad(jnp.hypot)(0.0, 0.0).item() == 0.0


def test_angle_in_degrees():
    z = np.array([1, 1j, -1, -1j, 1 + 1j], np.complex64)
    np.testing.assert_allclose(np.asarray(jnp.angle(z, deg=True)), np.angle(z, deg=True), rtol=1e-6)


# ---- closeness ---------------------------------------------------------------------------------


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("tolerances", [{}, {"rtol": 0.1}, {"atol": 1.5, "rtol": 0}])
def test_isclose(equal_nan, tolerances):
    got = np.asarray(jnp.isclose(*PAIRS, equal_nan=equal_nan, **tolerances))
    np.testing.assert_array_equal(got, np.isclose(*PAIRS, equal_nan=equal_nan, **tolerances))
    arrays = {name: jnp.float32(value) for name, value in tolerances.items()}
    traced = jit(lambda t: jnp.isclose(*PAIRS, equal_nan=equal_nan, **t))(arrays)
    np.testing.assert_array_equal(np.asarray(traced), got)


def test_comparison_of_whole_arrays():
    x = np.array([1.0, np.nan])
    assert not jnp.allclose(x, x) and jnp.allclose(x, x, equal_nan=True)
    assert not jnp.array_equal(x, x) and jnp.array_equal(x, x, equal_nan=True)
    assert not jnp.array_equal(np.ones(2), np.ones((1, 2)))
    assert jnp.array_equiv(np.ones(2), np.ones((3, 2)))
    assert jnp.array_equiv([1, 1], [[1.0, 1.0]]) and jnp.array_equal([1, 2], (1, 2))
    assert not jnp.array_equal([1, 2], [1, 3])
    assert not jnp.array_equiv(np.ones(2), np.ones(3))
    assert jnp.allclose(np.arange(3), np.arange(3)) and jnp.isclose(1, 1 + 1j * 1e-9)
    assert jit(jnp.allclose)(x, x + 1).dtype == np.bool_


# ---- tracing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logaddexp", "hypot", "remainder", "copysign"])
def test_composite_functions_under_every_transformation(name):
    x, f = exact_array([0.5, -1.5], "float64"), getattr(jnp, name)
    direct = grad(lambda x: f(x, 2.0).sum())(x)
    jitted = jit(grad(lambda x: jit(f)(x, 2.0).sum()))(x)
    mapped = vmap(grad(lambda x: f(x, 2.0)))(x)
    np.testing.assert_allclose(np.asarray(direct), np.asarray(jitted))
    np.testing.assert_allclose(np.asarray(direct), np.asarray(mapped))


@pytest.mark.parametrize("x64", [False, True], ids=["32", "64"])
@pytest.mark.parametrize("name", ["real", "positive", "conj", "floor", "trunc", "round"])
def test_functions_that_change_nothing_take_what_is_no_array_yet(name, x64):
    """Numbers and NumPy arrays that a traced function closes over, eagerly and while tracing."""
    function = getattr(jnp, name)
    for x in (1.0, 2, 3 - 1j, np.float32(2), np.arange(3), np.arange(3.0)):
        if np.iscomplexobj(x) and name in ("floor", "trunc"):
            continue
        with weft.enable_x64(x64):
            eager, traced = function(x), weft.jit(lambda x=x: function(x))()
            mapped = weft.vmap(lambda y, x=x: function(x) + y)(np.zeros(2, np.int8))
            assert eager.type is traced.type
            np.testing.assert_array_equal(np.asarray(eager), getattr(np, name)(x))
            np.testing.assert_array_equal(np.asarray(traced), np.asarray(eager))
            np.testing.assert_array_equal(np.asarray(mapped[1]), np.asarray(eager))


@pytest.mark.parametrize(("name", "base"), [("logaddexp", np.e), ("logaddexp2", 2.0)])
def test_logaddexp_of_complex_numbers(name, base):
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(2, 200)) + 1j * random.normal(size=(2, 200))) * 5
    scale = np.log(base)
    want = np.log(np.exp(x * scale) + np.exp(y * scale)) / scale
    function = getattr(jnp, name)
    x, y = (jnp.asarray(v, jnp.complex128) for v in (x, y))
    np.testing.assert_allclose(function(x, y), want, rtol=1e-12, atol=1e-12)
    # No part overflows or becomes NaN.
    far = function(jnp.array([1e4 + 1j, -jnp.inf, -jnp.inf]), jnp.array([1e4 + 1j, -jnp.inf, 2j]))
    np.testing.assert_allclose(far, [1e4 + np.log(2) / scale + 1j, -np.inf, 2j], rtol=1e-6)
    check_grads(function, (x[:3], y[:3]), order=2)
