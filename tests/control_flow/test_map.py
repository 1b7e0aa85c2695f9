"""`lax.map`: one element after the other, or several at once with `batch_size`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import equations, names
from weft import lax
from weft.errors import LeakedTracerError, ShapeError, WeftTypeError, WeftValueError

pytestmark = pytest.mark.fast

XS = np.linspace(-1.0, 2.0, 7).astype(np.float32)
ROWS = np.linspace(-1.0, 1.0, 21).reshape(7, 3).astype(np.float32)
SIZES = [None, 1, 2, 3, 6, 7, 8, 100]


def apart(d):
    """A function of a tree, with results of several ranks, a constant, an integer and None."""
    return {
        "scalar": jnp.sin(d["a"]) * jnp.sum(d["b"]),
        "rows": (jnp.stack([d["b"], d["b"] * d["a"]]), None),
        "one": 1,
        "sign": d["a"] > 0,
    }


@pytest.mark.parametrize("batch_size", SIZES)
def test_values_for_every_batch_size(batch_size):
    xs = {"a": XS, "b": ROWS}
    a, b = XS.astype(np.float64), ROWS.astype(np.float64)
    wanted = {
        "scalar": np.sin(a) * b.sum(1),
        "rows": (np.stack([b, b * a[:, None]], 1), None),
        "one": np.ones(7),
        "sign": a > 0,
    }
    run = functools.partial(lax.map, apart, batch_size=batch_size)
    for got in (run(xs), weft.jit(run)(xs)):
        close(got, wanted)
        assert got["one"].dtype == np.int32 and got["sign"].dtype == np.bool_
        assert got["rows"][0].shape == (7, 2, 3)


@pytest.mark.parametrize("batch_size", SIZES)
@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_arrays(batch_size, length):
    out, whole = lax.map(
        lambda x: (x * 2.0, x.astype(np.int8)), ROWS[:length], batch_size=batch_size
    )
    close(out, ROWS[:length] * 2.0)
    assert whole.shape == (length, 3) and whole.dtype == np.int8


def test_one_element_at_a_time_or_several():
    assert names(weft.make_jaxpr(lambda xs: lax.map(jnp.sin, xs))(XS).jaxpr) == ["scan", "sin"]

    def shapes(batch_size):
        jaxpr = weft.make_jaxpr(lambda xs: lax.map(jnp.sin, xs, batch_size=batch_size))(XS).jaxpr
        return [eqn.outputs[0].type.shape for eqn in equations(jaxpr, "sin")]

    assert shapes(1) == [(1,)]
    assert shapes(2) == [(2,), (1,)]  # three pairs in a loop, and the element that is left
    assert shapes(7) == [(7,)] and shapes(100) == [(7,)]


@pytest.mark.parametrize("batch_size", [None, 2, 7])
def test_keys_and_other_dtypes(batch_size):
    keys = weft.random.split(weft.random.key(0), 7)
    got = lax.map(weft.random.uniform, keys, batch_size=batch_size)
    close(got, np.array([float(weft.random.uniform(k)) for k in keys]))
    children = lax.map(weft.random.split, keys, batch_size=batch_size)
    assert children.shape == (7, 2) and children.dtype == keys.dtype
    xs = jnp.array(XS, "bfloat16")
    assert lax.map(lambda x: x * 2, xs, batch_size=batch_size).dtype == weft.dtypes.bfloat16
    z = jnp.array(XS + 1j * XS, np.complex64)
    close(lax.map(lambda z: z * z, z, batch_size=batch_size), (XS + 1j * XS) ** 2)


@pytest.mark.parametrize("batch_size", [None, 2, 7])
def test_derivatives_mapping_and_closures(batch_size):
    def f(w, xs):
        return jnp.sum(lax.map(lambda x: jnp.sin(w * x) * x, xs, batch_size=batch_size))

    w, xs = 1.5, XS.astype(np.float64)
    of_w = np.sum(np.cos(w * xs) * xs * xs)
    of_xs = np.cos(w * xs) * w * xs + np.sin(w * xs)
    for grad in (weft.grad(f, (0, 1)), weft.jit(weft.grad(f, (0, 1)))):
        close(grad(w, XS), (of_w, of_xs))
    close(weft.jvp(lambda w: f(w, XS), (w,), (1.0,))[1], of_w)
    second = -np.sum(np.sin(w * xs) * xs**3)
    close(weft.grad(weft.grad(f))(w, XS), second)
    close(weft.jvp(weft.grad(f), (w, XS), (1.0, np.zeros_like(XS)))[1], second)
    ws = np.array([1.5, -0.5], np.float32)
    wanted = [np.sum(np.cos(v * xs) * xs * xs) for v in ws]
    close(weft.vmap(weft.grad(f), (0, None))(ws, XS), np.array(wanted))
    both = np.stack([XS, XS[::-1]], 1)
    close(
        weft.vmap(lambda xs: lax.map(jnp.sin, xs, batch_size=batch_size), 1)(both), np.sin(both.T)
    )


def test_named_axes_of_vmap_are_not_those_of_the_batch():
    def f(xs):
        return lax.map(lambda x: x - lax.pmean(x, "i"), xs, batch_size=2)

    got = weft.vmap(f, axis_name="i")(ROWS)
    close(got, ROWS - ROWS.mean(0), 1e-5, 1e-6)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, "2"])
def test_bad_batch_sizes(batch_size):
    with pytest.raises((WeftValueError, WeftTypeError), match="batch_size") as info:
        lax.map(jnp.sin, XS, batch_size=batch_size)
    close(lax.map(jnp.sin, XS, **info.value.fix.data), np.sin(XS))


def test_a_batch_size_that_is_traced():
    def run(n):
        return lax.map(jnp.sin, XS, batch_size=n)

    with pytest.raises(WeftTypeError, match="batch_size"):
        weft.jit(run)(2)
    close(weft.jit(run, static_argnums=0)(2), np.sin(XS))


@pytest.mark.parametrize("batch_size", [None, 2])
def test_what_cannot_be_mapped(batch_size):
    run = functools.partial(lax.map, batch_size=batch_size)
    with pytest.raises(WeftTypeError, match="map takes a function first, not int"):
        run(3, XS)
    with pytest.raises(ShapeError, match=r"map of sin: xs\['q'\] has no axis") as info:
        run(jnp.sin, {"q": 1.0})
    assert info.value.fix.kind == "stack"
    with pytest.raises(ShapeError, match="lengths differ") as info:
        run(lambda x: x[0], (XS, ROWS[:3]))
    assert "xs[0]: f32[7]" in str(info.value) and "xs[1]: f32[3,3]" in str(info.value)
    with pytest.raises(WeftValueError, match="nothing says how many") as info:
        run(jnp.sin, ())
    assert info.value.fix.text.startswith("use weft.lax.scan")
    with pytest.raises(WeftTypeError, match=r"xs\[1\] is no array"):
        run(jnp.sin, (XS, "text"))
    with pytest.raises(WeftTypeError, match=r"map of words returned .* no array at \['q'\]"):

        def words(x):
            return {"q": "text"}

        run(words, XS)
    assert run(lambda x: None, XS) is None


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_value_that_escapes(batch_size):
    kept = []

    def leaky(x):
        kept.append(x * 2.0)
        return x

    lax.map(leaky, XS, batch_size=batch_size)
    with pytest.raises(LeakedTracerError, match="leaky") as info:
        kept[0] + 1.0
    assert "test_map.py" in str(info.value)
