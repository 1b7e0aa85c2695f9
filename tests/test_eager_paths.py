"""What eager calls do in a shorter way gives what the longer way gives."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.control.jit import eager_program, jit_program
from weft.core.types import type_of
from weft.random.sampler import _is_exact
from weft.transforms.programs import run_program
from weft.transforms.staging import trace_to_jaxpr

pytestmark = pytest.mark.fast


def same(got, want):
    assert got.type is want.type, (got.type, want.type)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


# ---- arange ------------------------------------------------------------------------------------

COUNTS = [
    ((256,), "uint8"),
    ((128,), "int8"),
    ((250, 245, -1), "uint8"),
    ((255, -1, -5), "uint8"),
    ((-128, 128), "int8"),
    ((127, -129, -17), "int8"),
    ((2**31 - 3, 2**31), "int32"),
    ((-(2**31), -(2**31) + 7, 3), "int32"),
    ((2**64 - 3, 2**64), "uint64"),
    ((2**63 - 2, 2**63 + 2), "uint64"),
    ((-(2**63), -(2**63) + 2), "int64"),
    ((5, 5), "int32"),
    ((5, 2), "uint16"),
    ((7,), "float16"),
    ((3, 30, 4), "float32"),
    ((0, 4), "complex64"),
]


@pytest.mark.parametrize(("args", "dtype"), COUNTS)
def test_a_range_of_integers(args, dtype):
    got = jnp.arange(*args, dtype=dtype)
    assert [int(x.real) for x in np.asarray(got)] == list(range(*args))
    same(got, weft.jit(lambda: jnp.arange(*args, dtype=dtype))())


@pytest.mark.parametrize(
    ("args", "dtype"), [((250, 257), "uint8"), ((2, -2, -1), "uint8"), ((-129, 0), "int8")]
)
def test_a_range_that_does_not_fit(args, dtype):
    static = weft.jit(jnp.arange, static_argnums=(0, 1, 2), static_argnames="dtype")
    for call in (jnp.arange, static):
        with pytest.raises(OverflowError, match=f"does not fit in {dtype}"):
            call(*args, dtype=dtype)


@pytest.mark.parametrize(
    "args", [(0.0, 1.0, 0.125), (5.5,), (0, 1, 0.1), (1, 3.5), (2.0, -1.0, -0.5), (3.0, 1.0)]
)
def test_a_range_of_python_floats(args):
    got = jnp.arange(*args)
    np.testing.assert_array_equal(np.asarray(got), np.arange(*args).astype(np.float32))
    # NumPy's numbers take the longer way.
    same(got, jnp.arange(*[np.float32(x) if x in (5.5, 3.5) else x for x in args]))
    assert got.dtype == np.float32 and not got.type.weak_type


def test_an_integer_beside_floats_has_to_fit():
    with pytest.raises(OverflowError, match="does not fit in int32"):
        jnp.arange(2**40, 1.5e12, 1e11)


# ---- arrays of one number ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2.5, -0.0, float("nan"), 1e300, 7, -1, True, 1 + 2j])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (300, 300)])
def test_full_of_a_python_number(value, shape):
    got = jnp.full(shape, value)
    with np.errstate(over="ignore"):
        same(got, weft.jit(lambda: jnp.full(shape, value))())
    assert np.array_equal(np.signbit(got.real), np.full(shape, np.signbit(np.real(value))))


def test_full_of_a_number_that_does_not_fit():
    for call in (lambda: jnp.full(3, 2**40), weft.jit(lambda: jnp.full(3, 2**40))):
        with pytest.raises(OverflowError, match="does not fit in int32"):
            call()


# ---- where with numbers --------------------------------------------------------------------------

NUMBERS = [(None, 0.0), (1, None), (2.5, None), (True, 2.0), (1, 2), (None, 1j), (-0.0, 0.0)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "bool"])
@pytest.mark.parametrize(("x", "y"), NUMBERS)
def test_where_with_python_numbers(x, y, dtype):
    condition, other = jnp.array([True, False, True]), jnp.array([0, 1, 1]).astype(dtype)
    x, y = (other if value is None else value for value in (x, y))
    same(
        jnp.where(condition, x, y),
        weft.jit(lambda condition, other: jnp.where(condition, x, y))(condition, other),
    )


def test_where_with_a_number_under_transformations():
    x = jnp.array([-1.0, 2.0, 3.0])
    slope = weft.grad(lambda x: jnp.sum(jnp.where(x > 0, x * x, 0.0)))(x)
    np.testing.assert_array_equal(np.asarray(slope), [0, 4, 6])
    mapped = weft.vmap(lambda x: jnp.where(x > 0, x, -1.0))(x)
    np.testing.assert_array_equal(np.asarray(mapped), [-1, 2, 3])


# ---- programs that are compiled fast -------------------------------------------------------------


def program_of(function, *args):
    jaxpr, _ = trace_to_jaxpr(
        lambda *values: [function(*values)],
        [x.type for x in args],
        transformation="jit",
        name="function",
    )
    return jaxpr, eager_program(jaxpr, "function", args)


def test_what_is_small_is_compiled_fast():
    x = jnp.asarray(np.linspace(-2, 2, 60, dtype=np.float32).reshape(6, 10))

    def function(x):
        return jnp.exp(x - jnp.max(x, axis=1, keepdims=True)) * jnp.tanh(x) + x

    jaxpr, fast = program_of(function, x)
    full = jit_program(jaxpr, "function", (), [x], "function")
    assert fast is not full
    got, want = (np.asarray(run_program(program, [x])[0]) for program in (fast, full))
    wide = np.asarray(x, np.float64)
    exact = np.exp(wide - wide.max(1, keepdims=True)) * np.tanh(wide) + wide
    np.testing.assert_allclose(got, exact, rtol=4e-7, atol=2e-7)
    np.testing.assert_allclose(want, exact, rtol=4e-7, atol=2e-7)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: jnp.tanh(x) * x, (100, 100)),
        (lambda x: weft.lax.fori_loop(0, 3, lambda i, c: c * x, x), (4,)),
    ],
    ids=["large", "a loop"],
)
def test_what_takes_its_time_is_optimized(function, shape):
    x = jnp.ones(shape)
    jaxpr, program = program_of(function, x)
    assert program is jit_program(jaxpr, "function", (), [x], "function")


def test_draws_are_the_same_eagerly_and_in_a_program():
    key = weft.random.key(1099511627781)
    draws = {
        "split": lambda key: weft.random.key_data(weft.random.split(key, 3)),
        "bits": lambda key: weft.random.bits(key, (7,)),
        "randint": lambda key: weft.random.randint(key, (7,), -5, 1000),
        "permutation": lambda key: weft.random.permutation(key, 9),
        "normal": lambda key: weft.random.normal(key, (7,)),
        "exponential": lambda key: weft.random.exponential(key, (7,)),
    }
    for name, draw in draws.items():
        got, want = np.asarray(draw(key)), np.asarray(weft.jit(draw)(key))
        assert got.tobytes() == want.tobytes(), name


def test_only_programs_of_integers_are_exact():
    x, i = jnp.ones(3), jnp.arange(3)
    assert _is_exact(program_of(lambda i: i * 2 + 1, i)[0])
    assert not _is_exact(program_of(lambda x: x * 2 + 1, x)[0])
    assert not _is_exact(program_of(lambda x: x * 2 + 1 > 3, x)[0])


# ---- types of numbers ----------------------------------------------------------------------------


def test_the_type_of_a_number_follows_the_setting():
    assert type_of(2.5) is type_of(1.0)
    narrow = [repr(type_of(x)) for x in (True, 1, 1.0, 1j)]
    assert narrow == ["bool[]", "i32[]~", "f32[]~", "c64[]~"]
    with weft.enable_x64(True):
        wide = [repr(type_of(x)) for x in (True, 1, 1.0, 1j)]
    assert wide == ["bool[]", "i64[]~", "f64[]~", "c128[]~"]
    assert repr(type_of(1.0)) == "f32[]~"
