"""Reading and writing with masks and past the end, atomic updates, and parts of references."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from experimental.pallas.kernel_calls import BLOCKS, F32, I32, S, V, call
from weft.experimental import pallas as pl
from weft.experimental.pallas import triton


def test_masks():
    def kernel(x, o):
        o[...] = jnp.zeros_like(o)
        even = jnp.arange(8) % 2 == 0
        pl.store(o, pl.ds(2, 8), x[pl.ds(0, 8)], mask=even)
        triton.store(o.at[10:14], triton.load(x.at[0:4], mask=jnp.arange(4) < 2, other=7))

    wanted = np.zeros(16, F32)
    wanted[2:10:2] = V[0:8:2]
    wanted[10:14] = [V[0], V[1], 7, 7]
    close(call(kernel, S((16,), F32))(V), wanted)


def test_slices_that_reach_past_the_end():
    def kernel(x, o, p):
        start = pl.program_id(0) * 6
        found = pl.load(x, (pl.ds(start, 6),))
        p[...] = found
        triton.store(o.at[pl.ds(start, 6)], found * 2)

    sixes = pl.BlockSpec((6,), lambda i: (i,))
    whole = pl.no_block_spec
    found, read = call(kernel, (S((16,), F32), S((18,), F32)), grid=3, out_specs=(whole, sixes))(V)
    close(found, 2 * V)
    close(read, [*V, np.nan, np.nan])


def test_every_other_element():
    def kernel(x, o):
        o[...] = x[pl.ds(0, 8, stride=2)] - x[pl.ds(1, 8, stride=2)]

    close(call(kernel, S((8,), F32))(V), V[::2] - V[1::2])


def test_what_stands_at_the_elements_of_an_index():
    def kernel(x, i, o):
        o[...] = x[i[...]]

    index = np.array([3, 1, 15, 0, 3], I32)
    close(call(kernel, S((5,), F32))(V, index), V[index])


def test_a_histogram():
    data = np.array([0, 3, 1, 3, 3, 2, 0, 1], I32)

    def kernel(x, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        pl.atomic_add(o, (x[...],), jnp.ones(4, I32))  # elements that are named twice count twice

    found = call(kernel, S((4,), I32), grid=2, in_specs=[BLOCKS])(data)
    np.testing.assert_array_equal(found, np.bincount(data))


OPERATIONS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_atomic_updates(name, masked):
    old, new = np.array([1, 6, 5, 7], I32), np.array([3, 4, 5, 6], I32)
    mask = np.array([True, False, True, True]) if masked else None

    def kernel(x, y, o, before):
        o[...] = x[...]
        keep = None if mask is None else jnp.arange(4) != 1
        before[...] = getattr(pl, f"atomic_{name}")(o, pl.ds(0, 4), y[...], mask=keep)

    found, before = call(kernel, (S((4,), I32), S((4,), I32)))(old, new)
    wanted = OPERATIONS[name](old, new)
    np.testing.assert_array_equal(found, wanted if mask is None else np.where(mask, wanted, old))
    np.testing.assert_array_equal(before, old)


def test_compare_and_swap():
    lock = weft.new_ref(jnp.int32(0))
    assert pl.atomic_cas(lock, 0, 5) == 0 and lock[...] == 5
    assert pl.atomic_cas(lock, 0, 7) == 5 and lock[...] == 5


def test_what_was_there_before():
    x = weft.new_ref(jnp.arange(4))
    before = pl.swap(x, slice(1, 3), jnp.array([8, 9]), mask=np.array([True, False]))
    np.testing.assert_array_equal(before, [1, 9])
    np.testing.assert_array_equal(x[...], [0, 8, 2, 3])


def test_state_of_a_function():
    def step(refs):
        refs["a"][...] += refs["b"][...]
        refs["b"][0] = 7.0

    found = pl.run_state(step)({"a": jnp.ones(2), "b": jnp.arange(2.0)})
    close(found["a"], [1, 2])
    close(found["b"], [7, 1])
