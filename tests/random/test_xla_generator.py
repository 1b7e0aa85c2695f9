"""`rng_bit_generator` and `rng_uniform`: XLA's random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import ShapeError, WeftValueError

KEY = np.array([1, 2, 3, 4], np.uint32)


# What JAX 0.10.2 gives: jax.lax.rng_bit_generator(KEY, (3,), dtype, algorithm).
@pytest.mark.parametrize(
    ("dtype", "algorithm", "key", "bits"),
    [
        ("uint32", 0, [1, 2, 4, 4], [512747620, 1298009047, 1267190206]),
        ("uint32", 1, [1, 2, 5, 4], [1576285164, 2249660814, 740599976]),
        ("uint32", 2, [1, 2, 4, 4], [512747620, 1298009047, 1267190206]),
        ("uint16", 1, [1, 2, 5, 4], [13292, 6542, 43176]),
        ("uint8", 0, [1, 2, 4, 4], [100, 215, 190]),
    ],
)
def test_bits_are_those_of_xla(dtype, algorithm, key, bits):
    for function in (
        lax.rng_bit_generator,
        weft.jit(lax.rng_bit_generator, static_argnums=(1, 2, 3)),
    ):
        after, found = function(KEY, (3,), dtype, algorithm)
        assert after.tolist() == key and found.tolist() == bits and found.dtype == dtype


def test_each_mapped_key_has_bits_of_its_own():
    keys = np.stack([KEY, KEY + 1])
    after, bits = weft.vmap(lambda key: lax.rng_bit_generator(key, (2,)))(keys)
    for i, key in enumerate(keys):
        one, few = lax.rng_bit_generator(key, (2,))
        assert after[i].tolist() == one.tolist() and bits[i].tolist() == few.tolist()


def test_a_key_of_two_wide_words_and_algorithms_by_name():
    with weft.enable_x64():
        wide = KEY.view(np.uint64)
        bits = lax.rng_bit_generator(wide, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)[1]
        assert bits.tolist() == lax.rng_bit_generator(KEY, (3,), algorithm=2)[1].tolist()
    with pytest.raises(WeftValueError, match="algorithm"):
        lax.rng_bit_generator(KEY, (3,), algorithm=7)
    with pytest.raises(ShapeError):
        lax.rng_bit_generator(KEY[:2], (3,))


def test_uniform_numbers_are_within_bounds():
    found = np.asarray(lax.rng_uniform(2.0, 3.0, (1000,)))
    assert found.min() >= 2 and found.max() < 3 and abs(found.mean() - 2.5) < 0.05
    whole = np.asarray(weft.jit(lambda b: lax.rng_uniform(np.int32(0), b, (1000,)))(np.int32(4)))
    assert set(whole.tolist()) == {0, 1, 2, 3}
    rows = weft.vmap(lambda b: lax.rng_uniform(0.0, b, (100,)))(jnp.array([1.0, 10.0]))
    assert rows.shape == (2, 100) and rows[0].max() < 1 < rows[1].max() < 10
