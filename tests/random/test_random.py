"""weft.random: keys, and the numbers that JAX draws from the same keys."""

from __future__ import annotations

import copy
import operator
import pathlib
import time

import ml_dtypes
import numpy as np
import pytest

import random_cases as cases
import weft.lax as lax
import weft.numpy as wnp
from weft import config, random
from weft.api.jit import device_get, eval_shape, jit, make_jaxpr
from weft.api.vmap import vmap
from weft.arrays.array import Array, put
from weft.core.types import ArrayType
from weft.errors import DTypeError
from weft.random.generator import Generator, register
from weft.random.threefry import THREEFRY, threefry_2x32

# The recorded numbers are compared bit by bit, and the compiler rounds a product and a sum in one.
pytestmark = pytest.mark.usefixtures("optimized")

RECORDED = cases.recorded()

# Processors with half-precision arithmetic of their own round once where others compute in single
# precision; JAX's numbers differ there in the same way, and were recorded on one of the others.
NATIVE_HALF = "avx512_fp16" in (
    pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
)


def array(value, dtype=None):
    value = np.asarray(value, dtype)
    return put(value, ArrayType(value.shape, value.dtype))


def wanted(name):
    row = RECORDED[name]
    dtype = np.dtype(ml_dtypes.bfloat16 if row["dtype"] == "bfloat16" else row["dtype"])
    return np.frombuffer(bytes.fromhex(row["bytes"]), dtype).reshape(row["shape"])


def assert_drawn(name, got):
    want = wanted(name)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if name.startswith(("maxwell", "double_sided_maxwell")):
        # A sum of squares, which the compiler may add up in either order.
        spacing = np.abs(np.nextafter(want, want + want) - want).astype(np.float64)
        assert (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= spacing).all()
    elif name in cases.ROUNDED:
        bound = cases.ROUNDED[name]
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound * np.abs(want).max())
    elif (NATIVE_HALF and want.dtype == np.float16) or name.startswith("f float16"):
        # A quotient of quotients is computed in the order in which it is written.
        bound = 4 * float(np.finfo(np.float16).eps)
        np.testing.assert_allclose(
            got, want, rtol=bound, atol=bound * float(np.abs(want).max(initial=0))
        )
    else:
        assert got.tobytes() == want.tobytes()


def test_every_case_is_recorded():
    assert set(cases.CASES) == set(RECORDED)


# Without 64-bit numbers enabled a seed counts modulo 2**32, as it was recorded; the cases with
# 64-bit results ask for their dtype.
@pytest.mark.parametrize("name", cases.CASES)
def test_draws_what_jax_draws(name):
    assert_drawn(name, np.asarray(cases.CASES[name](random, array)))


@pytest.mark.parametrize("name", sorted(cases.X64))
def test_draws_the_same_with_64_bit_numbers_enabled(name):
    with config.enable_x64():
        assert_drawn(name, np.asarray(cases.CASES[name](random, array)))


@pytest.mark.parametrize(
    "name", ["uniform float32 (3, 4)", "randint int64", "bits uint8 (5,)", "categorical axis 1"]
)
def test_draws_the_same_in_a_jitted_function(name):
    assert_drawn(name, np.asarray(jit(lambda: cases.CASES[name](random, array))()))


def test_published_vectors_of_the_cipher():
    # From the test vectors that the authors of the paper publish with Random123.
    def words(*numbers):
        return tuple(np.uint32(n) for n in numbers)

    for key, counter, result in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        got = threefry_2x32(words(*key), words(*counter))
        assert tuple(int(word) for word in got) == result


# ---- keys --------------------------------------------------------------------------------------


def bits_of(key):
    return np.asarray(random.key_data(key)).tolist()


@pytest.mark.parametrize(
    ("seed", "narrow", "wide"),
    [
        (0, [0, 0], [0, 0]),
        (-1, [0, 2**32 - 1], [2**32 - 1, 2**32 - 1]),
        (2**40 + 5, [0, 5], [256, 5]),
        (-(2**35) - 7, [0, 2**32 - 7], [2**32 - 9, 2**32 - 7]),
        (2**63 - 1, [0, 2**32 - 1], [2**31 - 1, 2**32 - 1]),
        (True, [0, 1], [0, 1]),
        (np.uint32(2**32 - 1), [0, 2**32 - 1], [0, 2**32 - 1]),
    ],
)
def test_seeds(seed, narrow, wide):
    assert bits_of(random.key(seed)) == narrow
    assert np.asarray(random.PRNGKey(seed)).tolist() == narrow
    with config.enable_x64():
        assert bits_of(random.key(seed)) == wide


def test_seeds_that_are_arrays_or_traced():
    assert bits_of(random.key(array(7))) == [0, 7]
    assert bits_of(random.key(array(-3, np.int8))) == [0, 2**32 - 3]
    assert bits_of(random.key(array(2**40 + 5, np.int64))) == [256, 5]
    assert bits_of(random.key(array(True))) == [0, 1]
    assert bits_of(jit(random.key)(7)) == [0, 7]
    assert bits_of(jit(lambda: random.key(2**40 + 5))()) == [0, 5]
    assert bits_of(vmap(random.key)(wnp.arange(3))) == [[0, 0], [0, 1], [0, 2]]


def test_a_key_is_an_array_with_a_dtype_of_its_own():
    key = random.key(3)
    assert isinstance(key, Array)
    assert key.shape == ()
    assert key.dtype == random.split(key).dtype == random.key_dtype("threefry2x32")
    assert key.dtype != np.uint32
    assert repr(key.dtype) == "key<fry>"
    assert repr(key) == "Array(shape=(), dtype=key<fry>, bits=[0, 3])"
    assert key.nbytes == 8
    assert random.key_impl(key) == random.key_impl(random.PRNGKey(0)) == "threefry2x32"
    assert bits_of(random.key(3, impl="threefry2x32")) == bits_of(random.key(3, dtype=key.dtype))
    assert bits_of(copy.deepcopy(key)) == bits_of(copy.copy(key)) == [0, 3]
    assert bits_of(random.clone(key)) == [0, 3]


def test_the_bits_of_keys_and_back():
    keys = random.split(random.key(1), (2, 3))
    bits = random.key_data(keys)
    assert bits.shape == (2, 3, 2)
    assert bits.dtype == np.uint32
    again = random.wrap_key_data(bits)
    assert again.dtype == keys.dtype
    assert bits_of(again) == bits_of(keys)
    assert bits_of(random.wrap_key_data(np.asarray(bits), impl="threefry2x32")) == bits_of(keys)
    assert bits_of(jit(lambda b: random.wrap_key_data(b))(bits)) == bits_of(keys)
    assert (jit(random.key_data)(keys) == bits).all()
    assert bits_of(random.PRNGKey(4)) == [0, 4]


def test_keys_are_equal_where_their_bits_are():
    keys = random.split(random.key(0), 3)
    other = wnp.stack([keys[0], keys[2], keys[2]])
    same = np.all(np.asarray(random.key_data(keys)) == np.asarray(random.key_data(other)), axis=-1)
    for ways in (lambda f: f, jit, vmap):
        for equal in (wnp.equal, operator.eq, lax.eq, wnp.isclose):
            np.testing.assert_array_equal(ways(equal)(keys, other), same)
        for unequal in (wnp.not_equal, operator.ne, lax.ne):
            np.testing.assert_array_equal(ways(unequal)(keys, other), ~same)
    np.testing.assert_array_equal(keys == keys[0], [True, False, False])
    np.testing.assert_array_equal(wnp.isclose(keys[2], other), [False, True, True])
    for all_equal in (wnp.array_equal, wnp.array_equiv, wnp.allclose):
        assert all_equal(keys, keys) and not all_equal(keys, other)
    assert wnp.array_equal(keys, keys, equal_nan=True)
    assert wnp.array_equiv(keys[:1], keys[0]) and not wnp.array_equal(keys, keys[:2])
    with pytest.raises(DTypeError):
        keys == random.key(0, impl="rbg")  # noqa: B015
    with pytest.raises(DTypeError):
        keys < other  # noqa: B015


def test_keys_stay_keys_on_the_host():
    got = device_get({"key": random.key(1), "x": wnp.ones(2)})
    assert got["key"] == random.key(1) and type(got["x"]) is np.ndarray


def test_arrays_of_keys_can_be_taken_apart_and_put_together():
    keys = random.split(random.key(0), 4)
    rows = bits_of(keys)
    first, second = random.split(random.key(0))
    assert [bits_of(first), bits_of(second)] == rows[:2]
    assert bits_of(keys[0]) == rows[0]
    assert bits_of(keys[1:3]) == rows[1:3]
    assert bits_of(keys[wnp.array([3, 0])]) == [rows[3], rows[0]]
    assert bits_of(keys.reshape(2, 2)) == [rows[:2], rows[2:]]
    assert bits_of(wnp.concatenate([keys[:1], keys[3:]])) == [rows[0], rows[3]]
    assert bits_of(wnp.where(wnp.array([True, False, True, False]), keys, keys[1])) == [
        rows[0],
        rows[1],
        rows[2],
        rows[1],
    ]
    assert bits_of(jit(lambda k, i: k[i])(keys, 2)) == rows[2]
    assert bits_of(lax.cond(True, lambda k: k[0], lambda k: k[1], keys)) == rows[0]
    assert sorted(bits_of(random.permutation(first, keys))) == sorted(rows)
    assert bits_of(random.choice(first, keys, (1,), replace=False))[0] in rows


def test_raw_keys_are_as_good_as_typed_ones():
    raw, typed = random.PRNGKey(11), random.key(11)
    assert random.split(raw).dtype == np.uint32
    assert (random.split(raw) == random.key_data(random.split(typed))).all()
    assert (random.fold_in(raw, 3) == random.key_data(random.fold_in(typed, 3))).all()
    for draw in (random.normal, random.bits, random.exponential):
        assert (draw(raw, (3,)) == draw(typed, (3,))).all()
        assert (draw(np.asarray(raw), (3,)) == draw(typed, (3,))).all()


# ---- under transformations ---------------------------------------------------------------------


def test_mapping_over_parameters_and_data():
    key = random.key(5)
    folded = vmap(random.fold_in, (None, 0))(key, wnp.arange(3))
    assert bits_of(folded) == [bits_of(random.fold_in(key, i)) for i in range(3)]
    lows = wnp.array([0.0, 5.0])
    got = vmap(lambda low: random.uniform(key, (3,), minval=low, maxval=10.0))(lows)
    for row, low in zip(got, (0.0, 5.0), strict=True):
        np.testing.assert_allclose(
            row, random.uniform(key, (3,), minval=low, maxval=10.0), rtol=1e-6
        )


def test_a_draw_is_one_equation():
    jaxpr = make_jaxpr(lambda k: random.normal(k, (3,)))(random.key(0))
    (eqn,) = jaxpr.eqns
    assert eqn.primitive.name == "jit"
    assert eqn.params["name"] == "normal"
    primitives = [inner.primitive.name for inner in eqn.params["jaxpr"].eqns]
    assert primitives.count("threefry2x32") == 1
    # The same draw a second time is the same program, which is lowered once.
    twice = make_jaxpr(lambda k: (random.normal(k, (3,)), random.normal(k, (3,))))(random.key(0))
    assert len({id(eqn.params["jaxpr"]) for eqn in twice.eqns}) == 1


def test_numbers_are_no_closed_over_arrays():
    jaxpr = make_jaxpr(lambda k: random.normal(random.fold_in(random.key(3), 4)))(0)
    assert not jaxpr.consts


def test_shapes_without_drawing():
    assert eval_shape(lambda k: random.normal(k, (3, 4)), random.key(0)).shape == (3, 4)
    assert eval_shape(random.split, random.key(0)).dtype == random.key(0).dtype


def test_draws_inside_branches():
    key = random.key(2)

    def draw(flag, key):
        return lax.cond(flag, lambda k: random.normal(k), lambda k: random.uniform(k), key)

    assert float(jit(draw)(True, key)) == float(random.normal(key))
    assert float(jit(draw)(False, key)) == float(random.uniform(key))


def test_integers_of_spans_at_which_rounding_could_matter():
    key = random.key(31)
    # The two words that a number is made of, drawn as `randint` draws them.
    upper, lower = (np.asarray(random.bits(k, (5000,)), np.uint64) for k in random.split(key))
    for span in (1, 2, 3, 10, 2**16 - 1, 2**16, 2**16 + 1, 2**31 - 1, 2**31, 2**32 - 3, 2**32 - 1):
        factor = (2**16 % span) ** 2 % 2**32 % span
        offset = (upper % span * factor % 2**32 + lower % span) % 2**32 % span
        drawn = random.randint(key, (5000,), 0, span, "uint32")
        assert (np.asarray(drawn) == offset).all()
    full = random.randint(key, (5000,), 0, 2**32, "uint32")
    assert (np.asarray(full) == lower).all()


def test_arguments_of_other_classes():
    key = random.key(1)
    five = random.permutation(key, 5)
    for n in (np.int64(5), wnp.array(5), np.array(5)):
        assert (random.permutation(key, n) == five).all()
        assert (random.choice(key, n, (3,)) == random.choice(key, 5, (3,))).all()
    heads = random.bernoulli(key, 0.3, (9,))
    for p in (np.float64(0.3), np.float32(0.3), np.array(0.3)):
        assert (random.bernoulli(key, p, (9,)) == heads).all()
        assert (jit(lambda k, p=p: random.bernoulli(k, p, (9,)))(key) == heads).all()
    drawn = random.normal(key, (2, 3))
    for shape in ([2, 3], np.array([2, 3]), (np.int32(2), 3)):
        assert (random.normal(key, shape) == drawn).all()
    for dtype in (float, "float32", np.float32, wnp.float32, np.dtype("float32"), None):
        assert (random.normal(key, (2, 3), dtype) == drawn).all()
    assert (random.normal(key, 3) == random.normal(key, (3,))).all()
    wide = random.randint(key, (3,), 0, np.int64(2**40), "int64")
    assert (wide == random.randint(key, (3,), 0, 2**40, "int64")).all()


def test_python_numbers_are_exact_among_64_bits():
    drawn = random.uniform(random.key(0), (), "float64", minval=0.1, maxval=0.1)
    assert float(drawn) == 0.1


def test_equal_static_arguments_of_another_form_do_not_meet():
    # The shape of the first result is the shape argument of the second.
    scale = wnp.ones(2)
    first = random.double_sided_maxwell(random.key(0), 0.0, scale, (3,), np.dtype("float32"))
    second = random.double_sided_maxwell(random.key(0), 0.0, scale, (3, 2), np.dtype("float32"))
    assert first.shape == (3, 2)
    assert second.shape == (3, 2, 2)


# ---- another generator -------------------------------------------------------------------------


def test_another_generator_takes_part_by_four_functions():
    def counter_bits(bits, width, shape):
        unsigned = np.dtype(f"uint{width}")
        places = wnp.arange(int(np.prod(shape)), dtype=unsigned).reshape(shape)
        return places + bits[0].astype(unsigned)

    counting = register(
        Generator(
            name="counting",
            tag="count",
            key_shape=(3,),
            seed=lambda seed: wnp.broadcast_to(seed.astype("uint32"), (3,)),
            split=lambda bits, shape: wnp.broadcast_to(bits, (*shape, 3)) + np.uint32(100),
            fold_in=lambda bits, data: bits + data,
            random_bits=counter_bits,
        )
    )
    key = random.key(5, impl="counting")
    assert key.dtype is counting.dtype
    assert random.key_impl(key) == "counting"
    assert bits_of(key) == [5, 5, 5]
    assert random.bits(key, (3,)).tolist() == [5, 6, 7]
    assert vmap(lambda k: random.bits(k, (2,)))(random.split(key)).tolist() == [[105, 106]] * 2
    assert random.bits(random.fold_in(key, 3)).item() == 8
    assert random.normal(key, (3,)).shape == (3,)
    assert random.key(0).dtype is THREEFRY.dtype
    with pytest.raises(ValueError, match="named 'counting'"):
        register(counting)


def test_keys_made_of_keys_and_numbers_drawn_from_them_compile_in_seconds():
    # With unrolled ciphers for keys, the CPU's compiler took minutes over this program.
    def draw(key, length=100):
        first, second = random.split(key)
        values = random.uniform(first, (32, length))
        chosen = random.randint(second, (32, 1), 0, length)
        mask = (wnp.arange(length) == chosen).astype(values.dtype)
        return wnp.stack([values, mask], -1).swapaxes(0, 1)

    start = time.perf_counter()
    compiled = jit(draw).lower(random.key(0)).compile()
    assert time.perf_counter() - start < 30
    np.testing.assert_array_equal(compiled(random.key(0)), draw(random.key(0)))


def test_keys_are_compared():
    keys = random.split(random.key(0), 3)
    bits = np.asarray(random.key_data(keys))
    equal = (bits[:, None] == bits[None]).all(-1)
    pairs = lambda a, b: (a == b, wnp.not_equal(a, b), wnp.isclose(a, b))  # noqa: E731
    for compare in (pairs, jit(pairs)):
        same, other, close = compare(keys[:, None], keys[None])
        np.testing.assert_array_equal(same, equal)
        np.testing.assert_array_equal(other, ~equal)
        np.testing.assert_array_equal(close, equal)
    np.testing.assert_array_equal(vmap(lambda a: a == keys)(keys), equal)
    for whole in (wnp.array_equal, wnp.array_equiv, wnp.allclose):
        assert whole(keys, keys)
        assert not whole(keys, keys[::-1])
    with pytest.raises(DTypeError):
        keys < keys  # noqa: B015


def test_keys_are_fetched_as_they_are():
    state = device_get({"key": random.key(3), "w": wnp.ones(2)})
    assert type(state["w"]) is np.ndarray
    assert state["key"] == random.key(3)
