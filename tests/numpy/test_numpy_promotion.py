"""Operands of weft.numpy's functions: which dtype and shape they meet in, and what they refuse."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config, dtypes, errors, nn, tree
from weft.api.jit import make_jaxpr
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, ShapeError, WeftTypeError
from weft.testing import exact_array

ALL = sorted(dtypes.ANY, key=str)
NUMBERS = [True, 3, 2.5, 1 + 2j]


def scalar_pair(value):
    of = type_of(value)
    return of.dtype, of.weak_type


@pytest.mark.parametrize(("left", "right"), list(itertools.combinations_with_replacement(ALL, 2)))
def test_two_arrays_meet_where_the_lattice_says(left, right):
    x, y = exact_array(np.ones(2), left), exact_array(np.ones(2), right)
    out = x + y
    assert (out.dtype, out.weak_type) == dtypes.promote((left, False), (right, False))
    assert (y + x).dtype == out.dtype
    assert np.asarray(out).astype(complex).tolist() == [1 if out.dtype == bool else 2] * 2


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", ALL)
def test_a_python_number_yields(dtype, number):
    x = exact_array(np.ones(2), dtype)
    expected = dtypes.promote((dtype, False), scalar_pair(number))
    for out in (jnp.multiply(x, number), jnp.multiply(number, x)):
        assert (out.dtype, out.weak_type) == expected
        np.testing.assert_array_equal(np.asarray(out).astype(complex), [complex(number)] * 2)


@pytest.mark.parametrize("number", [2, 2.5])
def test_weak_arrays_stay_weak(number):
    x = jnp.asarray(number)
    for out in (x + 1, 1 + x, x * 1.5, x / 2, -x):
        assert out.weak_type
    assert not (x * jnp.float32(1)).weak_type


# These say something of how a number is held in its dtype.
OF_THE_DTYPE = {"frexp", "ldexp", "spacing"}
OF_NUMBERS = [
    (name, f, numbers[: f.nin])
    for name, f in sorted(vars(jnp).items())
    if isinstance(f, jnp.ufunc) and name not in OF_THE_DTYPE
    for numbers in ((0.5, 0.25), (7, 2), (0.5 + 1j, 2j))
] + [
    (name, getattr(nn, name), (0.5,))
    for name in ("celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu",
                 "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign",
                 "softplus", "sparse_plus", "squareplus")
] + [
    (name, getattr(jnp, name), (number,))
    for name in ("around", "imag", "nan_to_num", "ones_like", "real", "sinc", "zeros_like")
    for number in (0.5, 0.5 + 1j)
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function", "numbers"), OF_NUMBERS, ids=[f"{c[0]}{c[2]}" for c in OF_NUMBERS]
)
def test_a_function_of_python_numbers_yields_as_they_do(name, function, numbers):
    half = jnp.ones((), "bfloat16")
    for called in (function, weft.jit(function)):
        try:
            found = tree.leaves(called(*numbers))
        except errors.DTypeError:  # for example the order of complex numbers
            return
        for x in found:
            wanted = jnp.complex64 if x.dtype == jnp.complex64 else jnp.bfloat16
            assert (x * half).dtype == wanted


def test_the_same_under_tracing():
    def f(x, i):
        return [x * 2.0, 2 * x, x + i, i / 2, i * 2.5, x + np.ones(3), i + np.int64(1), x > 1]

    x, i = exact_array(np.ones(3), "bfloat16"), jnp.arange(3)
    eager = [(v.dtype, v.weak_type) for v in f(x, i)]
    traced = [(t.dtype, t.weak_type) for t in make_jaxpr(f)(x, i).out_avals]
    assert eager == traced


def test_numbers_become_literals():
    assert [eqn.primitive.name for eqn in make_jaxpr(lambda x: 2 * x + 1.5)(1.0).eqns] == [
        "mul",
        "add",
    ]
    jaxpr = make_jaxpr(lambda x: x * 2.0)(exact_array(np.ones(3), "float64"))
    assert "mul a 2.0:f64[]" in str(jaxpr)


def test_operands_of_equal_types_are_bound_as_they_are():
    x = jnp.ones((2, 3))
    (eqn,) = make_jaxpr(lambda x, y: x * y)(x, x).eqns
    assert eqn.primitive.name == "mul"


@pytest.mark.parametrize("other", [np.ones(2), np.float64(2.0), np.ones((), np.float64)])
def test_numpy_values_take_the_default_width(other):
    assert (jnp.ones(2) * other).dtype == np.float32
    assert (other * jnp.ones(2)).dtype == np.float32
    assert type(other * jnp.ones(2)) is Array
    with config.enable_x64():
        assert (exact_array(np.ones(2), "float32") * other).dtype == np.float64


@pytest.mark.parametrize("value", [np.array([0.1, 0.2]), np.float64(0.1), 0.1])
def test_wide_values_keep_their_digits_next_to_a_wide_array(value):
    x = exact_array(np.ones(2), "float64")
    np.testing.assert_array_equal(np.asarray(x * value), np.ones(2) * value)


def test_plans_follow_the_settings():
    i, x = exact_array(np.arange(2), "uint32"), exact_array(np.arange(2), "int32")
    assert (i + x).dtype == np.int32
    with config.enable_x64():
        assert (i + x).dtype == np.int64
        assert jnp.sin(2).dtype == np.float64
    assert (i + x).dtype == np.int32
    assert jnp.sin(2).dtype == np.float32


def test_strict_promotion():
    x, i = jnp.ones(2), jnp.arange(2)
    assert (x + i).dtype == np.float32
    with config.override(numpy_dtype_promotion="strict"):
        with pytest.raises(DTypeError) as caught:
            x + i
        assert caught.value.fix.kind == "cast"
        assert (x + i.astype(caught.value.fix.data["dtype"])).dtype == np.float32
        assert (x * 2).dtype == np.float32
        with pytest.raises(DTypeError):
            jnp.add(i, 1.5 + x)


@pytest.mark.parametrize(
    ("dtype", "number"), [("int8", 128), ("uint8", -1), ("int32", 2**31), ("int8", -(2**70))]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_an_integer_that_does_not_fit_raises(dtype, number, swapped):
    x = exact_array(np.ones(2), dtype)
    operands = (number, x) if swapped else (x, number)
    with pytest.raises(OverflowError, match=str(number)):
        jnp.add(*operands)
    with pytest.raises(OverflowError):
        make_jaxpr(lambda x: x + number)(x)
    assert jnp.add(x.astype("float32"), number).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_real_number_out_of_range_is_infinite(dtype):
    x = exact_array(np.ones(2), dtype)
    assert bool(jnp.isposinf(x * 1e300).all())
    assert bool(jnp.isneginf(-1e300 * x).all())


def test_the_sign_of_zero_and_nan_are_kept():
    x = jnp.ones(1)
    assert not jnp.signbit(x * 0.0)[0]
    assert jnp.signbit(x * -0.0)[0]
    assert jnp.isnan(x * float("nan"))[0]
    assert not jnp.signbit(x * 0.0)[0]


@pytest.mark.parametrize(
    ("left", "right"), [((3, 1), (4,)), ((), (2,)), ((1,), (0,)), ((2, 1, 3), (5, 1)), ((1, 1), ())]
)
def test_shapes_broadcast(left, right):
    x, y = np.arange(np.prod(left, dtype=int)).reshape(left), np.ones(right, int)
    out = jnp.add(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_array_equal(np.asarray(out), x + y)
    np.testing.assert_array_equal(np.asarray(jnp.floor_divide(x, y)), x // y)


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match="add") as caught:
        jnp.add(jnp.ones(3), jnp.ones(4))
    assert "f32[3], f32[4]" in str(caught.value)


@pytest.mark.parametrize("bad", [[1, 2], (1,), None, "a", {1: 2}])
def test_what_is_no_array_is_refused(bad):
    with pytest.raises(WeftTypeError, match="add.*argument 1"):
        jnp.add(jnp.ones(2), bad)
    with pytest.raises(WeftTypeError, match="sin.*argument 0"):
        jnp.sin(bad)


@pytest.mark.parametrize("bad", [None, "a", object()])
def test_operators_leave_what_they_do_not_know_to_python(bad):
    x = jnp.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + bad
    with pytest.raises(TypeError, match="unsupported operand"):
        bad**x
    with pytest.raises(TypeError, match="unsupported operand"):
        x @ bad
    assert (x == bad) is False
    assert (x != bad) is True


def test_another_class_gets_its_turn():
    class Other:
        def __radd__(self, x):
            return "radd", x.shape

        def __rpow__(self, x):
            return "rpow"

        def __rdivmod__(self, x):
            return "rdivmod"

    assert jnp.ones(2) + Other() == ("radd", (2,))
    assert jnp.ones(2) ** Other() == "rpow"
    assert divmod(jnp.ones(2), Other()) == "rdivmod"


@pytest.mark.parametrize(
    ("function", "operand"),
    [
        (operator.neg, np.array([True])),
        (operator.invert, np.array([1.5])),
        (jnp.floor, np.array([1j])),
    ],
)
def test_dtypes_that_a_function_does_not_take(function, operand):
    x = jnp.asarray(operand)
    with pytest.raises(DTypeError) as caught:
        function(x)
    assert caught.value.operation
    assert caught.value.fix is not None


def test_unknown_keywords_are_refused():
    with pytest.raises(NotImplementedError, match="where"):
        jnp.add(1, 2, where=True)
    with pytest.raises(TypeError, match="axis"):
        jnp.add(1, 2, axis=0)
    with pytest.raises(TypeError):
        jnp.sin(y=1)


@pytest.mark.parametrize("number", [0.1, np.float64(0.1), np.array(0.1)])
@pytest.mark.parametrize(
    "function", ["where", "outer", "inner", "kron", "append", "polyval", "multiply", "dot"]
)
def test_a_number_is_rounded_to_the_dtype_in_which_it_meets(function, number):
    values = np.linspace(0.3, 2, 4)
    wide = jnp.asarray(values, dtype="float64")
    if function == "where":
        got, wanted = (f.where(np.arange(4) > 1, number, v) for f, v in ((jnp, wide), (np, values)))
    elif function == "polyval":
        got, wanted = jnp.polyval(wide, number), np.polyval(values, number)
    else:
        got = getattr(jnp, function)(wide, number)
        wanted = getattr(np, function)(values, number)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_a_numpy_scalar_takes_the_default_width():
    half = jnp.ones(2, jnp.float16)
    assert jnp.where(np.array([True, False]), np.float64(2), half).dtype == np.float32
    with weft.enable_x64():
        assert jnp.where(np.array([True, False]), np.float64(2), half).dtype == np.float64


@pytest.mark.parametrize(
    "function",
    [
        lambda: jnp.var(jnp.ones(3, np.float16)),
        lambda: jnp.quantile(jnp.ones(3, np.float16), 0.5),
        lambda: jnp.histogram(jnp.arange(3), bins=2)[0],
        lambda: weft.lax.dot(
            jnp.ones(2, np.int8), jnp.ones(2, np.int8), preferred_element_type=int
        ),
        lambda: weft.lax.dot(jnp.ones(2, np.complex64), jnp.ones(2, np.int32)),
        lambda: weft.scipy.linalg.sqrtm(jnp.eye(2)),
        lambda: jnp.trapezoid(jnp.arange(3)),
    ],
)
def test_strictness_is_about_operands_and_not_about_the_dtypes_that_are_computed_in(function):
    with weft.config.override(numpy_dtype_promotion="strict"):
        strict = function()
    np.testing.assert_array_equal(strict, function())
