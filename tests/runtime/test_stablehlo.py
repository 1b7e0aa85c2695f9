"""Builders of elementwise StableHLO operations, constants and conversions, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import scipy.signal
import scipy.special

from stablehlo_programs import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    check,
    double,
    module_of,
    run,
    sample,
    type_of,
)
from weft.errors import DTypeError, WeftValueError
from weft.runtime import stablehlo
from weft.runtime.stablehlo import ConvDimensions, Module

# ---- elementwise ---------------------------------------------------------------------------------

# The op table has the builders that operations are lowered to; here are those that none needs.


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unary_of_real_numbers(dtype):
    x = sample(dtype, (3, 4), -3, 3)
    check(stablehlo.bessel_i1e, [x], scipy.special.i1e(double(x)).astype(dtype))
    check(stablehlo.square, [x], np.square(double(x)).astype(dtype))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_squares_of_complex_numbers(dtype):
    x = sample(dtype, (3, 4), 0.2, 0.8)
    check(stablehlo.square, [x], np.square(double(x)).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_kinds_of_floating_point_numbers(dtype):
    x = np.array([0.0, np.inf, -np.inf, np.nan, 1.5], dtype)
    check(stablehlo.is_inf, [x], np.array([False, True, True, False, False]))
    check(stablehlo.is_pos_inf, [x], np.array([False, True, False, False, False]))
    check(stablehlo.is_neg_inf, [x], np.array([False, False, True, False, False]))


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_polygamma(dtype):
    n, x = np.array([1, 2, 3], dtype), np.array([1.5, 2.5, 3.5], dtype)
    expected = scipy.special.polygamma(n.astype(int), double(x)).astype(dtype)
    check(stablehlo.polygamma, [n, x], expected, 1e-5 if dtype == np.float32 else 1e-12)


def test_compare_in_total_order():
    nan = np.array([np.nan, -0.0], np.float32)
    other = np.array([np.inf, 0.0], np.float32)
    for direction, expected in ("GT", [True, False]), ("LT", [False, True]):
        check(
            lambda a, b, d=direction: stablehlo.compare(a, b, d, "TOTALORDER"),
            [nan, other],
            np.array(expected),
        )


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


def test_convert_to_the_same_dtype_emits_nothing():
    x = sample("f4")
    module = module_of(lambda v: stablehlo.convert(v, "f4"), [x], [x])
    assert "convert" not in module.text()


# ---- what no operation uses of convolutions and of devices ---------------------------------------


def test_convolution_that_reads_the_window_backwards():
    x, k = sample("f8", (1, 1, 5, 5)), sample("f8", (1, 1, 2, 2), seed=1)
    grown = np.zeros((9, 9))
    grown[::2, ::2] = x[0, 0]
    expected = scipy.signal.convolve2d(grown[1:, :-1], k[0, 0], "valid")[None, None]

    def build(a, b):
        return stablehlo.convolution(
            a,
            b,
            stablehlo.tensor_type(expected.shape, "f8"),
            ConvDimensions(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3)),
            strides=(1, 1),
            padding=((-1, 0), (0, -1)),
            lhs_dilation=(2, 2),
            window_reversal=(True, True),
        )

    check(build, [x, k], expected)


def test_the_number_of_the_only_replica():
    check(stablehlo.replica_id, [], np.uint32(0))


def test_sharding_constraint_and_open_dimensions():
    x = sample("f4", (8, 4))
    module = Module("automatic", num_partitions=8)
    name = stablehlo.mesh(module, [("i", 2), ("j", 4)], device_ids=range(7, -1, -1))
    kind = stablehlo.array_type_to_ir(type_of(x))
    with module.function("main", [kind], [kind], public=True) as main:
        how = stablehlo.sharding(name, (("i",), None), replicated=("j",))
        main.return_([stablehlo.sharding_constraint(main.arguments[0], how)])
    module.verify()
    text = module.text()
    assert 'sdy.mesh @mesh = <["i"=2, "j"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>' in text
    assert '<@mesh, [{"i"}, {?}], replicated={"j"}>' in text
