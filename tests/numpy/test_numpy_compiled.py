"""Functions of the numpy layer: one program when eager, their primitives when traced."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import DeletedArrayError, LeakedTracerError
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.kinds.compiled_functions import is_eager
from weft.ops.elementwise.arithmetic import add, exp, mul, sin

CALLS: list[str] = []


@private_function
def wave(x: Prepared, y: Prepared, *, times: Passed):
    """An example: several primitives and a static argument."""
    CALLS.append("wave")
    for _ in range(times):
        x = mul(sin(x), exp(y))
    return x


@private_function
def pair(x: Prepared, *, shift: Passed):
    """An example with two results."""
    return add(x, x.dtype.type(shift)), mul(x, x)


def reference(x, y, times):
    for _ in range(times):
        x = np.sin(x) * np.exp(y)
    return x


X, Y = np.linspace(0, 1, 5, dtype=np.float32), np.linspace(-1, 0, 5, dtype=np.float32)


def test_an_eager_call_traces_and_compiles_once_per_types_and_static_arguments():
    CALLS.clear()
    for _ in range(3):
        np.testing.assert_allclose(wave(X, Y, times=3), reference(X, Y, 3), rtol=1e-6)
        np.testing.assert_allclose(
            wave(jnp.asarray(X), jnp.asarray(Y), times=3), reference(X, Y, 3), rtol=1e-6
        )
    assert len(CALLS) == 1
    wave(X, Y, times=4)
    wave(X[:3], Y[:3], times=3)
    assert len(CALLS) == 3


def test_while_traced_its_primitives_stand_in_the_program():
    jaxpr = weft.make_jaxpr(lambda x, y: wave(x, y, times=2))(X, Y)
    names = [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns]
    assert sorted(names) == ["exp", "exp", "mul", "mul", "sin", "sin"]


def test_eager_transformations_derive_its_program_once():
    with weft.enable_x64():
        x, y = X.astype(np.float64), Y.astype(np.float64)
        slope = weft.grad(lambda x: wave(x, y, times=2).sum())
        first = slope(x)
        CALLS.clear()
        np.testing.assert_array_equal(slope(x), first)
        assert not CALLS
        middle = np.sin(x) * np.exp(y)
        by_hand = np.cos(x) * np.exp(y) * np.cos(middle) * np.exp(y)
        np.testing.assert_allclose(first, by_hand, rtol=1e-12)
        both = weft.vmap(lambda x: wave(x, y[0], times=2))(x)
        np.testing.assert_allclose(both, reference(x, y[0], 2), rtol=1e-12)


def test_several_results():
    one, two = pair(jnp.asarray(X), shift=1)
    np.testing.assert_allclose(one, X + 1, rtol=1e-6)
    np.testing.assert_allclose(two, X * X, rtol=1e-6)
    one, two = weft.jit(lambda x: pair(x, shift=1))(X)
    np.testing.assert_allclose(two, X * X, rtol=1e-6)


def test_settings_are_part_of_what_is_remembered():
    assert jnp.sum(jnp.ones(2, "int8")).dtype == np.int32
    with weft.enable_x64():
        assert jnp.sum(jnp.ones(2, "int8")).dtype == np.int64


def test_is_eager():
    seen = []
    assert is_eager()
    weft.jit(lambda x: seen.append(is_eager()) or x)(1.0)
    weft.jvp(lambda x: seen.append(is_eager()) or x, (1.0,), (1.0,))
    assert seen == [False, False]


def test_a_deleted_array_is_named_as_the_fault():
    x = jnp.arange(4.0)
    jnp.std(x), x[1:3], x.at[0].set(1)
    x.delete()
    for use in (
        lambda: jnp.std(x),
        lambda: jnp.median(x),
        lambda: x[1:3],
        lambda: x[jnp.array([1])],
        lambda: x.at[0].set(1),
        lambda: jnp.concatenate([x, x]),
    ):
        with pytest.raises(DeletedArrayError, match="deleted"):
            use()


def test_a_leaked_value_is_named_as_the_fault():
    kept = []
    weft.jit(lambda x: kept.append(x) or x)(X)
    for use in (
        lambda: jnp.std(kept[0]),
        lambda: kept[0][1:3],
        lambda: kept[0].at[0].set(1),
        lambda: jnp.concatenate([kept[0], X]),
    ):
        with pytest.raises(LeakedTracerError):
            use()
