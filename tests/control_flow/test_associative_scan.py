"""`associative_scan`: all prefixes of an associative combination, against a loop."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from weft import lax
from weft.errors import AxisError, ShapeError, TreeError, WeftTypeError
from weft.testing import check_grads

pytestmark = pytest.mark.fast

generator = np.random.default_rng(3)


def prefixes(combine, elems, reverse=False):
    """The same in NumPy, for one array along its first axis."""
    rows = list(elems[::-1] if reverse else elems)
    for i in range(1, len(rows)):
        rows[i] = combine(rows[i - 1], rows[i])
    return np.array(rows[::-1] if reverse else rows).reshape(elems.shape)


def products(elems, reverse=False):
    return prefixes(lambda a, b: a @ b, elems.astype(np.float64), reverse)


def matrices(n):
    return (generator.normal(size=(n, 2, 2)) * 0.7).astype(np.float32)


@pytest.mark.parametrize("length", range(21))
@pytest.mark.parametrize("reverse", [False, True])
def test_a_product_that_does_not_commute_for_every_length(length, reverse):
    elems = matrices(length)
    got = lax.associative_scan(jnp.matmul, elems, reverse=reverse)
    assert got.dtype == np.float32
    close(got, products(elems, reverse), 1e-4, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_axis(axis, reverse):
    elems = generator.normal(size=(4, 5, 3)).astype(np.float32)
    moved = prefixes(np.add, np.moveaxis(elems, axis, 0).astype(np.float64), reverse)
    for run in (lax.associative_scan, weft.jit(lax.associative_scan, static_argnums=(0, 2, 3))):
        close(run(jnp.add, elems, reverse, axis), np.moveaxis(moved, 0, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_trees_with_one_axis(axis):
    """Linear recurrences x' = a x + b, composed: the state-space use of the operation."""

    def compose(first, second):
        return {"a": first["a"] * second["a"], "b": [first["b"][0] * second["a"] + second["b"][0]]}

    a = generator.normal(size=(3, 6)).astype(np.float32)
    b = generator.normal(size=(3, 6)).astype(np.float32)
    steps, starts = (np.moveaxis(v.astype(np.float64), axis, 0) for v in (a, b))
    wanted_a, wanted_b = np.cumprod(steps, 0), np.zeros_like(starts)
    x = np.zeros_like(starts[0])
    for i in range(len(starts)):
        x = steps[i] * x + starts[i]
        wanted_b[i] = x
    got = lax.associative_scan(compose, {"a": a, "b": [b]}, axis=axis)
    close(got, {"a": np.moveaxis(wanted_a, 0, axis), "b": [np.moveaxis(wanted_b, 0, axis)]}, 1e-4)


def test_other_dtypes_and_nothing():
    assert lax.associative_scan(jnp.maximum, np.array([3, 1, 4, 1, 5], np.int8)).tolist() == [
        *(3, 3, 4, 4, 5)
    ]
    flags = np.array([False, True, False, False])
    assert lax.associative_scan(jnp.logical_or, flags).tolist() == [False, True, True, True]
    assert lax.associative_scan(jnp.logical_or, flags, reverse=True).tolist() == [
        *(True, True, False, False)
    ]
    xs = jnp.array([1.0, 2.0, 3.0], "bfloat16")
    assert lax.associative_scan(jnp.add, xs).dtype == weft.dtypes.bfloat16
    z = np.array([1j, 2.0, 1 - 1j], np.complex64)
    close(lax.associative_scan(jnp.multiply, z), np.cumprod(z))
    assert lax.associative_scan(jnp.add, {"none": None}) == {"none": None}
    assert lax.associative_scan(jnp.add, ()) == ()


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(reverse):
    elems = jnp.array(generator.normal(size=(5, 2, 2)), np.float64)

    def f(elems):
        return lax.associative_scan(jnp.matmul, elems, reverse=reverse)

    check_grads(f, (elems,), 1)
    check_grads(weft.jit(lambda x: lax.associative_scan(jnp.multiply, x)), (elems[:3, 0, 0],), 2)


def test_a_gradient_by_hand():
    x = np.array([1.5, -2.0, 0.5, 3.0], np.float32)
    weights = np.array([1.0, 10.0, 100.0, 1000.0], np.float32)

    def f(x):
        return jnp.sum(lax.associative_scan(jnp.multiply, x) * weights)

    # d/dx_j of sum_i w_i prod(x_0..x_i) is the sum over i >= j of w_i prod(x_0..x_i) / x_j.
    terms = weights * np.cumprod(x.astype(np.float64))
    wanted = np.cumsum(terms[::-1])[::-1] / x
    for grad in (weft.grad(f), weft.jit(weft.grad(f))):
        close(grad(x), wanted)


@pytest.mark.parametrize("in_axis", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap(in_axis, axis):
    batch = generator.normal(size=(2, 5, 3)).astype(np.float32)
    wanted = np.cumsum(batch.astype(np.float64), axis + 1)
    moved = np.moveaxis(batch, 0, in_axis)
    mapped = weft.vmap(lambda x: lax.associative_scan(jnp.add, x, axis=axis), in_axis)
    close(mapped(moved), wanted)
    close(weft.jit(mapped)(moved), wanted)
    gradients = weft.vmap(
        weft.grad(lambda x: jnp.sum(lax.associative_scan(jnp.add, x, axis=axis))), in_axis
    )(moved)
    counts = np.arange(batch.shape[axis + 1], 0, -1).reshape((-1, 1) if axis == 0 else (1, -1))
    close(gradients, np.broadcast_to(counts, batch.shape))


def test_the_number_of_calls_grows_with_the_logarithm():
    calls = []

    def add(a, b):
        calls.append(a.shape)
        return a + b

    for n in (2, 16, 1024):
        calls.clear()
        lax.associative_scan(add, np.ones(n, np.float32))
        assert len(calls) <= 2 * np.log2(n)
        assert sum(shape[0] for shape in calls) <= 2 * n  # linear work


# ---- errors ------------------------------------------------------------------------------------


def test_what_cannot_be_combined():
    xs = np.ones((3, 2), np.float32)
    with pytest.raises(WeftTypeError, match="takes a function first, not int"):
        lax.associative_scan(3, xs)
    with pytest.raises(ShapeError, match="elems has no axis") as info:
        lax.associative_scan(jnp.add, 1.0)
    assert info.value.fix.kind == "stack"
    with pytest.raises(ShapeError, match="different lengths along axis 1") as info:
        lax.associative_scan(lambda a, b: a, {"a": xs, "b": np.ones((3, 4))}, axis=1)
    assert "elems['a']: f32[3,2]" in str(info.value) and "elems['b']" in str(info.value)
    assert info.value.fix.kind == "same_length"
    with pytest.raises(AxisError, match="associative_scan: axis 2 is out of range"):
        lax.associative_scan(jnp.add, xs, axis=2)
    with pytest.raises(WeftTypeError, match=r"elems\[1\] is no array"):
        lax.associative_scan(jnp.add, (xs, "text"))


def test_functions_that_do_not_return_what_they_take():
    xs = np.ones((4, 2), np.float32)
    with pytest.raises(TreeError, match="another structure") as info:
        lax.associative_scan(lambda a, b: (a, b), xs)
    assert info.value.fix.kind == "same_structure"
    with pytest.raises(WeftTypeError, match=r"result\['a'\]") as info:
        lax.associative_scan(lambda a, b: {"a": (a["a"] > b["a"])}, {"a": xs})
    assert info.value.fix.kind == "convert"
    assert "f32[2,2]" in info.value.wanted and "bool[2,2]" in info.value.got
    with pytest.raises(WeftTypeError, match="another type"):
        lax.associative_scan(lambda a, b: jnp.sum(a) + jnp.sum(b), xs)
    with pytest.raises(WeftTypeError, match="no array"):
        lax.associative_scan(lambda a, b: "text", xs)
    fixed = lax.associative_scan(lambda a, b: (a > b).astype(a.dtype), xs)
    assert fixed.dtype == np.float32
