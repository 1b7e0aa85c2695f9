"""`ravel_pytree`: trees of arrays as one vector, and back."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import DTypeError, ShapeError, WeftTypeError
from weft.flatten_util import ravel_pytree

TREE = {"b": (jnp.arange(2.0), None), "a": jnp.ones((2, 2)) * 3, "c": 5.0}


def test_there_and_back():
    flat, unravel = ravel_pytree(TREE)
    assert flat.tolist() == [3.0, 3.0, 3.0, 3.0, 0.0, 1.0, 5.0]
    back = unravel(2 * flat)
    assert weft.tree.structure(back) == weft.tree.structure(TREE)
    assert back["a"].shape == (2, 2) and float(back["c"]) == 10.0
    assert unravel(np.asarray(flat))["b"][0].tolist() == [0.0, 1.0]


def test_dtypes_are_promoted_and_restored():
    flat, unravel = ravel_pytree([jnp.ones(2), jnp.arange(3), np.array(True)])
    assert flat.dtype == "float32"
    assert [x.dtype.name for x in unravel(flat)] == ["float32", "int32", "bool"]
    wide, back = ravel_pytree([jnp.ones(1, "complex64") * 1j, jnp.ones(1)])
    assert wide.tolist() == [1j, 1] and back(wide)[1].tolist() == [1.0]
    # Of leaves of one dtype any dtype comes back.
    _, same = ravel_pytree([jnp.ones(2), jnp.ones(1)])
    assert same(jnp.arange(3))[1].dtype == "int32"


def test_nothing_at_all():
    flat, unravel = ravel_pytree({"a": None})
    assert flat.shape == (0,) and unravel(flat) == {"a": None}
    flat, unravel = ravel_pytree(jnp.ones((0, 3)))
    assert flat.shape == (0,) and unravel(flat).shape == (0, 3)


def test_transformations_pass_through():
    flat, unravel = ravel_pytree(TREE)

    def loss(v):
        return (unravel(v)["a"] ** 2).sum() + unravel(v)["c"]

    assert weft.jit(weft.grad(loss))(flat).tolist() == [6.0, 6.0, 6.0, 6.0, 0.0, 0.0, 1.0]
    rows = weft.vmap(lambda x: ravel_pytree({"x": x, "s": x.sum()})[0])(jnp.ones((2, 3)))
    assert rows.tolist() == [[3.0, 1.0, 1.0, 1.0]] * 2
    assert weft.vmap(unravel)(jnp.stack([flat, flat]))["a"].shape == (2, 2, 2)


def test_the_way_back_is_a_value():
    unravel, again = ravel_pytree(TREE)[1], ravel_pytree(TREE)[1]
    assert unravel == again and hash(unravel) == hash(again)
    traced = []

    def f(v, unravel):
        traced.append(1)
        return unravel(v)["c"]

    g = weft.jit(f, static_argnums=1)
    assert float(g(jnp.ones(7), unravel)) == float(g(jnp.ones(7), again)) == 1.0
    assert len(traced) == 1


def test_vectors_that_do_not_fit_are_refused():
    _, unravel = ravel_pytree([jnp.ones(2), jnp.arange(3)])
    with pytest.raises(ShapeError, match="length 5"):
        unravel(jnp.ones(4))
    with pytest.raises(DTypeError, match="float32"):
        unravel(jnp.arange(5))
    with pytest.raises(WeftTypeError, match="no array"):
        ravel_pytree(["text"])
