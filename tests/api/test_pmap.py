"""`pmap`: the results of vmap and of NumPy, one device per slice, under every transformation."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.api.pmap import pmap
from weft.errors import AxisError, ShapeError, TreeError, WeftTypeError, WeftValueError
from weft.sharding import NamedSharding, PartitionSpec

pytestmark = pytest.mark.fast

rng = np.random.default_rng(0)
XS = rng.normal(size=(8, 3)).astype(np.float32)
W = rng.normal(size=(3, 2)).astype(np.float32)
close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


def layer(x, w):
    return jnp.tanh(x @ w)


def layer_in_numpy(x, w):
    return np.tanh(np.float64(x) @ np.float64(w))


def devices_of(x):
    return [shard.device.id for shard in x.addressable_shards]


# ---- values --------------------------------------------------------------------------------------


def test_each_device_has_one_slice_and_the_result_is_stacked():
    found = pmap(layer, in_axes=(0, None))(XS, W)
    close(found, layer_in_numpy(XS, W))
    assert devices_of(found) == list(range(8))
    for i, shard in enumerate(found.addressable_shards):
        assert shard.data.shape == (1, 2)
        close(shard.data[0], layer_in_numpy(XS[i], W))


def test_the_function_sees_slices_without_the_mapped_axis():
    seen = []

    def f(x, y):
        seen.append((x.shape, y.shape))
        return x

    pmap(f, in_axes=(1, 0))(np.ones((3, 4, 5), np.float32), np.ones((4, 2), np.float32))
    assert seen == [((3, 5), (2,))]


@pytest.mark.parametrize("out_axes", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("in_axes", [0, 1, -1])
def test_axes_in_and_out(in_axes, out_axes):
    x = np.arange(2 * 2 * 2, dtype=np.float32).reshape(2, 2, 2)

    def f(x):
        return x * x[0] - 1

    slices = [np.take(x, i, in_axes) for i in range(2)]
    expected = np.stack([s * s[0] - 1 for s in slices], axis=out_axes)
    found = pmap(f, in_axes=in_axes, out_axes=out_axes)(x)
    np.testing.assert_array_equal(found, expected)
    spec = [None, None, None]
    spec[out_axes] = "<pmap>"
    assert found.sharding.is_equivalent_to(
        NamedSharding(found.sharding.mesh, PartitionSpec(*spec)), 3
    )


def test_prefixes_of_trees():
    def f(p, x):
        return {"a": p["w"] * x, "b": (p["b"] + x, x)}

    params = {"w": XS, "b": np.float32(2.0)}
    in_axes, out_axes = ({"w": 0, "b": None}, 0), {"a": 1, "b": 0}
    found = pmap(f, in_axes=in_axes, out_axes=out_axes)(params, XS[:, 0])
    column = XS[:, :1]
    np.testing.assert_array_equal(found["a"], (XS * column).T)
    np.testing.assert_array_equal(found["b"][0], column[:, 0] + 2)
    np.testing.assert_array_equal(found["b"][1], column[:, 0])


def test_keyword_arguments_are_mapped_along_their_first_axis():
    found = pmap(lambda x, *, y: x - y, in_axes=1)(XS.T, y=XS)
    np.testing.assert_array_equal(found, np.zeros_like(XS))


def test_a_result_that_does_not_depend_on_a_slice_is_repeated():
    found = pmap(lambda x: (jnp.ones(2), 3.0, x))(XS[:4])
    np.testing.assert_array_equal(found[0], np.ones((4, 2)))
    np.testing.assert_array_equal(found[1], np.full(4, 3.0))


def test_no_argument_mapped():
    found = pmap(lambda x: x + lax.axis_index("i"), "i", in_axes=None, axis_size=3)(2)
    np.testing.assert_array_equal(found, [2, 3, 4])
    assert pmap(lambda: (None, []), axis_size=2)() == (None, [])


def test_static_arguments():
    traced = []

    def f(power, x, names):
        traced.append(power)
        return dict.fromkeys(names, x**power)

    mapped = pmap(f, static_broadcasted_argnums=(0, -1))
    for power in (2, 3, 2):
        found = mapped(power, XS, ("a", "b"))
        close(found["b"], XS**power)
    assert traced == [2, 3]
    shifted = pmap(lambda x, k: x + k, in_axes=(1, None), static_broadcasted_argnums=1)
    np.testing.assert_array_equal(shifted(XS.T, 1), XS + 1)


def test_random_keys_are_slices_too():
    keys = random.split(random.key(0), 4)
    draw = functools.partial(random.normal, shape=(3,))
    np.testing.assert_array_equal(pmap(draw)(keys), weft.vmap(draw)(keys))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "float16", "complex64"])
def test_dtypes(dtype):
    x = jnp.asarray(np.arange(6).reshape(3, 2) % 2, dtype=dtype)
    found = pmap(lambda x: x[::-1])(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found.astype("complex64"), x[:, ::-1].astype("complex64"))


# ---- collectives ---------------------------------------------------------------------------------


COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), lambda xs: np.tile(xs.sum(0), (8, 1))),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda xs: np.tile(xs.mean(0), (8, 1))),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda xs: np.tile(xs.max(0), (8, 1))),
    "all_gather": (lambda x: lax.all_gather(x, "i"), lambda xs: np.tile(xs, (8, 1, 1))),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(j, (j + 1) % 8) for j in range(8)]),
        lambda xs: np.roll(xs, 1, axis=0),
    ),
    "axis_index": (
        lambda x: x * lax.axis_index("i"),
        lambda xs: xs * np.arange(8, dtype=np.float32)[:, None],
    ),
    "size": (lambda x: x * lax.psum(1, "i"), lambda xs: 8 * xs),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_over_the_axis(name):
    f, expected = COLLECTIVES[name]
    found = pmap(f, axis_name="i")(XS)
    close(found, expected(XS))
    close(weft.vmap(f, axis_name="i")(XS), found)


def test_a_reduced_result_is_taken_once():
    total, xs = pmap(lambda x: (lax.psum(x, "i"), x), "i", out_axes=(None, 0))(XS)
    close(total, XS.sum(0))
    assert total.is_fully_replicated
    np.testing.assert_array_equal(xs, XS)


# ---- transformations -----------------------------------------------------------------------------


def loss(w, map_over):
    outs = map_over(lambda x, w: jnp.tanh(x @ w), in_axes=(0, None))(XS, w)
    return jnp.sum(outs * outs)


def gradient_in_numpy(w):
    y = layer_in_numpy(XS, w)
    return np.float64(XS).T @ (2 * y * (1 - y * y))


def test_gradient():
    found = weft.grad(loss)(jnp.asarray(W), pmap)
    close(found, gradient_in_numpy(W), rtol=1e-4)
    inside = pmap(
        lambda x, w: lax.psum(weft.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(
            lax.pbroadcast(w, "i")), "i"),
        "i", in_axes=(0, None), out_axes=None,
    )  # fmt: skip
    close(inside(XS, W), gradient_in_numpy(W), rtol=1e-4)


def test_the_gradient_of_a_mean_over_devices():
    def mean_loss(w):
        each = pmap(lambda x, w: lax.pmean(jnp.sum(jnp.tanh(x @ w) ** 2), "i"), "i",
                    in_axes=(0, None), out_axes=None)  # fmt: skip
        return each(XS, w)

    close(weft.grad(mean_loss)(jnp.asarray(W)), gradient_in_numpy(W) / 8, rtol=1e-4)


def test_forward_mode_and_second_derivatives():
    w, v = jnp.asarray(W), jnp.asarray(W[::-1])
    _, slope = weft.jvp(lambda w: loss(w, pmap), (w,), (v,))
    close(slope, np.sum(gradient_in_numpy(W) * np.asarray(v)), rtol=1e-4)
    found = weft.hessian(lambda w: loss(w, pmap))(w)
    close(found, weft.hessian(lambda w: loss(w, weft.vmap))(w), rtol=1e-4, atol=1e-5)


def test_under_jit_and_vmap():
    mapped = pmap(layer, in_axes=(0, None))
    close(weft.jit(mapped)(XS, W), layer_in_numpy(XS, W))
    many = np.stack([XS, 2 * XS, XS - 1])
    close(weft.vmap(mapped, in_axes=(0, None))(many, W), layer_in_numpy(many, W))
    inside = pmap(weft.vmap(layer, in_axes=(0, None)), in_axes=(1, None), out_axes=1)
    close(inside(many, W), layer_in_numpy(many, W))
    close(weft.jit(weft.grad(loss), static_argnums=1)(W, pmap), gradient_in_numpy(W), rtol=1e-4)


def test_a_closed_over_value_is_the_same_on_all_devices():
    def f(w):
        return pmap(lambda x: jnp.tanh(x @ w))(XS)

    close(f(jnp.asarray(W)), layer_in_numpy(XS, W))
    found = weft.grad(lambda w: jnp.sum(f(w) ** 2))(jnp.asarray(W))
    close(found, gradient_in_numpy(W), rtol=1e-4)


# ---- calls ---------------------------------------------------------------------------------------


def test_a_second_call_traces_nothing():
    traced = []

    def f(x):
        traced.append(x.shape)
        return x + 1

    mapped = pmap(f)
    for _ in range(3):
        mapped(mapped(XS))
    mapped(np.ones((8, 3), np.float32))
    assert traced == [(3,)]
    mapped(XS[:4])
    assert len(traced) == 2


def test_arguments_from_anywhere():
    mapped = pmap(layer, in_axes=(0, None))
    there = weft.device_put(XS, weft.devices()[5])
    mesh = weft.make_mesh((2, 4), ("a", "b"))
    split = weft.device_put(XS, NamedSharding(mesh, PartitionSpec(("b", "a"))))
    for x in (XS, there, split, jnp.asarray(XS)):
        close(mapped(x, W), layer_in_numpy(XS, W))


def test_chosen_devices():
    chosen = weft.devices()[:1:-2]
    found = pmap(lambda x: 2 * x, devices=chosen)(XS[:3])
    np.testing.assert_array_equal(found, 2 * XS[:3])
    assert devices_of(found) == [d.id for d in chosen]
    assert devices_of(pmap(lambda x: 2 * x, devices=chosen)(XS[:2])) == [7, 5]


def test_donated_arguments_are_deleted():
    first = pmap(lambda x: x + 1)(XS)
    step = pmap(lambda x, y: (x + y, y), donate_argnums=0)
    second, y = step(first, XS)
    assert first.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(second, XS + 1 + XS)
    on_one = jnp.asarray(XS)
    step(on_one, XS)
    assert on_one.is_deleted()


def test_lowering_shows_the_program():
    text = pmap(lambda x: lax.psum(x, "i"), "i").lower(XS).as_text()
    assert text.count("all_reduce") == 1 and "manual_computation" in text


def test_the_name_and_documentation_stay():
    mapped = pmap(layer, in_axes=(0, None))
    assert mapped.__name__ == "layer" and mapped.__wrapped__ is layer
    partial = functools.partial(layer, w=W)
    close(pmap(partial)(XS), layer_in_numpy(XS, W))


# ---- wrong calls ---------------------------------------------------------------------------------


def add(x, y):
    return x + y


def test_lengths_that_differ_are_named():
    with pytest.raises(
        ShapeError, match="pmap of add: the mapped axes have different lengths"
    ) as e:
        pmap(add)(XS, XS[:4])
    assert "x: 8" in str(e.value) and "y: 4" in str(e.value)
    with pytest.raises(ShapeError, match="axis_size: 4"):
        pmap(add, axis_size=4)(XS, XS)


def test_more_slices_than_devices():
    many = np.ones((9, 2), np.float32)
    with pytest.raises(WeftValueError, match="fewer devices than slices") as e:
        pmap(lambda x: x)(many)
    assert "9 slices (x, mapped along 0 of (9, 2))" in str(e.value)
    assert e.value.fix.data["environment"] == {"WEFT_NUM_CPU_DEVICES": "9"}
    size = e.value.fix.data["size"]
    np.testing.assert_array_equal(pmap(lambda x: x)(many[:size]), many[:size])
    with pytest.raises(WeftValueError, match="fewer devices") as e:
        pmap(add, devices=weft.devices()[:2])(XS, XS)
    assert e.value.fix.data["size"] == 2
    with pytest.raises(WeftValueError, match=r"9 slices \(axis_size\)"):
        pmap(lambda: 1, axis_size=9)()


def test_an_empty_axis():
    with pytest.raises(ShapeError, match="the mapped axis is empty"):
        pmap(lambda x: x)(np.ones((0, 2), np.float32))


def test_an_axis_that_is_not_there():
    with pytest.raises(AxisError, match="pmap of add: y has no axis 0") as e:
        pmap(add)(XS, 1.0)
    assert e.value.fix.data == {"argument": 1, "axis": None}
    close(pmap(add, in_axes=(0, None))(XS, 1.0), XS + 1)
    with pytest.raises(AxisError, match="has no axis 2"):
        pmap(add, in_axes=2)(XS, XS)
    with pytest.raises(AxisError, match=r"out_axes=3 and the result\['a'\] has 2 axes") as e:
        pmap(lambda x: {"a": x}, out_axes=3)(XS)
    pmap(lambda x: {"a": x}, **e.value.fix.data)(XS)


def test_a_result_that_differs_cannot_be_taken_once():
    with pytest.raises(AxisError, match=r"the result\[1\], which out_axes calls None") as e:
        pmap(lambda x: (lax.psum(x, "i"), x), "i", out_axes=None)(XS)
    assert "split over 'i'" in str(e.value) and e.value.fix.data == {"out_axes": 0}
    np.testing.assert_array_equal(pmap(lambda x: (lax.psum(x, "i"), x), "i")(XS)[1], XS)


def test_prefixes_that_do_not_fit():
    with pytest.raises(WeftValueError, match="in_axes has 3 entries and the call has 2") as e:
        pmap(add, in_axes=(0, 0, 0))(XS, XS)
    assert e.value.fix.data == {"count": 2}
    with pytest.raises(TreeError, match="pmap of add: in_axes"):
        pmap(add, in_axes=({"w": 0}, 0))(XS, XS)
    with pytest.raises(TreeError, match="out_axes"):
        pmap(lambda x: (x, x), out_axes=(0, 0, 0))(XS)
    with pytest.raises(WeftValueError, match="pmap of add: no argument is mapped"):
        pmap(add, in_axes=None)(XS, XS)


def test_arguments_and_results_that_are_no_arrays():
    with pytest.raises(WeftTypeError, match="pmap of add: y is no array"):
        pmap(add)(XS, "text")
    with pytest.raises(WeftTypeError, match="pmap of <lambda> returned a value that is no array"):
        pmap(lambda x: "text")(XS)


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        ((3,), {}, "takes a function first"),
        ((add, 1), {}, "a string as the name"),
        ((add,), {"in_axes": "x"}, "pmap takes ints and None in in_axes"),
        ((add,), {"out_axes": 0.5}, "pmap takes ints and None in out_axes"),
        ((add,), {"axis_size": 0}, "a whole number from 1 up"),
        ((add,), {"axis_size": "x"}, "a whole number from 1 up"),
        ((add,), {"static_broadcasted_argnums": "x"}, "in static_broadcasted_argnums"),
        ((add,), {"donate_argnums": (0.5,)}, "in donate_argnums"),
    ],
)
def test_malformed_options(given, options, text):
    with pytest.raises(WeftTypeError, match=text):
        pmap(*given, **options)


def test_static_arguments_have_to_be_hashable():
    with pytest.raises(WeftValueError, match="cannot be hashed"):
        pmap(add, static_broadcasted_argnums=1)(XS, [1])


def test_a_pmap_inside_of_another_one():
    x = np.ones((2, 2, 3), np.float32)
    with pytest.raises(WeftValueError, match="cannot be called inside of another one") as e:
        pmap(lambda x: pmap(lambda y: y)(x))(x)
    assert e.value.fix.data == {"transformation": "vmap"}
    np.testing.assert_array_equal(pmap(lambda x: weft.vmap(lambda y: y)(x))(x), x)


def test_reducing_what_is_equal_on_all_devices_is_an_error():
    with pytest.raises(AxisError):
        pmap(lambda x, w: x + lax.psum(w, "i"), "i", in_axes=(0, None))(XS[:, 0], 1.0)
