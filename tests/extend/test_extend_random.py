"""`weft.extend.random`: generators from outside, the bits of keys, the cipher of the default."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from generators import IMPLEMENTATIONS, philox
from source_files import ROOT
from weft import lax, random
from weft.errors import DTypeError, MissingRuleError, ShapeError, WeftTypeError, WeftValueError
from weft.extend.random import (
    Generator,
    KeyDType,
    define_generator,
    generator_named,
    register,
    threefry_2x32,
    unwrap,
    wrap,
)
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

NUMBER = itertools.count()


def functions(**changes):
    """A generator's arguments: a poor one, that adds."""
    found = {
        "key_shape": (2,),
        "seed": lambda seed: jnp.broadcast_to(seed.astype("uint32"), (2,)),
        "split": lambda bits, shape: jnp.broadcast_to(bits, (*shape, 2)) + np.uint32(1),
        "fold_in": lambda bits, data: bits + data,
        "random_bits": lambda bits, width, shape: jnp.broadcast_to(bits[0], shape).astype(
            f"uint{width}"
        ),
    }
    return found | changes


def defined(**changes):
    n = next(NUMBER)
    return define_generator(f"generator_{n}", tag=f"g{n}", **functions(**changes))


# ---- the cipher --------------------------------------------------------------------------------

# (key, counter, result), from the file kat_vectors of Random123.
KNOWN = [
    ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    ("13198a2e 03707344", "243f6a88 85a308d3", "c4923a9c 483df7a0"),
]


def words(text):
    return tuple(np.uint32(int(word, 16)) for word in text.split())


@pytest.mark.parametrize(("key", "counter", "result"), KNOWN)
def test_threefry_gives_the_known_answers(key, counter, result):
    for make in (lambda x: x, jnp.asarray, lambda x: np.full((2, 300), x)):
        args = [tuple(map(make, words(text))) for text in (key, counter)]
        for f in (threefry_2x32, weft.jit(threefry_2x32)):
            found = f(*args)
            assert isinstance(found, tuple) and len(found) == 2
            for one, wanted in zip(found, words(result), strict=True):
                assert one.dtype == np.uint32 and one.shape == np.shape(args[0][0])
                assert (np.asarray(one) == wanted).all()


def test_threefry_of_other_things():
    word = np.uint32(0)
    with pytest.raises(WeftTypeError, match="the key is a pair"):
        threefry_2x32(np.zeros(2, "uint32"), (word, word))
    with pytest.raises(WeftTypeError, match="the counter is a pair"):
        threefry_2x32((word, word), (word,))
    with pytest.raises(DTypeError, match="uint32"):
        threefry_2x32((0, 0), (word, word))
    with pytest.raises(ShapeError, match="one shape"):
        threefry_2x32((word, word), (np.zeros(2, "uint32"), np.zeros(3, "uint32")))


def test_threefry_under_transformations():
    counters = np.arange(5, dtype=np.uint32)
    mapped = weft.vmap(lambda i: threefry_2x32(words("1 2"), (i, np.uint32(7))))(counters)
    for i in range(5):
        one = threefry_2x32(words("1 2"), (counters[i], np.uint32(7)))
        assert [int(x[i]) for x in mapped] == [int(x) for x in one]
    factor = lambda x: x * threefry_2x32(words("1 2"), words("3 4"))[0]  # noqa: E731
    tangent = weft.jvp(factor, (2.0,), (1.0,))[1]
    assert float(tangent) == np.float32(int(threefry_2x32(words("1 2"), words("3 4"))[0]))


# ---- wrapping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_wrap_and_unwrap(impl):
    bits = np.arange(12, dtype=np.uint32).reshape(2, 3, 2)
    for value in (bits, jnp.asarray(bits)):
        keys = wrap(value, impl=impl)
        assert keys.shape == (2, 3) and isinstance(keys.dtype, KeyDType)
        assert keys.dtype is generator_named(impl, "test").dtype
        np.testing.assert_array_equal(unwrap(keys), bits)
    np.testing.assert_array_equal(weft.jit(lambda b: unwrap(wrap(b, impl=impl)[0]))(bits), bits[0])
    np.testing.assert_array_equal(weft.vmap(lambda b: unwrap(wrap(b, impl=impl)), 1, 1)(bits), bits)
    assert wrap(bits, impl=generator_named(impl, "test")).dtype is keys.dtype
    with pytest.raises(DTypeError, match="takes the bits"):
        wrap(bits.astype(np.int32), impl=impl)
    with pytest.raises(DTypeError, match="takes the bits"):
        wrap(np.zeros((2, 3), np.uint32), impl=impl)


# ---- keys of any generator in every transformation ----------------------------------------------


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_keys_go_through_loops_and_branches(impl):
    key = random.key(3, impl=impl)

    def step(key, _):
        key, own = random.split(key)
        return key, random.normal(own, (2,))

    wanted, loop_key = [], key
    for _ in range(4):
        loop_key, drawn = step(loop_key, None)
        wanted.append(drawn)
    for run in (lax.scan, weft.jit(lax.scan, static_argnums=(0, 3))):
        last, drawn = run(step, key, None, 4)
        np.testing.assert_array_equal(drawn, np.stack(wanted))
        np.testing.assert_array_equal(unwrap(last), unwrap(loop_key))
    folded = lax.fori_loop(0, 3, lambda i, k: random.fold_in(k, i), key)
    by_hand = random.fold_in(random.fold_in(random.fold_in(key, 0), 1), 2)
    np.testing.assert_array_equal(unwrap(folded), unwrap(by_hand))
    chosen = lax.cond(True, lambda k: random.split(k)[1], lambda k: k, key)
    np.testing.assert_array_equal(unwrap(chosen), unwrap(random.split(key)[1]))
    last = lax.while_loop(lambda c: c[1] < 3, lambda c: (random.split(c[0])[0], c[1] + 1), (key, 0))
    assert last[0].dtype is key.dtype


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_keys_over_devices(impl):
    mesh = weft.make_mesh((8,), ("i",))
    keys = random.split(random.key(1, impl=impl), 16)
    draw = weft.vmap(lambda k: random.uniform(k, (3,)))
    wanted = np.asarray(draw(keys))
    laid_out = weft.device_put(keys, NamedSharding(mesh, P("i")))
    np.testing.assert_array_equal(weft.jit(draw)(laid_out), wanted)
    mapped = weft.shard_map(draw, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(mapped(keys), wanted)
    np.testing.assert_array_equal(weft.jit(mapped)(laid_out), wanted)
    whole = weft.jit(lambda k: random.normal(k, (16, 4)), out_shardings=NamedSharding(mesh, P("i")))
    np.testing.assert_array_equal(whole(keys[0]), random.normal(keys[0], (16, 4)))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_gradients_pass_keys_by(impl):
    key = random.key(9, impl=impl)

    def loss(scale, key):
        return (scale * random.normal(key, (5,))).sum()

    drawn = np.asarray(random.normal(key, (5,)), np.float64)
    for f in (loss, weft.jit(loss), weft.checkpoint(loss)):
        np.testing.assert_allclose(weft.grad(f)(2.0, key), drawn.sum(), rtol=1e-5)
    keys = random.split(key, 3)
    each = weft.vmap(weft.grad(loss), (None, 0))(2.0, keys)
    np.testing.assert_allclose(
        each, [np.asarray(random.normal(k, (5,)), np.float64).sum() for k in keys], rtol=1e-5
    )


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_keys_leave_the_process(impl):
    keys = random.split(random.key(4, impl=impl), 3)
    for value in (keys, keys.dtype, keys.dtype.implementation):
        back = pickle.loads(pickle.dumps(value))
        if value is keys:
            assert back.dtype is keys.dtype
            np.testing.assert_array_equal(unwrap(back), unwrap(keys))
        else:
            assert back is value
    exported = weft.export.export(weft.jit(lambda k: random.normal(k, (2,))))(keys[0])
    again = weft.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(keys[0]), random.normal(keys[0], (2,)))


def test_a_pickle_of_keys_says_which_generator_is_missing():
    pickled = pickle.dumps(random.split(random.key(0, impl=philox().PHILOX.name)))
    program = (
        "import pickle, sys, weft\n"
        "try: pickle.loads(sys.stdin.buffer.read())\n"
        "except weft.errors.WeftValueError as error: print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], input=pickled, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert b"no random generator named 'philox4x32'" in found.stdout


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_keys_move_and_do_not_compute(impl):
    keys = random.split(random.key(0, impl=impl), (2, 3))
    bits = np.asarray(unwrap(keys))
    np.testing.assert_array_equal(
        unwrap(keys.reshape(3, 2).T), bits.reshape(3, 2, -1).swapaxes(0, 1)
    )
    np.testing.assert_array_equal(unwrap(jnp.concatenate([keys, keys])), np.concatenate([bits] * 2))
    np.testing.assert_array_equal(unwrap(keys[::-1, 1]), bits[::-1, 1])
    chosen = jnp.where(np.array([[True], [False]]), keys, keys[::-1])
    np.testing.assert_array_equal(unwrap(chosen), np.stack([bits[0], bits[0]]))
    with pytest.raises(WeftTypeError):
        keys + keys
    with pytest.raises(WeftTypeError):
        jnp.concatenate([keys.ravel(), random.split(defined_once())])


def defined_once():
    try:
        generator = generator_named("defined_once", "test")
    except WeftValueError:
        generator = define_generator("defined_once", tag="once", **functions())
    return random.key(0, impl=generator)


# ---- defining generators -----------------------------------------------------------------------


def test_a_generator_is_four_functions():
    made = defined()
    assert isinstance(made, Generator) and made is generator_named(made.name, "test")
    key = random.key(5, impl=made)
    assert unwrap(key).tolist() == [5, 5] and unwrap(random.fold_in(key, 2)).tolist() == [7, 7]
    assert random.split(key, (2, 2)).shape == (2, 2)
    for width in (8, 16, 32, 64):
        assert random.bits(key, (3,), f"uint{width}").tolist() == [5, 5, 5]
    assert repr(key.dtype) == f"key<{made.tag}>" and made.name in repr(made)
    by_dtype = random.key(5, dtype=made.dtype)
    assert by_dtype.dtype is key.dtype


def test_a_key_may_be_a_table():
    made = defined(
        key_shape=(2, 3),
        seed=lambda seed: jnp.full((2, 3), seed.astype("uint32")),
        split=lambda bits, shape: jnp.broadcast_to(bits, (*shape, 2, 3)),
        random_bits=lambda bits, width, shape: jnp.full(shape, bits.sum(), f"uint{width}"),
    )
    keys = random.split(random.key(2, impl=made), 4)
    assert unwrap(keys).shape == (4, 2, 3)
    assert weft.vmap(lambda k: random.bits(k, (2,)))(keys).tolist() == [[12, 12]] * 4


def test_functions_of_a_generator_may_hold_arrays():
    table = jnp.asarray(np.array([7, 9], np.uint32))
    made = defined(
        seed=lambda seed: table + seed.astype("uint32"),
        random_bits=lambda bits, width, shape: jnp.broadcast_to((bits * table).sum(), shape).astype(
            f"uint{width}"
        ),
    )
    key = random.key(1, impl=made)
    assert unwrap(key).tolist() == [8, 10]
    assert random.bits(key, (2,)).tolist() == [8 * 7 + 10 * 9] * 2
    drawn = weft.jit(weft.vmap(lambda k: random.bits(k, (2,))))(key[None])
    assert drawn.tolist() == [[8 * 7 + 10 * 9] * 2]


RESULTS = {
    "seed": (lambda seed: seed, lambda key: random.key(0, impl=key.dtype)),
    "split": (lambda bits, shape: bits, lambda key: random.split(key)),
    "fold_in": (lambda bits, data: data, lambda key: random.fold_in(key, 1)),
    "random_bits": (
        lambda bits, width, shape: jnp.zeros(shape, "uint32"),
        lambda key: random.bits(key, (2,), "uint8"),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_wrong_result_names_the_function(name):
    function, use = RESULTS[name]
    made = defined(**{name: function})
    key = wrap(np.zeros(2, np.uint32), impl=made)
    with pytest.raises(WeftTypeError, match=f"the function {name} of the random generator") as info:
        use(key)
    wanted = info.value.fix.data

    def fixed(*args):
        return jnp.broadcast_to(function(*args).astype(wanted["dtype"]), wanted["shape"])

    again = defined(**{name: fixed})
    use(wrap(np.zeros(2, np.uint32), impl=again))


def test_names_and_tags_are_taken_once():
    made = defined()
    for name, tag in ((made.name, "free"), ("free", made.tag), ("threefry2x32", "free")):
        with pytest.raises(WeftValueError, match="there is a random generator named") as info:
            define_generator(name, tag=tag, **functions())
        assert random.key(0, impl=info.value.fix.data["impl"]).shape == ()
    with pytest.raises(WeftValueError, match="there is a random generator named"):
        register(made)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": 3},
        {"tag": ""},
        {"key_shape": 2},
        {"key_shape": (0,)},
        {"key_shape": ("a",)},
        {"seed": 0},
        {"split": None},
        {"random_bits": "threefry"},
    ],
)
def test_wrong_arguments(changes):
    arguments = {"name": "unused", "tag": "unused", **functions(), **changes}
    with pytest.raises(WeftTypeError, match="define_generator") as info:
        define_generator(arguments.pop("name"), **arguments)
    if info.value.fix is not None:
        defined(**info.value.fix.data)
    with pytest.raises(WeftValueError, match="no random generator named 'unused'"):
        generator_named("unused", "test")


def test_an_error_in_a_function_reaches_the_user():
    bare = weft.extend.core.Primitive("without_rules_in_a_generator")
    made = defined(fold_in=lambda bits, data: bare.bind(bits))
    with pytest.raises(MissingRuleError, match="without_rules_in_a_generator"):
        random.fold_in(wrap(np.zeros(2, np.uint32), impl=made), 1)
