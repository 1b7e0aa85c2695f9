"""Fixes of random keys and draws."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import random
from weft.errors import DTypeError, ShapeError, WeftOverflowError, WeftTypeError, WeftValueError
from weft.extend.random import define_generator, threefry_2x32
from weft.random import generator

KEY = random.key(0)
KEYS = random.split(KEY, 3)
WORDS = jnp.zeros(2, "uint32")
# Nothing is drawn but the last of two categories.
CERTAIN = jnp.array([0.0, 1.0])


def bits(key):
    return np.asarray(random.key_data(key))


def has(shape, dtype="float32"):
    return lambda x: x.shape == shape and x.dtype == dtype


def generator_of(name, random_bits=None, **options):
    """Defines a generator whose keys are counters, and says what its first key draws."""
    options = {"tag": name[:3], "key_shape": (1,)} | options
    define_generator(
        name,
        **options,
        seed=lambda seed: seed.astype("uint32").reshape(1),
        split=lambda bits, shape: jnp.broadcast_to(bits, (*shape, 1)),
        fold_in=lambda bits, data: bits + data,
        random_bits=random_bits or typed,
    )
    try:
        return random.bits(random.key(5, impl=name), (2,))
    finally:
        generator._by_name.pop(name)


def untyped(bits, width, shape):
    return jnp.arange(2, dtype="int32")


def typed(bits, width, shape):
    return jnp.arange(2, dtype="int32").astype(f"uint{width}").reshape(shape)


FIXES = [
    Fixed(
        "fold larger numbers in piece by piece",
        wrong=lambda: random.fold_in(KEY, 2**40),
        fixed=lambda fix: random.key_data(random.fold_in(random.fold_in(KEY, 2**8), 0)),
        value=has((2,), "uint32"),
        error=WeftOverflowError,
    ),
    Fixed(
        "take a smaller one, such as seed % 2**63",
        wrong=lambda: random.key(2**70 + 5),
        fixed=lambda fix: random.key_data(random.key((2**70 + 5) % 2**63)),
        value=random.key_data(random.key(5)),
        error=WeftOverflowError,
    ),
    Fixed(
        "use one of them (keys[0])",
        wrong=lambda: random.normal(KEYS),
        fixed=lambda fix: random.normal(KEYS[0]),
        value=has(()),
        error=ShapeError,
    ),
    Fixed(
        "or map over them: weft.vmap(weft.random.normal)",
        wrong=lambda: random.normal(KEYS),
        fixed=lambda fix: weft.vmap(weft.random.normal)(KEYS),
        value=has((3,)),
        error=ShapeError,
    ),
    Fixed(
        "pass shape=(3,)",
        wrong=lambda: random.uniform(KEY, minval=jnp.ones(3), maxval=1.0),
        fixed=lambda fix: random.uniform(KEY, shape=(3,), minval=jnp.ones(3), maxval=1.0),
        value=np.ones(3),
        error=ShapeError,
    ),
    Fixed(
        "use the key itself",
        wrong=lambda: random.key(KEY),
        fixed=lambda fix: random.key_data(KEY),
        value=np.zeros(2),
        error=WeftTypeError,
    ),
    Fixed(
        "or split it",
        wrong=lambda: random.key(KEY),
        fixed=lambda fix: random.split(KEY),
        value=lambda keys: keys.shape == (2,) and keys.dtype == KEY.dtype,
        error=WeftTypeError,
    ),
    Fixed(
        "pass an integer, such as 0",
        wrong=lambda: random.key(0.5),
        fixed=lambda fix: random.key_data(random.key(0)),
        value=np.zeros(2),
        error=WeftTypeError,
    ),
    Fixed(
        "map over the seeds: weft.vmap(weft.random.key)(seeds)",
        wrong=lambda: random.key(np.arange(3)),
        fixed=lambda fix: random.key_data(weft.vmap(weft.random.key)(np.arange(3))),
        value=np.array([[0, 0], [0, 1], [0, 2]]),
        error=ShapeError,
    ),
    Fixed(
        "map over it: weft.vmap(weft.random.fold_in, (None, 0))(key, data)",
        wrong=lambda: random.fold_in(KEY, np.arange(3)),
        fixed=lambda fix: bits(weft.vmap(weft.random.fold_in, (None, 0))(KEY, np.arange(3))),
        value=np.stack([bits(random.fold_in(KEY, i)) for i in range(3)]),
        error=ShapeError,
    ),
    Fixed(
        "pass impl='threefry2x32', or leave impl out",
        wrong=lambda: random.key(0, impl="threefry"),
        fixed=lambda fix: [bits(random.key(5, impl="threefry2x32")), bits(random.key(5))],
        value=[np.array([0, 5])] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "draw with replacement: replace=True",
        wrong=lambda: random.choice(KEY, 2, (3,), replace=False),
        fixed=lambda fix: random.choice(KEY, 2, (3,), replace=True),
        value=has((3,), "int32"),
        error=WeftValueError,
    ),
    Fixed(
        "draw with replacement: replace=True",
        wrong=lambda: random.categorical(KEY, jnp.log(CERTAIN), shape=(3,), replace=False),
        fixed=lambda fix: random.categorical(KEY, jnp.log(CERTAIN), shape=(3,), replace=True),
        value=np.ones(3),
        error=WeftValueError,
    ),
    Fixed(
        "pass shape=(n, *(2,))",
        wrong=lambda: random.categorical(KEY, jnp.log(jnp.stack([CERTAIN] * 2)), shape=(3,)),
        fixed=lambda fix: random.categorical(
            KEY, jnp.log(jnp.stack([CERTAIN] * 2)), shape=(3, *(2,))
        ),
        value=np.ones((3, 2)),
        error=ShapeError,
    ),
    Fixed(
        "pass a float, such as 0.5",
        wrong=lambda: random.bernoulli(KEY, 1),
        fixed=lambda fix: random.bernoulli(KEY, 1.0),
        value=True,
        error=DTypeError,
    ),
    Fixed(
        "pass (x[0], x[1]) for an array x of two words as the key",
        wrong=lambda: threefry_2x32(WORDS, (WORDS[0], WORDS[1])),
        fixed=lambda fix: threefry_2x32((WORDS[0], WORDS[1]), (WORDS[0], WORDS[1])),
        value=[np.uint32(0x6B200159), np.uint32(0x99BA4EFE)],
        error=WeftTypeError,
    ),
    Fixed(
        "for a key of two words pass key_shape=(2,)",
        wrong=lambda: generator_of("fixing", key_shape=2),
        fixed=lambda fix: generator_of("fixing", key_shape=(1,)),
        value=np.arange(2),
        error=WeftTypeError,
    ),
    Fixed(
        ["use the one there is (impl='threefry2x32')", "or choose another name and tag"],
        wrong=lambda: generator_of("threefry2x32"),
        fixed=lambda fix: [
            random.key_data(random.key(0, impl="threefry2x32")),
            generator_of("another name", tag="ano"),
        ],
        value=[np.zeros(2), np.arange(2)],
        error=WeftValueError,
    ),
    Fixed(
        "return u32[2]: x.astype('uint32').reshape((2,))",
        wrong=lambda: generator_of("fixing", untyped),
        fixed=lambda fix: generator_of(
            "fixing", lambda *drawn: untyped(*drawn).astype("uint32").reshape((2,))
        ),
        value=np.arange(2),
        error=WeftTypeError,
    ),
    Fixed(
        "pass their logarithms: weft.numpy.log(p)",
        wrong=lambda: random.categorical(KEY, np.array([0, 1])),
        fixed=lambda fix: random.categorical(KEY, weft.numpy.log(np.array([0, 1]))),
        value=1,
        error=DTypeError,
    ),
]
