"""Elementwise functions of weft.numpy: what their rows in `op_rows/numpy_elementwise.py` leave."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as jnp
from op_rows.numpy_elementwise import ROWS
from op_table import widened
from weft import dtypes
from weft.api.autodiff import grad
from weft.api.jit import jit
from weft.api.vmap import vmap
from weft.errors import DTypeError, WeftTypeError
from weft.testing import check_grads, check_vmap, exact_array

ALIASES = {
    "absolute": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_not": "invert",
    "bitwise_right_shift": "right_shift", "conjugate": "conj", "degrees": "rad2deg",
    "divide": "true_divide", "mod": "remainder", "pow": "power", "radians": "deg2rad",
    "around": "round",
}  # fmt: skip


@pytest.mark.parametrize("row", [r for r in ROWS if len(r.args) == 1], ids=lambda row: row.name)
def test_narrow_numbers_are_computed_in_float32_and_rounded(row):
    values = np.array([0.5, 0.25], np.float32)
    if dtypes.float32 not in row.accepts:
        with pytest.raises(DTypeError):
            row.call(exact_array(values, "float8_e4m3fn"))
        return
    found = row.call(exact_array(values, "float8_e4m3fn"))
    assert found.dtype in (dtypes.parse("float8_e4m3fn"), dtypes.bool_, dtypes.float32)
    wanted = np.asarray(row.call(values)).astype(np.float32)
    # Three bits; functions of several operations round after each.
    np.testing.assert_allclose(np.asarray(found).astype(np.float32), wanted, rtol=0.13, atol=0.02)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_and_their_distances(dtype):
    """A wider dtype does not do as a reference of these, nor a narrower one as their operand."""
    x, y = (exact_array(np.array(v), dtype) for v in ([0.5, -1.7, 2.9, 0.0], [2, -3, 0.1, -1]))
    for function, args in (("nextafter", (x, y)), ("spacing", (x,))):
        ours, wanted = getattr(jnp, function), getattr(np, function)(*map(np.asarray, args))
        for found in (ours(*args), jit(ours)(*args)):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, wanted)
        check_vmap(ours, args)
    with pytest.raises(DTypeError):
        jnp.spacing(exact_array(x, "float8_e4m3fn"))


def test_aliases():
    for alias, name in ALIASES.items():
        assert getattr(jnp, alias) is getattr(jnp, name), alias


# ---- special values ----------------------------------------------------------------------------

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
PAIRS = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]


def test_neighbours_of_special_values():
    got, expected = np.asarray(jnp.nextafter(*PAIRS)), np.nextafter(*PAIRS)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


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


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_frexp_and_ldexp_are_inverse(dtype):
    limits = dtypes.finfo(dtype)
    x = np.array([0, 1, -3.5, 0.75, 1e-3, float(limits.max), float(limits.tiny)])
    x = exact_array(x, dtype)
    mantissa, exponent = jnp.frexp(x)
    assert mantissa.dtype == x.dtype and exponent.dtype == np.int32
    again = np.asarray(jnp.ldexp(mantissa, exponent))
    np.testing.assert_array_equal(widened(again), widened(np.asarray(x)))
    expected = np.frexp(widened(np.asarray(x)))
    np.testing.assert_array_equal(widened(np.asarray(mantissa)), expected[0])
    np.testing.assert_array_equal(np.asarray(exponent), expected[1])


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
