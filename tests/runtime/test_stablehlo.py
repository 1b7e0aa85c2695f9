"""Builders of elementwise StableHLO operations, constants and conversions, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg
import scipy.special

from stablehlo_programs import (
    BF16,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    check,
    double,
    module_of,
    run,
    sample,
)
from weft.errors import DTypeError, WeftValueError
from weft.runtime import stablehlo

# ---- elementwise ---------------------------------------------------------------------------------

REAL_UNARY = {
    "cbrt": (np.cbrt, 0.1, 4),
    "ceil": (np.ceil, -3, 3),
    "cosine": (np.cos, -3, 3),
    "exponential": (np.exp, -2, 2),
    "exponential_minus_one": (np.expm1, -2, 2),
    "floor": (np.floor, -3, 3),
    "log": (np.log, 0.1, 4),
    "log_plus_one": (np.log1p, -0.5, 2),
    "logistic": (scipy.special.expit, -3, 3),
    "negate": (np.negative, -3, 3),
    "round_nearest_afz": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), -3, 3),
    "round_nearest_even": (np.rint, -3, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 4),
    "sign": (np.sign, -3, 3),
    "sine": (np.sin, -3, 3),
    "sqrt": (np.sqrt, 0.1, 4),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -3, 3),
    "abs_": (np.abs, -3, 3),
    # the client dialect
    "acos": (np.arccos, -0.9, 0.9),
    "acosh": (np.arccosh, 1.5, 3),
    "asin": (np.arcsin, -0.9, 0.9),
    "asinh": (np.arcsinh, -3, 3),
    "atan": (np.arctan, -3, 3),
    "atanh": (np.arctanh, -0.9, 0.9),
    "bessel_i1e": (scipy.special.i1e, -3, 3),
    "cosh": (np.cosh, -2, 2),
    "digamma": (scipy.special.digamma, 2, 4),
    "erf": (scipy.special.erf, -2, 2),
    "erf_inv": (scipy.special.erfinv, -0.9, 0.9),
    "erfc": (scipy.special.erfc, -2, 2),
    "lgamma": (scipy.special.gammaln, 3, 5),
    "sinh": (np.sinh, -2, 2),
    "square": (np.square, -3, 3),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", REAL_UNARY)
def test_unary_of_real_numbers(name, dtype):
    reference, low, high = REAL_UNARY[name]
    x = sample(dtype, (3, 4), low, high)
    check(getattr(stablehlo, name), [x], reference(double(x)).astype(dtype))


COMPLEX_UNARY = ["cosine", "exponential", "log", "negate", "sine", "sqrt", "tan", "tanh", "acos"]
COMPLEX_UNARY += ["acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "square"]
COMPLEX_UNARY += ["exponential_minus_one", "log_plus_one", "rsqrt"]


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", COMPLEX_UNARY)
def test_unary_of_complex_numbers(name, dtype):
    reference = REAL_UNARY[name][0]
    x = sample(dtype, (3, 4), 0.2, 0.8)
    check(getattr(stablehlo, name), [x], reference(double(x)).astype(dtype))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_parts_of_complex_numbers(dtype):
    x = sample(dtype)
    check(stablehlo.real, [x], x.real)
    check(stablehlo.imag, [x], x.imag)
    check(stablehlo.abs_, [x], np.abs(x))
    check(stablehlo.conj, [x], np.conj(x))
    check(stablehlo.complex_, [x.real, x.imag], x)


REAL_BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "remainder": np.fmod,
    "atan2": np.arctan2,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", REAL_BINARY)
def test_binary_of_real_numbers(name, dtype):
    x, y = sample(dtype, low=0.5, high=3), sample(dtype, low=0.5, high=3, seed=1)
    if name == "remainder":  # exact, but steps where a quotient rounds to a whole number
        x, y = np.rint(4 * x).astype(dtype), np.rint(3 * y).astype(dtype)
    check(getattr(stablehlo, name), [x, y], REAL_BINARY[name](double(x), double(y)).astype(dtype))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power"])
def test_binary_of_complex_numbers(name, dtype):
    x, y = sample(dtype, low=0.5, high=2), sample(dtype, low=0.5, high=2, seed=1)
    expected = REAL_BINARY[name](double(x), double(y)).astype(dtype)
    check(getattr(stablehlo, name), [x, y], expected)


INTEGER_BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda x, y: (x / y).astype(x.dtype),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "remainder": np.fmod,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "power": np.power,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_BINARY)
def test_binary_of_integers(name, dtype):
    x, y = sample(dtype, (3, 4), -5, 9), sample(dtype, (3, 4), 0, 4, seed=1) + dtype.type(1)
    with np.errstate(over="ignore"):
        expected = INTEGER_BINARY[name](x, y).astype(dtype)
    check(getattr(stablehlo, name), [x, y], expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_of_integers(dtype):
    x, y = sample(dtype, (9,), -100, 100), np.full((9,), 2, dtype)
    bits = 8 * dtype.itemsize
    unsigned = x.view(f"u{dtype.itemsize}")
    patterns = [np.binary_repr(int(n), bits) for n in unsigned]
    check(stablehlo.not_, [x], ~x)
    check(stablehlo.popcnt, [x], np.asarray([p.count("1") for p in patterns], dtype))
    zeros = [bits - len(p.lstrip("0")) for p in patterns]
    check(stablehlo.count_leading_zeros, [x], np.asarray(zeros, dtype))
    check(stablehlo.shift_right_logical, [x, y], (unsigned >> 2).view(dtype))
    signed = x.view(f"i{dtype.itemsize}")
    check(stablehlo.shift_right_arithmetic, [x, y], (signed >> 2).view(dtype))


def test_booleans():
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    check(stablehlo.and_, [x, y], x & y)
    check(stablehlo.or_, [x, y], x | y)
    check(stablehlo.xor, [x, y], x ^ y)
    check(stablehlo.not_, [x], ~x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_kinds_of_floating_point_numbers(dtype):
    x = np.array([0.0, np.inf, -np.inf, np.nan, 1.5], dtype)
    check(stablehlo.is_finite, [x], np.array([True, False, False, False, True]))
    check(stablehlo.is_inf, [x], np.array([False, True, True, False, False]))
    check(stablehlo.is_pos_inf, [x], np.array([False, True, False, False, False]))
    check(stablehlo.is_neg_inf, [x], np.array([False, False, True, False, False]))


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_special_functions_of_two_arguments(dtype):
    n, x = np.array([1, 2, 3], dtype), np.array([1.5, 2.5, 3.5], dtype)
    check(stablehlo.next_after, [x, n], np.nextafter(x, n))
    expected = scipy.special.polygamma(n.astype(int), double(x)).astype(dtype)
    check(stablehlo.polygamma, [n, x], expected, 1e-5 if dtype == np.float32 else 1e-12)
    expected = scipy.special.zeta(double(n) + 1, double(x)).astype(dtype)
    check(stablehlo.zeta, [n + dtype.type(1), x], expected, 1e-6)


def test_reduce_precision_rounds_to_bfloat16():
    x = sample("f4", (20,))
    expected = x.astype(BF16).astype("f4")
    check(lambda v: stablehlo.reduce_precision(v, 8, 7), [x], expected, 0)


COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, BOOL], ids=str)
@pytest.mark.parametrize("direction", COMPARE)
def test_compare(direction, dtype):
    x, y = sample(dtype, (12,), -2, 2), sample(dtype, (12,), -2, 2, seed=1)
    x[:4] = y[:4]
    expected = COMPARE[direction](x, y)
    check(lambda a, b: stablehlo.compare(a, b, direction), [x, y], expected)


def test_compare_unsigned_and_complex_and_total_order():
    big = np.array([2**31 + 1], np.uint32)
    check(
        lambda a, b: stablehlo.compare(a, b, "GT"),
        [big, np.array([1], np.uint32)],
        np.array([True]),
    )
    z = np.array([1 + 1j, 2], np.complex64)
    check(lambda a, b: stablehlo.compare(a, b, "EQ"), [z, z], np.array([True, True]))
    nan = np.array([np.nan, -0.0], np.float32)
    other = np.array([np.inf, 0.0], np.float32)
    total = [np.array([True, False]), np.array([False, True])]
    for direction, expected in zip(("GT", "LT"), total, strict=True):
        check(
            lambda a, b, d=direction: stablehlo.compare(a, b, d, "TOTALORDER"),
            [nan, other],
            expected,
        )


def test_select_and_clamp():
    x, y = sample("f4"), sample("f4", seed=1)
    pick = sample(bool)
    check(stablehlo.select, [pick, x, y], np.where(pick, x, y))
    check(stablehlo.select, [np.array(True), x, y], x)
    low, high = np.float32(-0.5), np.float32(0.5)
    check(stablehlo.clamp, [low, x, high], np.clip(x, low, high))


# ---- constants and conversions -------------------------------------------------------------------

EVERY = [*FLOATS, *COMPLEX, *INTEGERS, BOOL]


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (9,), (40,), (0, 3)], ids=str)
def test_constant(dtype, shape):
    value = sample(dtype, shape)
    check(lambda: stablehlo.constant(value), [], value, 0)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_constant_of_one_number(dtype):
    value = dtype.type(1)
    expected = np.full((2, 3), value)
    check(lambda: stablehlo.constant(1, (2, 3), dtype), [], expected, 0)
    check(lambda: stablehlo.full(value, (2, 3), dtype), [], expected, 0)
    check(lambda: stablehlo.constant(expected), [], expected, 0)
    check(lambda: stablehlo.constant(np.broadcast_to(value, (2, 3))), [], expected, 0)
    module = module_of(lambda: stablehlo.constant(1, (1000,), dtype), [], [np.zeros(1000, dtype)])
    assert "stablehlo.constant dense<" in module.text() and len(module.text()) < 400


def test_constants_keep_signed_zeros_and_nan():
    value = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], np.float32)
    found = run(lambda: stablehlo.constant(value), [], value)
    assert found.tobytes() == value.tobytes()
    minus = run(lambda: stablehlo.constant(np.float32(-0.0), (2,)), [], np.zeros(2, np.float32))
    assert np.signbit(minus).all()
    order = np.asfortranarray(sample("f4", (3, 5)))
    check(lambda: stablehlo.constant(order), [], order, 0)


def test_constant_of_a_wrong_size():
    with pytest.raises(WeftValueError, match="as many elements"):
        run(lambda: stablehlo.constant(np.arange(3), (2,)), [], np.zeros(2, int))


NARROW = ["int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]


@pytest.mark.parametrize("name", NARROW)
def test_narrow_types_in_conversions(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.array([0, 1, 2, 3, 7], np.float32)
    expected = x.astype(dtype).astype(np.float32)

    def build(v):
        return stablehlo.convert(stablehlo.convert(v, dtype), np.float32)

    check(build, [x], expected, 0)
    assert stablehlo.dtype_of(stablehlo.element_type(dtype)) == dtype


def test_dtypes_that_xla_has_not():
    with pytest.raises(DTypeError, match="no element type"):
        stablehlo.element_type(np.dtype("U3"))
    with pytest.raises(DTypeError, match="no element type"):
        stablehlo.element_type(np.longdouble)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_element_types_have_an_inverse(dtype):
    assert stablehlo.dtype_of(stablehlo.element_type(dtype)) == dtype


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *COMPLEX], ids=str)
def test_iota(dtype):
    expected = np.broadcast_to(np.arange(4).astype(dtype), (3, 4))
    check(lambda: stablehlo.iota((3, 4), dtype, 1), [], expected, 0)


@pytest.mark.parametrize("to", [*FLOATS, *INTEGERS, *COMPLEX, BOOL], ids=str)
@pytest.mark.parametrize("of", [np.dtype("f4"), np.dtype("i4"), BOOL, BF16], ids=str)
def test_convert(of, to):
    x = sample(of, (5,), 0, 3)
    check(lambda v: stablehlo.convert(v, to), [x], x.astype(to))


def test_convert_to_the_same_dtype_emits_nothing():
    x = sample("f4")
    module = module_of(lambda v: stablehlo.convert(v, "f4"), [x], [x])
    assert "convert" not in module.text()


def test_bitcast_convert():
    x = sample("f4", (2, 3))
    check(lambda v: stablehlo.bitcast_convert(v, "u4"), [x], x.view("u4"))
    narrow = x.view("u2").reshape(2, 3, 2)
    check(lambda v: stablehlo.bitcast_convert(v, "u2"), [x], narrow)
    check(lambda v: stablehlo.bitcast_convert(v, "f4"), [narrow], x, 0)
