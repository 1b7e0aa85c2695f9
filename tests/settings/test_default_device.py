"""`default_device`: arrays are made there, uncommitted ones are computed there, and come back."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config, lax

pytestmark = pytest.mark.fast

FIRST, SECOND, THIRD = weft.devices()[:3]
A = jnp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
double = weft.jit(lambda x: jnp.sin(x) * 2)

# Ways to come to an array, each with caches of its own; `A` lies on the first device.
WAYS = {
    "ones": lambda: jnp.ones((2, 2)),
    "arange": lambda: jnp.arange(3),
    "a number": lambda: jnp.asarray(3),
    "a list": lambda: jnp.array([[1, 2], [3, 4]]),
    "device_put": lambda: weft.device_put(np.ones(2)),
    "an operation": lambda: A + 1,
    "an index": lambda: A[0],
    "a slice": lambda: A[:, 1:],
    "a reshape": lambda: A.reshape(3, 2),
    "a transpose": lambda: A.T,
    "a function of NumPy": lambda: jnp.median(A, axis=0),
    "a method": lambda: A.sum(axis=1),
    "an update": lambda: A.at[0].set(1.0),
    "a jitted function": lambda: double(A),
    "a scan": lambda: lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(3.0))[1],
    "grad": lambda: weft.grad(lambda x: (x**2).sum())(A),
    "vmap": lambda: weft.vmap(lambda x: x.sum())(A),
    "random": lambda: weft.random.normal(weft.random.key(0), (3,)),
    "the bits of a key": lambda: weft.random.key_data(weft.random.key(1)),
    "linear algebra": lambda: jnp.linalg.inv(jnp.eye(3)),
    "a callback": lambda: weft.pure_callback(lambda x: x, weft.typeof(A), A),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_ends_on_the_default_device(way):
    before = way()
    for _ in range(2):  # the second call is served by a cache
        with weft.default_device(SECOND):
            there = way()
        assert there.devices() == {SECOND} and not there.committed
    np.testing.assert_array_equal(there, before)
    after = way()
    assert after.devices() == {FIRST} and after.signature is after.type
    np.testing.assert_array_equal(after, before)


def test_arrays_come_back():
    with weft.default_device(SECOND):
        y, key = jnp.sin(A), weft.random.key(3)
    for out in (
        y + 1, y + A, double(y), y[0], y.sum(), jnp.stack([y, A]), jnp.median(y),
        weft.random.normal(key, (2,)), weft.jit(lambda x: x + y)(A),
    ):  # fmt: skip
        assert out.devices() == {FIRST}
    np.testing.assert_allclose(y + A, np.sin(A) + np.asarray(A), rtol=1e-6)


def test_committed_arrays_stay():
    there = weft.device_put(np.ones(3, np.float32), THIRD)
    with weft.default_device(SECOND):
        assert (there * 2).devices() == {THIRD} and (there + jnp.ones(3)).devices() == {THIRD}
        elsewhere = jnp.ones(3)
    assert (there + elsewhere).devices() == {THIRD}


def test_several_devices():
    mesh = weft.make_mesh((2,), ("i",))
    split = weft.NamedSharding(mesh, weft.P("i"))
    with weft.default_device(THIRD):
        x = jnp.arange(4.0)
    assert weft.device_put(x, split).sharding == split
    assert weft.jit(lambda a, b: (a * b).sum())(weft.device_put(np.ones(4), split), x) == 6.0
    mapped = weft.shard_map(lambda b: b * 2, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    assert mapped(x).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_copies_and_donation():
    with weft.default_device(SECOND):
        x = jnp.arange(3.0)
    assert pickle.loads(pickle.dumps(x)).devices() == {FIRST}
    assert copy.deepcopy(x).tolist() == [0.0, 1.0, 2.0]
    assert weft.jit(lambda y: y + 1, donate_argnums=0)(x).tolist() == [1.0, 2.0, 3.0]


def test_names_and_mistakes():
    with weft.default_device("cpu"):
        assert jnp.ones(1).devices() == {FIRST}
    config.update("jax_default_device", SECOND)
    try:
        assert jnp.ones(1).devices() == {SECOND} and config.jax_default_device is SECOND
    finally:
        config.update("jax_default_device", None)
    for wrong in ("nonsense", 3):
        with pytest.raises(ValueError, match="default_device"), weft.default_device(wrong):
            pass
