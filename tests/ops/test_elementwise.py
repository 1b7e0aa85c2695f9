"""Elementwise operations beyond the op table: kinks and corners, numbers as operands, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft import dtypes, lax
from weft.api.autodiff import grad, jvp, linear_transpose, vjp
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.core.types import type_of
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.ops.elementwise import (
    arithmetic,
    bits,
    complex,
    convert,
    elementary,
    powers,
    regularized,
    rounding,
    selection,
    special,
)
from weft.ops.structural.shape import reduce_sum
from weft.testing import exact_array


def slopes(function, *values):
    """The derivatives of a function of numbers in each of them, in float64, by both modes."""
    args = tuple(exact_array(np.float64(v)) for v in values)
    reverse = [float(g) for g in grad(function, argnums=tuple(range(len(args))))(*args)]
    forward = []
    for i in range(len(args)):
        one = exact_array(np.float64(1))

        def alone(v, i=i):
            return function(*(v if k == i else x for k, x in enumerate(args)))

        forward.append(float(jvp(alone, (args[i],), (one,))[1]))
    np.testing.assert_array_equal(forward, reverse)
    return reverse


# ---- corners of derivatives ------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "values", "wanted"),
    [
        (arithmetic.abs, (0.0,), [0.0]),
        (arithmetic.abs, (-0.0,), [0.0]),
        (arithmetic.max, (2.0, 2.0), [0.5, 0.5]),
        (arithmetic.min, (2.0, 2.0), [0.5, 0.5]),
        (arithmetic.max, (1.0, 2.0), [0.0, 1.0]),
        (arithmetic.min, (1.0, 2.0), [1.0, 0.0]),
        (arithmetic.sign, (0.5,), [0.0]),
        (arithmetic.sqrt, (0.0,), [math.inf]),
        (arithmetic.rem, (7.5, 2.0), [1.0, -3.0]),
        (arithmetic.rem, (-7.5, 2.0), [1.0, 3.0]),
        (powers.cbrt, (0.0,), [math.inf]),
        (powers.pow, (0.0, 0.0), [0.0, 0.0]),
        (powers.pow, (0.0, 1.0), [1.0, 0.0]),
        (powers.pow, (0.0, 2.0), [0.0, 0.0]),
        (powers.pow, (0.0, 0.5), [math.inf, 0.0]),
        (powers.pow, (3.0, 0.0), [0.0, math.log(3.0)]),
        (powers.pow, (math.inf, 0.0), [0.0, math.inf]),
        (lambda x: powers.pow(x, np.int32(0)), (0.0,), [0.0]),
        (lambda x: powers.pow(x, np.uint8(0)), (2.5,), [0.0]),
        (lambda x: powers.integer_pow(x, 0), (0.0,), [0.0]),
        (lambda x: powers.integer_pow(x, 2), (0.0,), [0.0]),
        (selection.clamp, (0.0, 0.5, 1.0), [0.0, 1.0, 0.0]),
        (selection.clamp, (0.0, -0.5, 1.0), [1.0, 0.0, 0.0]),
        (selection.clamp, (0.0, 1.5, 1.0), [0.0, 0.0, 1.0]),
        (selection.clamp, (0.0, 1.0, 1.0), [0.0, 0.0, 0.0]),
        (special.bessel_i1e, (0.0,), [0.5]),
        (special.erf_inv, (0.0,), [math.sqrt(math.pi) / 2]),
        (rounding.floor, (0.5,), [0.0]),
        (convert.stop_gradient, (0.5,), [0.0]),
    ],
)
def test_derivatives_at_corners(function, values, wanted):
    np.testing.assert_allclose(slopes(function, *values), wanted, rtol=1e-14)


def test_second_derivatives_of_powers_at_zero():
    for function in (lambda x: powers.pow(x, np.float64(2)), lambda x: powers.integer_pow(x, 2)):
        assert slopes(grad(function), 0.0) == [2.0]
    # d/dy d/dx x**y at y = 0 is 1/x, which needs the first derivative exact there.
    mixed = grad(lambda y, x: grad(powers.pow)(x, y))
    zero, four = exact_array(np.float64(0)), exact_array(np.float64(4))
    assert float(mixed(zero, four)) == 0.25


def test_complex_absolute_value_has_derivative_zero_at_zero():
    zero, one = exact_array(np.complex128(0)), exact_array(np.complex128(1))
    for function in (arithmetic.abs, arithmetic.sign):
        value, tangent = jvp(function, (zero,), (one,))
        assert complex_of(value) == 0
    assert complex_of(jvp(arithmetic.abs, (zero,), (one,))[1]) == 0


def complex_of(x):
    return np.asarray(x).item()


def test_complex_cotangents_are_not_conjugated():
    z = exact_array(np.complex128(2 + 3j))
    _, back = vjp(lambda x: arithmetic.mul(x, exact_array(np.complex128(1j))), z)
    assert complex_of(back(exact_array(np.complex128(1)))[0]) == 1j
    one = exact_array(np.float64(1))
    assert complex_of(vjp(complex.real, z)[1](one)[0]) == 1
    assert complex_of(vjp(complex.imag, z)[1](one)[0]) == -1j


def test_nan_in_maximum_propagates():
    x = exact_array(np.array([np.nan, 1.0], np.float32))
    y = exact_array(np.array([0.0, np.nan], np.float32))
    assert np.isnan(np.asarray(arithmetic.max(x, y))).all()
    assert np.isnan(np.asarray(arithmetic.min(x, y))).all()


# ---- stop_gradient and conversions -----------------------------------------------------


def test_stop_gradient_goes_through_trees_and_transformations():
    x = exact_array(np.array([1.0, 2.0], np.float32))
    tree = {"a": x, "b": (3, exact_array(np.int32(4)))}
    stopped = convert.stop_gradient(tree)
    assert stopped["b"][0] == 3
    np.testing.assert_array_equal(np.asarray(stopped["a"]), np.asarray(x))

    def f(v):
        return reduce_sum(arithmetic.mul(v, convert.stop_gradient(v)), (0,))

    np.testing.assert_array_equal(np.asarray(grad(f)(x)), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(jit(grad(f))(x)), np.asarray(x))
    each = vmap(grad(lambda v: arithmetic.mul(v, convert.stop_gradient(v))))(x)
    np.testing.assert_array_equal(np.asarray(each), np.asarray(x))


@pytest.mark.parametrize(
    ("source", "target", "cotangent", "wanted"),
    [
        (np.float32, np.float64, 1.5, np.float32(1.5)),
        (np.float64, np.float16, 1.5, np.float64(1.5)),
        (np.float32, np.complex128, 1.5 + 2j, np.float32(1.5)),
        (np.complex64, np.float32, 1.5, np.complex64(1.5)),
    ],
)
def test_a_conversion_transposes_to_the_conversion_back(source, target, cotangent, wanted):
    back = linear_transpose(
        lambda x: convert.convert_element_type(x, target), exact_array(np.zeros((), source))
    )
    (found,) = back(exact_array(np.asarray(cotangent, target)))
    assert np.asarray(found) == wanted
    assert np.asarray(found).dtype == wanted.dtype


def test_conversions_to_integers_saturate_and_are_rounded_towards_zero():
    x = exact_array(np.array([2.7, -2.7, 1e10, -1e10, np.inf], np.float32))
    found = np.asarray(convert.convert_element_type(x, "int8"))
    np.testing.assert_array_equal(found, [2, -2, 127, -128, 127])
    found = np.asarray(convert.convert_element_type(x, "uint8"))
    np.testing.assert_array_equal(found, [2, 0, 255, 0, 255])


def test_conversions_to_booleans_compare_with_zero():
    x = exact_array(np.array([0.0, -0.0, 0.3, np.nan, 1e-30], np.float32))
    found = np.asarray(convert.convert_element_type(x, bool))
    np.testing.assert_array_equal(found, [False, False, True, True, True])
    z = exact_array(np.array([0, 1j], np.complex64))
    np.testing.assert_array_equal(np.asarray(convert.convert_element_type(z, bool)), [False, True])


def test_a_conversion_that_changes_nothing_is_none():
    x = exact_array(np.arange(3.0))
    assert convert.convert_element_type(x, np.float64) is x
    weak = convert.convert_element_type(x, np.float64, weak_type=True)
    assert weak.weak_type and not convert.convert_element_type(weak, np.float64).weak_type


# ---- numbers as operands ---------------------------------------------------------------


def test_python_numbers_take_the_dtype_of_the_others():
    for dtype in (np.int8, np.uint16, np.float16, dtypes.bfloat16, np.float64, np.complex64):
        x = exact_array(np.ones(2, dtype))
        assert arithmetic.add(x, 2).dtype == dtype
        assert arithmetic.add(2, x).dtype == dtype
    assert arithmetic.mul(exact_array(np.ones(2, np.complex64)), 1j).dtype == np.complex64


def test_numpy_scalars_of_default_width_yield():
    x = exact_array(np.ones(2, np.float32))
    assert arithmetic.add(x, np.float64(0.5)).dtype == np.float32
    assert arithmetic.add(exact_array(np.ones(2, np.int8)), np.int64(5)).dtype == np.int8
    with pytest.raises(DTypeError):
        arithmetic.add(exact_array(np.ones(2, np.int8)), np.int64(300))
    with pytest.raises(DTypeError):
        arithmetic.add(exact_array(np.ones(2, np.int32)), np.float64(0.5))


def test_constants_of_64_bits_keep_their_width_everywhere():
    """Rules write constants as NumPy scalars of the operand's dtype, whatever the default width."""
    x = exact_array(np.array([4.0, 9.0]))
    assert jvp(arithmetic.sqrt, (x,), (x,))[1].dtype == np.float64
    jaxpr = make_jaxpr(lambda v: jvp(arithmetic.sqrt, (v,), (v,))[1])(x)
    assert jaxpr.out_avals[0].dtype == np.float64
    assert type_of(np.float64(1)).dtype == np.float64


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(np.int32, 1.5), (np.float32, 1j), (np.int8, 300), (np.uint8, -1), (np.bool_, 1)],
)
def test_a_number_that_does_not_fit_is_refused(dtype, number):
    with pytest.raises((DTypeError, WeftTypeError), match="add"):
        arithmetic.add(exact_array(np.ones(2, dtype)), number)


# ---- errors ----------------------------------------------------------------------------


def test_unequal_dtypes_and_shapes_say_what_to_do():
    x = exact_array(np.ones(2, np.float32))
    with pytest.raises(DTypeError, match="one dtype") as caught:
        arithmetic.add(x, exact_array(np.ones(2, np.int32)))
    assert "f32[2], i32[2]" in str(caught.value) and caught.value.fix is not None
    with pytest.raises(ShapeError, match="one shape") as caught:
        arithmetic.add(x, exact_array(np.ones(3, np.float32)))
    assert "f32[2], f32[3]" in str(caught.value) and caught.value.fix is not None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: powers.integer_pow(x, 1.5), WeftTypeError, "Python integer"),
        (lambda x: powers.integer_pow(np.int32(2), -1), DTypeError, "negative power"),
        (lambda x: rounding.round(x, 7), WeftValueError, "rounding method"),
        (lambda x: convert.reduce_precision(x, 0, 1), WeftValueError, "exponent"),
        (lambda x: convert.reduce_precision(x, 5, -1), WeftValueError, "negative"),
        (lambda x: convert.bitcast_convert_type(x, np.float64), ShapeError, "last dimension"),
        (lambda x: convert.bitcast_convert_type(x, np.bool_), DTypeError, "bool"),
        (lambda x: selection.select_n(x, x, x), DTypeError, "int32"),
        (lambda x: selection.select_n(np.bool_(True)), WeftTypeError, "at least one case"),
        (lambda x: selection.select_n(np.bool_(True), x, x, x), DTypeError, "3 cases"),
        (lambda x: bits.bitwise_and(x, x), DTypeError, "bool"),
        (lambda x: complex.real(x), DTypeError, "c64"),
    ],
)
def test_wrong_arguments_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(exact_array(np.ones(3, np.float32)))


@pytest.mark.parametrize(
    ("function", "operand"),
    [
        (lambda v: special.zeta(v, 2.0), "x"),
        (lambda v: special.polygamma(v, 2.0), "m"),
        (lambda v: regularized.betainc(v, 2.0, 0.5), "a"),
        (lambda v: regularized.betainc(2.0, v, 0.5), "b"),
        (lambda v: regularized.igamma_grad_a(v, 2.0), "a"),
        (lambda v: regularized.random_gamma_grad(2.0, v), "x"),
    ],
)
def test_a_derivative_that_does_not_exist_raises_and_stop_gradient_helps(function, operand):
    x = exact_array(np.float32(2))
    with pytest.raises(WeftNotImplementedError, match=f"derivative in {operand}") as caught:
        grad(function)(x)
    assert caught.value.fix.kind == "stop_gradient"
    assert float(grad(lambda v: function(convert.stop_gradient(v)))(x)) == 0.0


# ---- odds and ends ---------------------------------------------------------------------


def test_select_n_takes_the_nearest_case_out_of_range():
    which = exact_array(np.array([-3, 0, 1, 2, 9], np.int32))
    cases = [exact_array(np.full(5, float(k), np.float32)) for k in range(3)]
    found = np.asarray(selection.select_n(which, *cases))
    np.testing.assert_array_equal(found, [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(np.asarray(selection.select_n(which, cases[1])), np.ones(5))


def test_conj_of_real_numbers_is_complex():
    assert complex.conj(exact_array(np.float32(1))).dtype == np.complex64
    assert complex.conj(exact_array(np.float64(1))).dtype == np.complex128


def test_shifts_by_the_width_or_more_leave_nothing():
    x = exact_array(np.array([-5, 5], np.int8))
    many = exact_array(np.array([8, 100], np.int8))
    np.testing.assert_array_equal(np.asarray(bits.shift_left(x, many)), [0, 0])
    np.testing.assert_array_equal(np.asarray(bits.shift_right_logical(x, many)), [0, 0])
    np.testing.assert_array_equal(np.asarray(bits.shift_right_arithmetic(x, many)), [-1, 0])


def test_logistic_and_its_derivative_do_not_overflow():
    x = exact_array(np.array([-1000.0, 1000.0], np.float32))
    np.testing.assert_array_equal(np.asarray(elementary.logistic(x)), [0, 1])
    slope = jvp(elementary.logistic, (x,), (exact_array(np.ones(2, np.float32)),))[1]
    np.testing.assert_array_equal(np.asarray(slope), [0, 0])


def test_log1p_is_accurate_where_the_compiler_is_not():
    x = np.linspace(-0.42, -0.34, 1001)
    found = np.asarray(elementary.log1p(exact_array(x)))
    np.testing.assert_allclose(found, np.log1p(x), rtol=1e-15)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2**100, "float32"), (2**33, "int64"), (3_000_000_000, "uint32"), (2**60 + 1, "float64"),
     (-(2**70), "complex64")],
)  # fmt: skip
def test_a_large_python_integer_is_converted_at_once(number, dtype):
    found = convert.convert_element_type(number, dtype)
    assert found.dtype == dtype and not found.weak_type
    assert np.asarray(found) == np.dtype(dtype).type(number)
    with pytest.raises(OverflowError):
        convert.convert_element_type(2**40, "int32")


# ---- integers divided by a zero that is computed from constants --------------------------------

# XLA's folders end the process for these, where they are left to them.
ZEROS = {
    "a literal": lambda dtype: dtype(0),
    "a difference": lambda dtype: lax.sub(dtype(2), dtype(2)),
    "a product": lambda dtype: lax.mul(dtype(2), dtype(0)),
    "a conversion": lambda dtype: lax.convert_element_type(0.0, dtype),
    "a maximum": lambda dtype: lax.max(dtype(0), lax.min(dtype(0), dtype(1))),
    "an element": lambda dtype: lax.iota(dtype, 1)[0],
    "a sum": lambda dtype: lax.reduce_sum(lax.full((3,), dtype(0)), (0,)),
}


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_constants_are_divided_by_zero_as_arrays_are(dtype, zero):
    five, by = dtype(5), ZEROS[zero]

    def by_one():
        return lax.mul(five, dtype(1))

    programs = {
        "quotient": lambda: lax.div(five, by(dtype)),
        "remainder": lambda: lax.rem(five, by(dtype)),
        "sum": lambda: lax.add(lax.div(five, by(dtype)), dtype(1)),
        "array": lambda: lax.div(lax.full((3,), five), lax.full((3,), by(dtype))),
        "branch": lambda: lax.cond(True, lambda: lax.div(five, by(dtype)), by_one),
        "scan": lambda: lax.scan(lambda c, _: (lax.div(c, by(dtype)), None), by_one(), None, 1)[0],
    }
    ones = np.array(0, dtype) - np.array(1, dtype)
    want = {"quotient": ones, "remainder": five, "sum": dtype(0), "array": np.full(3, ones)}
    want |= {"branch": ones, "scan": ones}
    for name, program in programs.items():
        np.testing.assert_array_equal(weft.jit(program)(), want[name], err_msg=name)
    # As for arrays that no compiler knows.
    arrays = exact_array(np.array(five)), exact_array(np.array(0, dtype))
    np.testing.assert_array_equal(weft.jit(lax.div)(*arrays), ones)
    np.testing.assert_array_equal(weft.jit(lax.rem)(*arrays), five)


def test_a_known_divisor_costs_nothing():
    three, seven = np.int32(3), np.int32(7)
    program = weft.jit(lambda x, n: (lax.div(x, three), lax.rem(x, three), lax.div(three, n)))
    assert "select" not in program.lower(seven, three).as_text()
