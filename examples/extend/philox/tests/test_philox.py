"""The cipher against Random123's known answers and Python integers; keys under transformations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from philox import PHILOX, philox_4x32

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.errors import ShapeError, WeftTypeError

# (key, counter, result), from the file kat_vectors of Random123.
KNOWN = [
    ("00000000 00000000", "00000000 00000000 00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff", "ffffffff ffffffff ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("a4093822 299f31d0", "243f6a88 85a308d3 13198a2e 03707344",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return [np.uint32(int(word, 16)) for word in text.split()]


def in_python(key, counter):
    """The cipher in Python integers, round by round as the paper has it."""
    mask = 0xFFFFFFFF
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & mask, p0 >> 32 ^ c3 ^ k1, p0 & mask
        k0, k1 = k0 + 0x9E3779B9 & mask, k1 + 0xBB67AE85 & mask
    return [c0, c1, c2, c3]


@pytest.mark.parametrize(("key", "counter", "result"), KNOWN)
def test_known_answers(key, counter, result):
    found = philox_4x32(words(key), words(counter))
    assert [f"{int(word):08x}" for word in found] == result.split()
    assert [f"{word:08x}" for word in in_python(*(map(int, words(x)) for x in (key, counter)))] == (
        result.split()
    )


@pytest.mark.parametrize("n", [1, 5, 600])
def test_arrays_of_words(n):
    drawn = np.random.default_rng(n).integers(0, 2**32, (6, n), np.uint32)
    found = philox_4x32(drawn[:2], drawn[2:])
    wanted = [in_python(map(int, column[:2]), map(int, column[2:])) for column in drawn.T]
    np.testing.assert_array_equal(np.stack(found).T, wanted)
    under_jit = weft.jit(lambda x: philox_4x32(x[:2], x[2:]))(drawn)
    np.testing.assert_array_equal(np.stack(under_jit).T, wanted)
    mapped = weft.vmap(lambda k, c: philox_4x32(k, c), (1, 1))(drawn[:2], drawn[2:])
    np.testing.assert_array_equal(np.stack(mapped).T, wanted)


def test_words_of_other_kinds():
    word = np.uint32(0)
    with pytest.raises(WeftTypeError, match="two words and a counter of four"):
        philox_4x32([word], [word] * 4)
    with pytest.raises(WeftTypeError, match="uint32") as info:
        philox_4x32([np.int32(0)] * 2, [word] * 4)
    fixed = [np.int32(0).astype(info.value.fix.data["dtype"])] * 2
    assert philox_4x32(fixed, [word] * 4)[0] == 0x6627E8D5
    with pytest.raises(ShapeError, match="one shape"):
        philox_4x32([np.zeros(2, "uint32")] * 2, [np.zeros(3, "uint32")] * 4)


# ---- the generator -----------------------------------------------------------------------------


def key(seed=0):
    return random.key(seed, impl="philox4x32")


def test_keys_of_seeds():
    assert key(7).dtype is PHILOX.dtype
    assert random.key_data(key(7)).tolist() == [7, 0]
    assert random.key_data(key(-1)).tolist() == [2**32 - 1, 0]
    with weft.config.override(enable_x64=True):
        assert random.key_data(key(2**40 + 5)).tolist() == [5, 2**8]
    assert random.key_impl(key()) == "philox4x32"


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 0), (33,)])
def test_bits_are_words_of_consecutive_blocks(width, shape):
    n = int(np.prod(shape))
    drawn = random.bits(key(3), shape, f"uint{width}")
    assert drawn.shape == shape and drawn.dtype == f"uint{width}"
    count = -(-n * width // 128)
    made = np.array([in_python((3, 0), (i, 0, 0, 0)) for i in range(count)], np.uint32)
    made = made.reshape(count, 4).T
    if width == 64:
        pairs = made[:2].astype(np.uint64) << np.uint64(32) | made[2:].astype(np.uint64)
        wanted = pairs.ravel()
    else:
        wanted = np.ascontiguousarray(made).ravel().view(f"uint{width}")
    np.testing.assert_array_equal(np.asarray(drawn).ravel(), wanted[:n])


def test_derived_keys():
    parent = key(11)
    split = np.asarray(random.key_data(random.split(parent, (2, 3))))
    wanted = [in_python((11, 0), (i, 0, 0, 1))[:2] for i in range(6)]
    np.testing.assert_array_equal(split.reshape(6, 2), wanted)
    folded = random.key_data(random.fold_in(parent, 5))
    np.testing.assert_array_equal(folded, in_python((11, 0), (5, 0, 0, 2))[:2])


def test_the_same_numbers_under_every_transformation():
    draw = lambda k: random.normal(k, (4,))  # noqa: E731
    keys = random.split(key(1), 8)
    wanted = np.stack([draw(k) for k in keys])
    np.testing.assert_array_equal(weft.vmap(draw)(keys), wanted)
    np.testing.assert_array_equal(weft.jit(weft.vmap(draw))(keys), wanted)
    np.testing.assert_array_equal(lax.map(draw, keys), wanted)
    last, drawn = lax.scan(lambda k, _: (random.split(k)[0], draw(k)), keys[0], None, length=3)
    assert last.dtype is PHILOX.dtype
    np.testing.assert_array_equal(drawn[0], wanted[0])
    gradient = weft.grad(lambda scale: (scale * draw(keys[0])).sum())(2.0)
    np.testing.assert_allclose(gradient, wanted[0].sum(), rtol=1e-6)


def test_over_devices_and_in_a_pickle():
    keys = random.split(key(2), 8)
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    spec = weft.sharding.PartitionSpec("i")
    drawn = weft.shard_map(
        lambda k: weft.vmap(lambda one: random.uniform(one, (3,)))(k),
        mesh=mesh, in_specs=spec, out_specs=spec,
    )(keys)  # fmt: skip
    np.testing.assert_array_equal(drawn, weft.vmap(lambda k: random.uniform(k, (3,)))(keys))
    back = pickle.loads(pickle.dumps(keys))
    assert back.dtype is PHILOX.dtype
    np.testing.assert_array_equal(random.key_data(back), random.key_data(keys))


def test_keys_of_two_generators_do_not_mix():
    with pytest.raises(WeftTypeError):
        jnp.concatenate([random.split(key()), random.split(random.key(0))])
