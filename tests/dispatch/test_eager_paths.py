"""What eager calls do in a shorter way gives what the longer way gives."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.arrays.array import to_layout
from weft.arrays.conversion import as_array
from weft.control_flow.jit_primitive import eager_program, jit_program
from weft.core.types import type_of
from weft.interpreters.staging import trace_to_jaxpr
from weft.kinds.array_function import ArrayFunction
from weft.lowering.eval_trace import one_operation
from weft.lowering.executables import FAST_COMPILE_LIMIT, run_program
from weft.ops.elementwise.arithmetic import tanh_p
from weft.random.streams import is_exact
from weft.sharding import Layout

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


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
    "args", [(5, 1.5, -1), (5, 2.0, -1), (-1, -4.5, -2), (0, -0.5, -1), (0, 2.5), (5.0, 1.5, -1.0)]
)
def test_a_range_to_a_stop_between_two_numbers(args):
    assert np.asarray(jnp.arange(*args)).tolist() == np.arange(*args).tolist()


# Longer than what is made on the host.
@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((70_000,), "float32"),
        ((70_000.0,), None),
        ((-(2**24) - 9, 2**24 + 9, 97), "float32"),
        ((2**31 - 1, -(2**31), -30_011), "float32"),
        ((0, 2**33, 2**16 - 1), "float32"),
        ((1.0, 140_001.0, 2.0), "float64"),
        ((0.5, 70_000.0), "float32"),
        ((70_000.0, -0.5, -1), "float32"),
    ],
)
def test_a_long_range_of_floating_point_numbers(args, dtype):
    want = np.arange(*args).astype(dtype or "float32")
    for got in (jnp.arange(*args, dtype=dtype), weft.jit(lambda: jnp.arange(*args, dtype=dtype))()):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got), want)


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
    assert is_exact(program_of(lambda i: i * 2 + 1, i)[0])
    assert not is_exact(program_of(lambda x: x * 2 + 1, x)[0])
    assert not is_exact(program_of(lambda x: x * 2 + 1 > 3, x)[0])


# ---- types of numbers ----------------------------------------------------------------------------


def test_the_type_of_a_number_follows_the_setting():
    assert type_of(2.5) is type_of(1.0)
    narrow = [repr(type_of(x)) for x in (True, 1, 1.0, 1j)]
    assert narrow == ["bool[]", "i32[]~", "f32[]~", "c64[]~"]
    with weft.enable_x64(True):
        wide = [repr(type_of(x)) for x in (True, 1, 1.0, 1j)]
    assert wide == ["bool[]", "i64[]~", "f64[]~", "c128[]~"]
    assert repr(type_of(1.0)) == "f32[]~"


# ---- linspace ----------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(
    "args",
    [(0, 1, 50), (3, 3, 4), (2.5, -7, 9), (0, 5e-324, 3), (1, 2, 1), (1, 2, 0), (-1e308, 1e308, 5)],
)
def test_known_numbers_between_two(args, endpoint):
    with np.errstate(all="ignore"):
        want, step = np.linspace(*args, endpoint=endpoint, retstep=True)
    got, distance = jnp.linspace(*args, endpoint=endpoint, retstep=True, dtype="float64")
    np.testing.assert_array_equal(np.asarray(got), want)
    np.testing.assert_array_equal(np.asarray(distance), step)


# ---- calls whose program is there already --------------------------------------------------------

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
REPEATED = {
    "where, numbers": (lambda x: jnp.where(x > 3, 1.5, -0.0), np.where(ROWS > 3, 1.5, -0.0)),
    "where, a number": (lambda x: jnp.where(x > 3, x, 0), np.where(ROWS > 3, ROWS, 0)),
    "where, a flag": (lambda x: jnp.where(True, x, 2.5), ROWS),
    "take": (lambda x: jnp.take(x, jnp.array([2, 0]), -1), np.take(ROWS, [2, 0], -1)),
    "take, flat": (lambda x: jnp.take(x, jnp.array([7])), np.take(ROWS, [7])),
    "take, axis 0": (lambda x: jnp.take(x, jnp.array([1]), 0), np.take(ROWS, [1], 0)),
    "take, clipped": (
        lambda x: jnp.take(x, jnp.array([9]), 0, mode="clip"),
        np.take(ROWS, [9], 0, mode="clip"),
    ),
    "take, filled": (lambda x: jnp.take(x, jnp.array([9]), 0), np.full((1, 4), np.nan)),
    "take, a fill": (lambda x: jnp.take(x, jnp.array([9]), 0, fill_value=1), np.ones((1, 4))),
    "take_along_axis": (
        lambda x: jnp.take_along_axis(x, jnp.array([[3], [0], [1]])),
        np.take_along_axis(ROWS, np.array([[3], [0], [1]]), -1),
    ),
    "isclose": (lambda x: jnp.isclose(x, 3), np.isclose(ROWS, 3)),
    "nansum": (lambda x: jnp.nansum(jnp.where(x > 3, x, jnp.nan), 0), [12, 14, 16, 18]),
    "linspace": (lambda x: jnp.linspace(x, 0, 3, axis=-1), np.linspace(ROWS, 0, 3, axis=-1)),
    "logspace": (lambda x: jnp.logspace(x[0], 1, 3, base=2), np.logspace(ROWS[0], 1, 3, base=2)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_repeated_call(name):
    function, want = REPEATED[name]
    x = jnp.array(ROWS)
    first = function(x)
    for got in (first, function(x), function(x), weft.jit(function)(x)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
        assert got.type is first.type
    moved = weft.device_put(x, weft.devices()[-1])
    assert function(moved).devices() == {weft.devices()[-1]}
    np.testing.assert_array_equal(np.asarray(weft.vmap(function)(x[None])[0]), np.asarray(first))


def test_a_repeated_call_is_checked():
    x, i = jnp.array(ROWS), jnp.array([1])
    for axis in (1, -1, None):
        jnp.take(x, i, axis)
    for axis, mode in ((1.0, None), (2, None), (-3, None), (1, "raise"), (1, []), ("1", None)):
        with pytest.raises((weft.errors.WeftError, NotImplementedError)):
            jnp.take(x, i, axis, mode=mode)
    along = jnp.zeros((3, 1), int)
    jnp.take_along_axis(x, along, 1)
    for axis in (1.0, 2, -3):
        with pytest.raises(weft.errors.WeftError):
            jnp.take_along_axis(x, along, axis)
    jnp.where(x > 0, x, 0.0)
    for other in ([0.0], "0", None):
        with pytest.raises(weft.errors.WeftError):
            jnp.where(x > 0, x, other)


def test_a_repeated_call_of_a_deleted_array():
    x, y = jnp.array(ROWS), jnp.array(ROWS)
    jnp.where(x > 3, x, 0.0)
    mask = x > 3
    y.delete()
    with pytest.raises(weft.errors.DeletedArrayError):
        jnp.where(mask, y, 0.0)
    as_array(0.25).delete()
    assert jnp.where(mask, x, 0.25)[0, 0].item() == 0.25


def test_a_repeated_call_looks_for_nans():
    x = jnp.array(ROWS)
    jnp.where(x > 3, x, float("nan"))
    with weft.debug_nans(), pytest.raises(FloatingPointError):
        jnp.where(x > 3, x, float("nan"))


def test_numbers_beside_wide_arrays_are_not_rounded():
    x = jnp.array(np.array([0.1, 0.7]), dtype="float64")
    with pytest.warns(UserWarning, match="rounded to 32 bits"):
        jnp.where(x > 0, x, as_array(0.1))  # a weak float32: the program of such operands is there
    for _ in range(2):
        assert jnp.where(x < 0, x, 0.1).tolist() == [0.1, 0.1]
        assert jnp.where(x > 0, 0.1, x).tolist() == [0.1, 0.1]
        assert jnp.isclose(x, 0.1, rtol=0, atol=0).tolist() == [True, False]
        assert jnp.linspace(x, 0.3, 2)[1].tolist() == [0.3, 0.3]
        assert jnp.geomspace(0.1, 0.7, 3, dtype="float64").tolist()[::2] == [0.1, 0.7]


def test_numbers_as_arrays_keep_class_and_sign():
    for _ in range(2):
        found = [as_array(value) for value in (1, 1.0, True, 0.0, -0.0, 0, False)]
        assert [x.dtype.kind for x in found] == list("ifbffib")
        assert np.signbit([np.asarray(x) for x in found[3:5]]).tolist() == [False, True]
        with weft.enable_x64():
            assert as_array(1.0).dtype == np.float64 and as_array(0.1).item() == 0.1


def test_what_is_compiled_fast():
    """Little programs only: unoptimized code for more elements costs more than compiling saves."""
    for size, fast in ((FAST_COMPILE_LIMIT // 2, True), (FAST_COMPILE_LIMIT // 2 + 1, False)):
        x = as_array(np.ones(size, np.float32))
        with weft.config.override(compile_effort="full"):
            made = one_operation(tanh_p, [x], {})
        assert made.executable.options.fast_compile is fast


# ---- calls that are remembered -------------------------------------------------------------------


def recorded(function):
    """How many calls a function of arrays knows."""
    return function._learnt


def three_times(function, *args, **named):
    """A call, of which the second is watched and the third takes the short way."""
    first, second, third = (function(*args, **named) for _ in range(3))
    for other in (second, third):
        assert other.type is first.type and other.signature == first.signature
        np.testing.assert_array_equal(np.asarray(other), np.asarray(first))
    return third


SQUARE = np.array([[4.0, 1.0], [2.0, 3.0]], np.float32)
WITH_NAN = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, -2.0]], np.float32)
REMEMBERED = {
    "sum": (jnp.sum, (ROWS,), {"axis": 1, "keepdims": True}),
    "sum, axes": (jnp.sum, (ROWS, (0, 1)), {}),
    "prod": (jnp.prod, (ROWS, 0), {}),
    "max": (jnp.max, (ROWS,), {"axis": -1}),
    "mean": (jnp.mean, (ROWS, 1), {}),
    "std": (jnp.std, (ROWS, 0), {"ddof": 1}),
    "all": (jnp.all, (ROWS > -1,), {}),
    "any": (jnp.any, (ROWS > 20, 1), {}),
    "cumsum": (jnp.cumsum, (ROWS, 1), {}),
    "sort": (jnp.sort, (-ROWS,), {}),
    "argmax": (jnp.argmax, (ROWS, 0), {}),
    "dot": (jnp.dot, (ROWS, ROWS.T), {}),
    "vdot": (jnp.vdot, (ROWS[0], ROWS[1]), {}),
    "diff": (jnp.diff, (ROWS, 2), {}),
    "round": (jnp.round, (ROWS / 8, 1), {}),
    "clip": (jnp.clip, (ROWS, 2.5, 7.0), {}),
    "clip, one bound": (jnp.clip, (ROWS, None, 7.0), {}),
    "nan_to_num": (jnp.nan_to_num, (WITH_NAN,), {"nan": 2.0, "posinf": 1e3}),
    "append": (jnp.append, (ROWS, ROWS[:1]), {"axis": 0}),
    "swapaxes": (jnp.swapaxes, (ROWS, 0, 1), {}),
    "ravel": (jnp.ravel, (ROWS,), {}),
    "flip": (jnp.flip, (ROWS, 1), {}),
    "median": (jnp.median, (ROWS,), {"axis": 0}),
    "quantile": (jnp.quantile, (ROWS, 0.3), {}),
    "triu": (jnp.triu, (ROWS, 1), {}),
    "logspace": (jnp.logspace, (ROWS[0], ROWS[1], 5), {"axis": -1}),
    "geomspace": (jnp.geomspace, (1.0, 8.0, 4), {}),
    "isclose": (jnp.isclose, (ROWS, ROWS * (1 + 1e-6)), {}),
    "allclose": (jnp.allclose, (ROWS, ROWS + 1), {"atol": 2.0}),
    "nansum": (jnp.nansum, (WITH_NAN, 1), {}),
    "norm": (jnp.linalg.norm, (ROWS,), {"axis": 1}),
    "solve": (jnp.linalg.solve, (SQUARE, SQUARE[0]), {}),
    "det": (jnp.linalg.det, (SQUARE,), {}),
}


@pytest.mark.parametrize("name", REMEMBERED)
def test_a_remembered_call(name):
    function, args, named = REMEMBERED[name]
    path = f"linalg.{function.__name__}" if hasattr(np.linalg, function.__name__) else name
    reference = np
    for part in path.split(",")[0].split("."):
        reference = getattr(reference, part)
    want = reference(*args, **named)
    weft.clear_caches()
    arrays = [jnp.array(x) if isinstance(x, np.ndarray) else x for x in args]
    got = three_times(function, *arrays, **named)
    if isinstance(function, ArrayFunction):  # others have plans
        assert recorded(function)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)
    # Other values of the same types.
    others = [x[::-1].copy() if isinstance(x, np.ndarray) else x for x in args]
    arrays = [jnp.array(x) if isinstance(x, np.ndarray) else x for x in others]
    np.testing.assert_allclose(
        np.asarray(function(*arrays, **named)), reference(*others, **named), rtol=1e-5, atol=1e-6
    )
    # While traced it stands in the program, and takes NumPy arrays as it did.
    call = weft.jit(lambda *values: function(*put_in(values), **named))

    def put_in(values):
        left = iter(values)
        return [next(left) if isinstance(x, np.ndarray) else x for x in others]

    given = [x for x in others if isinstance(x, np.ndarray)]
    for other in (call(*given), function(*others, **named)):
        np.testing.assert_allclose(
            np.asarray(other), np.asarray(function(*arrays, **named)), rtol=1e-5, atol=1e-6
        )


def test_a_remembered_call_under_transformations():
    x = jnp.array(ROWS)
    three_times(jnp.cumsum, x, 1)
    np.testing.assert_array_equal(
        np.asarray(weft.vmap(jnp.cumsum)(x)), np.cumsum(ROWS, 1, dtype=np.float32)
    )
    slope = weft.grad(lambda x: jnp.cumsum(x, 1)[:, -1].sum())(x)
    np.testing.assert_array_equal(np.asarray(slope), np.ones_like(ROWS))
    clipped = three_times(jnp.clip, x, 2.5, 7.5)
    both = weft.jvp(lambda x: jnp.clip(x, 2.5, 7.5), (x,), (jnp.ones_like(x),))
    np.testing.assert_array_equal(np.asarray(both[0]), np.asarray(clipped))
    np.testing.assert_array_equal(np.asarray(both[1]), (ROWS > 2.5) & (ROWS < 7.5))
    names = [e.primitive.name for e in weft.make_jaxpr(lambda x: jnp.sum(x))(x).jaxpr.eqns]
    assert names == ["reduce_sum"]
    kept = []
    weft.jit(lambda x: kept.append(x) or x)(x)
    with pytest.raises(weft.errors.LeakedTracerError):
        jnp.sum(kept[0])


def test_remembered_calls_follow_settings():
    i, x = jnp.array([3, 4, 5], "int8"), jnp.array(WITH_NAN)
    for _ in range(3):
        assert jnp.sum(i).dtype == np.int32
        with weft.enable_x64():
            assert jnp.sum(i).dtype == np.int64 and jnp.quantile(i, 0.5).dtype == np.float32
        assert jnp.max(x).item() != jnp.max(x).item()
        with weft.debug_nans(), pytest.raises(weft.errors.NonFiniteError, match="reduce_max|max"):
            jnp.max(x)
        with pytest.raises(weft.errors.DTypeError):
            with weft.config.override(numpy_dtype_promotion="strict"):
                jnp.append(i, x)
        assert jnp.append(i, x).dtype == np.float32
    seen = []
    for precision in (None, "highest"):
        with weft.config.override(default_matmul_precision=precision):
            seen.append(three_times(jnp.dot, x[:, :2], x[:, :2].T))
    np.testing.assert_array_equal(*map(np.asarray, seen))


def test_equal_arguments_of_other_classes_are_told_apart():
    x = jnp.array(ROWS)
    three_times(jnp.sum, x, 1)
    three_times(jnp.sum, x, (0, 1))
    three_times(jnp.sum, x, None, None, None, True)
    for axis in (1.0, 1.5, (0, 1.0), [0.0, 1]):
        with pytest.raises(weft.errors.WeftTypeError):
            jnp.sum(x, axis)
    with pytest.raises(weft.errors.UnboundAxisError, match="'1'"):
        jnp.sum(x, "1")
    with pytest.raises(weft.errors.WeftTypeError, match="keepdims"):
        jnp.sum(x, None, None, None, 2)
    for low, dtype in ((1, "int32"), (1.0, "float32"), (True, "int32"), (1, "int32")):
        i = jnp.array([0, 2], "int32")
        assert three_times(jnp.clip, i, low).dtype == dtype, low
    signs = [
        np.signbit(np.asarray(three_times(jnp.nan_to_num, jnp.array([np.nan]), nan=zero)))[0]
        for zero in (0.0, -0.0, 0.0)
    ]
    assert signs == [False, True, False]
    assert three_times(jnp.append, x[0], 1).dtype == np.float32
    # The same call by position and by name, and a name that another argument has as its value.
    assert three_times(jnp.ravel, x, "C").shape == three_times(jnp.ravel, x, order="C").shape


def test_an_array_that_is_not_computed_with_is_read_at_every_call():
    x = jnp.array(ROWS)
    for axis in (0, 1, 0, 1, 1):
        got = jnp.sum(x, jnp.asarray(axis))
        np.testing.assert_array_equal(np.asarray(got), ROWS.sum(axis))
        got = jnp.diff(x, n=jnp.asarray(axis + 1))
        np.testing.assert_array_equal(np.asarray(got), np.diff(ROWS, n=axis + 1))
        got = jnp.sum(x, 0, keepdims=jnp.asarray(bool(axis)))
        assert got.ndim == 1 + axis


def test_one_array_passed_twice_and_numbers_that_are_arrays():
    x, y = jnp.array(ROWS[0]), jnp.array(ROWS[1])
    for _ in range(3):
        assert jnp.dot(x, x).item() == 14
    assert jnp.dot(x, y).item() == 38 and jnp.dot(y, x).item() == 38
    assert jnp.dot(y, y).item() == 126
    for _ in range(3):
        # A number is one array for all who ask for it.
        np.testing.assert_array_equal(jnp.clip(x, jnp.asarray(1.0), 1.0), [1, 1, 1, 1])
    np.testing.assert_array_equal(jnp.clip(x, jnp.asarray(0.0), 1.0), [0, 1, 1, 1])
    as_array(1.0).delete()
    np.testing.assert_array_equal(jnp.clip(x, jnp.asarray(0.0), 1.0), [0, 1, 1, 1])
    np.testing.assert_array_equal(three_times(jnp.clip, x, jnp.asarray(0.0), 1.0), [0, 1, 1, 1])


def test_a_remembered_call_of_arrays_that_are_gone():
    x = jnp.array(ROWS)
    three_times(jnp.sum, x, 0)
    y, z = jnp.array(ROWS), jnp.array(ROWS)
    y.delete()
    weft.jit(lambda z: z + 1, donate_argnums=0)(z)
    for gone in (y, z):
        for _ in range(2):
            with pytest.raises(weft.errors.DeletedArrayError, match="deleted") as info:
                jnp.sum(gone, 0)
            assert info.value.__context__ is None or info.value.__suppress_context__
    np.testing.assert_array_equal(np.asarray(three_times(jnp.sum, x, 0)), ROWS.sum(0))


def test_remembered_calls_on_several_devices():
    devices = weft.devices()
    if len(devices) < 4:
        pytest.skip("needs four devices")
    x = jnp.array(ROWS)
    mesh = weft.sharding.Mesh(np.array(devices[:4]), ("d",))
    spread = weft.sharding.NamedSharding(mesh, weft.sharding.PartitionSpec(None, "d"))
    for place in (devices[0], devices[3], spread):
        moved = weft.device_put(x, place)
        got = three_times(jnp.prod, moved, 1)
        np.testing.assert_array_equal(np.asarray(got), ROWS.prod(1))
        assert got.committed and got.devices() == moved.devices()
        # Beside one that was put nowhere on purpose.
        both = three_times(jnp.dot, moved, x.T)
        np.testing.assert_array_equal(np.asarray(both), ROWS @ ROWS.T)
        assert both.devices() == moved.devices()
        assert not three_times(jnp.prod, x, 1).committed
        with pytest.raises(weft.errors.WeftValueError, match="devices"):
            for _ in range(3):
                jnp.dot(moved, weft.device_put(x.T, devices[2]))


def test_remembered_calls_in_layouts():
    x = jnp.array(ROWS)
    turned = to_layout(x, Layout((1, 0)))
    for array in (x, turned, x, turned):
        np.testing.assert_array_equal(np.asarray(three_times(jnp.cumsum, array, 1)), ROWS.cumsum(1))
        np.testing.assert_array_equal(np.asarray(three_times(jnp.flip, array)), ROWS[::-1, ::-1])


def test_what_is_remembered_is_forgotten():
    x = jnp.array(ROWS[0])
    weft.clear_caches()
    assert not recorded(jnp.sum)
    for step in range(5000):
        jnp.sum(x, initial=step / 8)
    assert not recorded(jnp.sum)  # Numbers that come once are not worth it.
    assert 0 < len(jnp.sum.seen) <= 4096
    three_times(jnp.sum, x, initial=0.25)
    assert recorded(jnp.sum) == 1
    weft.clear_caches()
    assert not recorded(jnp.sum) and not jnp.sum.seen


def test_a_remembered_function_is_the_function():
    assert list(inspect.signature(jnp.sum).parameters)[:2] == ["a", "axis"]
    assert pickle.loads(pickle.dumps(jnp.sum)) is jnp.sum
    assert jnp.sum.__module__ == "weft.numpy.reductions"
    for call, match in ((lambda: jnp.sum(), "'a'"), (lambda: jnp.sum(ROWS, axes=1), "axes")):
        with pytest.raises(TypeError, match=match):
            call()
    for _ in range(3):
        with pytest.raises(weft.errors.AxisError) as info:
            jnp.sum(jnp.array(ROWS), 5)
        assert info.value.__context__ is None
