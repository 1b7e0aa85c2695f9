"""Functions made anew leave nothing behind: neither objects nor programs."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.runtime.backends import cache_keys

pytestmark = pytest.mark.filterwarnings("ignore::weft.errors.RetracingWarning")

X = np.arange(8, dtype=np.float32)
W = jnp.full(8, 2.0)
MESH = weft.make_mesh((8,), ("i",))
# What is kept for the next call, up to a bound, is there after so many.
WARM, CALLS = 300, 300


class Model:
    def __init__(self, weights):
        self.weights = weights

    def apply(self, x):
        return x * self.weights


def scaled(x, w):
    return x * w


def grad_of_custom_vjp(k):
    f = weft.custom_vjp(lambda x: jnp.sum(x * W))
    f.defvjp(lambda x: (jnp.sum(x * W), None), lambda _, ct: (ct * W,))
    return weft.grad(f)(X)


def over_devices(k):
    spec = weft.P("i")
    return weft.shard_map(lambda a: jnp.sin(a) * 2, mesh=MESH, in_specs=spec, out_specs=spec)(X)


static = weft.jit(lambda x, k: x + 1, static_argnums=1)

# The k-th call of each makes its function anew.
CALLED = {
    "jit of a lambda": lambda k: weft.jit(lambda x: x * W)(X),
    "jit over a new array": lambda k: weft.jit(
        functools.partial(lambda a, x: x * a, jnp.asarray(X + k))
    )(X),
    "jit over a new NumPy array": lambda k: (lambda a: weft.jit(lambda x: x * a)(X))(X + k),
    "jit of a partial": lambda k: weft.jit(functools.partial(scaled, w=W))(X),
    "jit of a method of a new object": lambda k: weft.jit(Model(W).apply)(X),
    "jit of grad of a lambda": lambda k: weft.jit(weft.grad(lambda x: jnp.sum(x * W)))(X),
    "grad of a lambda": lambda k: weft.grad(lambda x: jnp.sum(x * W))(X),
    "grad of custom_vjp": grad_of_custom_vjp,
    "vmap of a lambda": lambda k: weft.vmap(lambda x: x * 2)(X),
    "scan of a lambda": lambda k: lax.scan(lambda c, _: (c * W, None), X, None, length=3)[0],
    "cond of lambdas": lambda k: lax.cond(k % 2 == 0, lambda x: x * W, lambda x: x + W, X),
    "while_loop of lambdas": lambda k: lax.while_loop(lambda c: c[0] < 9, lambda c: c * W, X + 1),
    "checkpoint of a lambda": lambda k: weft.grad(weft.checkpoint(lambda x: jnp.sum(x * W)))(X),
    "make_jaxpr of a lambda": lambda k: weft.make_jaxpr(lambda x: x * W)(X),
    "shard_map of a lambda": over_devices,
}


def objects_after(use, numbers):
    for k in numbers:
        weft.block_until_ready(use(k))
    gc.collect()
    return len(gc.get_objects()), len(cache_keys._loaded)


@pytest.mark.parametrize("name", CALLED)
def test_nothing_is_left_behind(name, young_heap):
    # Caches of 512 traces and of what these need.
    warm = 900 if name == "jit over a new NumPy array" else WARM
    before = objects_after(CALLED[name], range(warm))
    after = objects_after(CALLED[name], range(warm, warm + CALLS))
    # Not one object for each call.
    assert after[0] - before[0] < CALLS / 10 and after[1] - before[1] <= 1


def test_static_values_share_their_program(young_heap):
    before = objects_after(lambda k: static(X, k), range(10))
    after = objects_after(lambda k: static(X, k), range(10, 50))
    assert after[1] == before[1]


def test_what_is_left_behind_is_found(young_heap):
    left = []
    before = objects_after(lambda k: left.append([k]), range(10))
    after = objects_after(lambda k: left.append([k]), range(10, 10 + CALLS))
    assert after[0] - before[0] >= CALLS
