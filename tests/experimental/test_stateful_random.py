"""Random generators with state: numbers of `weft.random` with keys that are counted on."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import equal
from weft import lax, random
from weft.errors import WeftTypeError, WeftValueError
from weft.experimental.random import stateful_rng

pytestmark = pytest.mark.fast


def keys_of(seed, count):
    return [random.fold_in(random.key(seed), i) for i in range(count)]


def test_draws_are_those_of_keys_in_order():
    rng, keys = stateful_rng(7), keys_of(7, 8)
    equal(random.key_data(rng.key()), random.key_data(keys[0]))
    equal(random.key_data(rng.key((2, 3))), random.key_data(random.split(keys[1], (2, 3))))
    equal(rng.random(4), random.uniform(keys[2], (4,)))
    equal(
        rng.uniform(1, np.array([2.0, 3.0])),
        random.uniform(keys[3], (2,), None, 1, np.array([2.0, 3.0])),
    )
    equal(rng.normal(1, 2, (3,)), 1 + 2 * random.normal(keys[4], (3,)))
    equal(rng.integers(10, size=3), random.randint(keys[5], (3,), 0, 10))
    equal(rng.integers(2, np.array([3, 9])), random.randint(keys[6], (2,), 2, jnp.array([3, 9])))
    assert rng.normal(size=2, dtype="float16").dtype == "float16"
    # What JAX 0.10.2 draws: jax.experimental.random.stateful_rng(7).normal(1, 2, (3,)).
    np.testing.assert_allclose(
        stateful_rng(7).normal(1, 2, (3,)), [3.2280943, 1.2832626, -0.0449084], rtol=1e-6
    )


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_compiled_draws_go_on_counting(impl):
    rng, eager = stateful_rng(3, impl=impl), stateful_rng(3, impl=impl)
    draw = weft.jit(rng.uniform)
    equal([draw(), rng.uniform(), draw()], [eager.uniform() for _ in range(3)])


def test_inside_loops_and_traced_functions():
    def total(seed):
        rng = stateful_rng(seed)
        return lax.fori_loop(0, 4, lambda _, total: total + rng.uniform(), 0.0)

    want = sum(np.float32(random.uniform(key)) for key in keys_of(5, 4))
    np.testing.assert_allclose(weft.jit(total)(5), want, rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(total)(np.array([5, 5])), [want, want], rtol=1e-6)
    np.testing.assert_allclose(
        weft.grad(lambda x: x * stateful_rng(5).uniform())(2.0), random.uniform(keys_of(5, 1)[0])
    )


def test_children_are_those_of_a_split_key():
    keys = random.split(keys_of(7, 1)[0], 2)
    want = [random.uniform(random.fold_in(key, 0), (3,)) for key in keys]
    equal([child.uniform(size=3) for child in stateful_rng(7).spawn(2)], want)
    equal(weft.vmap(lambda rng: rng.uniform(size=3))(stateful_rng(7).split(2)), want)
    assert stateful_rng(7).spawn(0) == []


def test_without_a_seed():
    assert float(stateful_rng().uniform()) != float(stateful_rng().uniform())
    with pytest.raises(WeftTypeError, match="needs a seed") as info:
        weft.jit(lambda: stateful_rng().uniform())()
    weft.jit(lambda: stateful_rng(**info.value.fix.data).uniform())()


@pytest.mark.parametrize("method", ["spawn", "split"])
def test_bad_counts(method):
    with pytest.raises(WeftValueError, match="negative"):
        getattr(stateful_rng(0), method)(-1)


def test_bad_seeds():
    for seed in (1.5, "a", np.arange(2), random.key(0)):
        with pytest.raises(WeftTypeError):
            stateful_rng(seed)
