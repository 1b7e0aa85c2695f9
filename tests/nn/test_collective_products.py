"""`gathered_product` and `scattered_product`, against NumPy and against plain collectives."""

from __future__ import annotations

import re
from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from closeness import close_doubles
from collective_counts import communicates
from weft import lax, nn, shard_map
from weft.errors import AxisError, DTypeError, ShapeError, UnboundAxisError, WeftValueError
from weft.sharding import PartitionSpec as P
from weft.testing import check_grads

MESHES = {(2,): ("i",), (4,): ("i",), (8,): ("i",), (2, 2): ("i", "j"), (4, 2): ("i", "j")}


def mesh_of(sizes):
    count = int(np.prod(sizes))
    return weft.make_mesh(sizes, MESHES[sizes], devices=weft.devices()[:count])


def drawn(*shape, seed=0, dtype=np.float64):
    numbers = np.random.default_rng(seed).normal(size=shape)
    if np.issubdtype(dtype, np.complexfloating):
        numbers = numbers + 1j * np.random.default_rng(seed + 99).normal(size=shape)
    return jnp.asarray(numbers, dtype=dtype)


@st.composite
def cases(draw):
    """A spec with the ring's label "s", lengths, a mesh and its axes, and the options of a call."""
    gathered = draw(st.booleans())
    # The ring's label: in x and at least one more of w and the result; or in the result and x or w.
    places = ["xo", "xw", "xwo"] if gathered else ["xo", "wo", "xwo"]
    where = {"s": draw(st.sampled_from(places))}
    for label in draw(st.lists(st.sampled_from("abcd"), max_size=4, unique=True)):
        where[label] = draw(st.sampled_from(["x", "w", "xo", "wo", "xw", "xwo"]))
    terms = ["".join(draw(st.permutations([c for c in where if t in where[c]]))) for t in "xwo"]
    sizes = draw(st.sampled_from(sorted(MESHES)))
    names = draw(st.sampled_from([MESHES[sizes], MESHES[sizes][::-1], MESHES[sizes][:1]]))
    lengths = {label: draw(st.integers(1, 3)) for label in where}
    return {
        "spec": f"{terms[0]},{terms[1]}->{terms[2]}",
        "gathered": gathered,
        "lengths": lengths,
        "sizes": sizes,
        "names": names,
        "shared": draw(st.booleans()),
        "both": draw(st.booleans()),
        "dtype": draw(st.sampled_from([np.float64, np.complex128])),
    }


def programs(case):
    """The function of one device and the same with plain collectives, and their arguments."""
    spec, names, mesh = case["spec"], case["names"], mesh_of(case["sizes"])
    left, right, out = re.split(",|->", spec)
    count = int(np.prod([mesh.shape[n] for n in names]))
    devices = int(np.prod(case["sizes"]))
    lengths = case["lengths"] | {"s": case["lengths"]["s"] * count}
    block = lengths | ({"s": case["lengths"]["s"]} if case["gathered"] else {})
    x = drawn(devices, *(block[c] for c in left), seed=1, dtype=case["dtype"])
    w = drawn(devices, *(lengths[c] for c in right), seed=2, dtype=case["dtype"])
    w_spec = P(mesh.axis_names)
    if case["shared"]:
        w, w_spec = w[:1], P()

    def stepwise(x, w):
        if case["gathered"]:
            how = {"gathered": "s", "bidirectional": case["both"]}
            return nn.gathered_product(spec, x[0], w[0], names, **how)[None]
        how = {"scattered": "s", "bidirectional": case["both"]}
        return nn.scattered_product(spec, x[0], w[0], names, **how)[None]

    def plain(x, w):
        if case["gathered"]:
            whole = lax.all_gather(x[0], names, axis=left.index("s"), tiled=True)
            return jnp.einsum(spec, whole, w[0])[None]
        sums = jnp.einsum(spec, x[0], w[0])
        return lax.psum_scatter(sums, names, scatter_dimension=out.index("s"), tiled=True)[None]

    around = {
        "mesh": mesh,
        "in_specs": (P(mesh.axis_names), w_spec),
        "out_specs": P(mesh.axis_names),
    }
    return shard_map(stepwise, **around), shard_map(plain, **around), (x, w)


@hypothesis.settings(max_examples=25)
@hypothesis.given(cases())
def test_random_products_are_those_of_plain_collectives(case):
    stepwise, plain, args = programs(case)
    close_doubles(weft.jit(stepwise)(*args), plain(*args))


@hypothesis.settings(max_examples=12)
@hypothesis.given(cases())
def test_derivatives_of_random_products_are_those_of_plain_collectives(case):
    stepwise, plain, args = programs(case)

    def derivatives(function):
        def both(*args):
            out, pull = weft.vjp(function, *args)
            return pull(jnp.cos(out)), weft.jvp(function, args, tuple(jnp.sin(a) for a in args))[1]

        return both

    got, wanted = weft.jit(derivatives(stepwise))(*args), weft.jit(derivatives(plain))(*args)
    weft.tree.map(close_doubles, got, wanted)


LAYERS = {
    "not summed": ("bsd,df->bsf", (P(None, "i"), P(None, "i")), P(None, None, "i")),
    "summed": ("bsd,sf->bdf", (P(None, "i"), P(None, "i")), P(None, None, "i")),
}


def gathering(spec, specs, out, **options):
    call = lambda x, w: nn.gathered_product(spec, x, w, "i", gathered="s", **options)  # noqa: E731
    return shard_map(call, mesh=mesh_of((4,)), in_specs=specs, out_specs=out)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("both", [False, True])
def test_a_gathered_product_is_the_einsum_of_whole_arrays(kind, both):
    spec, specs, out = LAYERS[kind]
    x = drawn(2, 8, 6)
    w = drawn(8 if kind == "summed" else 6, 12, seed=1)
    f = gathering(spec, specs, out, bidirectional=both)
    close_doubles(f(x, w), np.einsum(spec, x, w))
    close_doubles(weft.jit(f)(x, w), np.einsum(spec, x, w))
    check_grads(weft.jit(f), (x, w), order=2)


SCATTERED = {"left": "bsf,fd->bsd", "right": "bfd,fs->bsd"}


@pytest.mark.parametrize("operand", SCATTERED)
@pytest.mark.parametrize("both", [False, True])
def test_a_scattered_product_is_the_einsum_of_whole_arrays(operand, both):
    spec = SCATTERED[operand]
    specs = (P(None, None, "i"), P("i")) if operand == "left" else (P(None, "i"), P("i"))
    x, w = (drawn(2, 8, 12), drawn(12, 6)) if operand == "left" else (drawn(2, 12, 6), drawn(12, 8))

    @shard_map(mesh=mesh_of((4,)), in_specs=specs, out_specs=P(None, "i"))
    def f(x, w):
        return nn.scattered_product(spec, x, w, "i", scattered="s", bidirectional=both)

    close_doubles(f(x, w), np.einsum(spec, x, w))
    close_doubles(weft.jit(f)(x, w), np.einsum(spec, x, w))
    check_grads(weft.jit(f), (x, w), order=2)


def test_mapped_products_and_axes_of_vmap():
    spec, specs, out = LAYERS["not summed"]
    f, xs, w = gathering(spec, specs, out), drawn(3, 2, 8, 6), drawn(6, 12)
    close_doubles(weft.vmap(f, in_axes=(0, None))(xs, w), np.einsum("nbsd,df->nbsf", xs, w))
    # Along an axis of vmap the same function works on rows.
    mapped = lambda x: nn.gathered_product("sd,df->sf", x, w, "q", gathered="s")  # noqa: E731
    rows = drawn(4, 2, 6)
    close_doubles(
        weft.vmap(mapped, axis_name="q")(rows)[1], np.reshape(rows, (8, 6)) @ np.asarray(w)
    )


def test_the_program_on_one_device_is_a_product():
    mesh = weft.make_mesh((1,), ("i",), devices=weft.devices()[:1])
    x, w = drawn(4, 6), drawn(6, 8)

    @shard_map(mesh=mesh, in_specs=(P(), P()), out_specs=P("i"))
    def f(x, w):
        h = nn.gathered_product("sd,df->sf", x, w, "i", gathered="s")
        return nn.scattered_product("sf,df->sd", h, w, "i", scattered="s")

    close_doubles(f(x, w), x @ w @ w.T)
    assert communicates(f, x, w) == {}


def test_simulated_products_are_equal():
    spec, specs, out = LAYERS["not summed"]
    x, w = drawn(2, 8, 6), drawn(6, 12)
    with weft.simulate(mesh_of((4,))):
        close_doubles(gathering(spec, specs, out)(x, w), np.einsum(spec, x, w))


# ---- dtypes --------------------------------------------------------------------------------------


def test_narrow_sums_on_a_device_are_taken_in_float32():
    # 1 + 8 * 2^-9 in bfloat16: a sum that rounds at each step stays at 1.
    values = np.array([1.0] + [2.0**-9] * 7)
    x, w = jnp.asarray(values, "bfloat16"), jnp.ones((8, 1), "bfloat16")

    @shard_map(mesh=mesh_of((8,)), in_specs=(P("i"), P()), out_specs=P("i"))
    def f(x, w):
        return nn.gathered_product("s,sf->f", x, w, "i", gathered="s")

    found = f(x, w)
    assert found.dtype == jnp.bfloat16
    close_doubles(np.asarray(found, np.float32), np.full(8, np.asarray(values.sum(), jnp.bfloat16)))


@pytest.mark.parametrize(
    ("left", "right", "preferred", "wanted"),
    [
        ("bfloat16", "bfloat16", None, "bfloat16"),
        ("bfloat16", "bfloat16", "float32", "float32"),
        ("bfloat16", "float32", None, "float32"),
        ("float32", "complex64", None, "complex64"),
        ("float32", "float32", "complex64", "complex64"),
        ("int32", "float32", None, "float32"),
        ("int32", "int32", None, "int32"),
    ],
)
def test_dtypes_are_those_of_einsum(left, right, preferred, wanted):
    x = jnp.arange(16).reshape(8, 2).astype(left)
    w = jnp.arange(8).reshape(2, 4).astype(right)

    @shard_map(mesh=mesh_of((4,)), in_specs=(P("i"), P()), out_specs=P("i"))
    def f(x, w):
        how = {"preferred_element_type": preferred}
        h = nn.gathered_product("sd,df->sf", x, w, "i", gathered="s", **how)
        return nn.scattered_product("sf,df->sd", h, w, "i", scattered="s", **how)

    found = f(x, w)
    whole = np.asarray(x, np.float64) @ np.asarray(w, np.complex128)
    assert (
        found.dtype
        == wanted
        == jnp.einsum("sd,df->sf", x, w, preferred_element_type=preferred).dtype
    )
    close_doubles(
        np.asarray(found, np.complex128), 4 * whole @ np.asarray(w, np.complex128).T, 2e-2
    )
    if left != "int32":
        loss = lambda x: jnp.sum(f(x, w).real.astype("float32"))  # noqa: E731
        assert weft.grad(loss)(x).dtype == left


def test_a_block_of_bfloat16_is_sent_as_it_is():
    x, w = jnp.ones((8, 2), "bfloat16"), jnp.ones((2, 4), "float32")

    @shard_map(mesh=mesh_of((4,)), in_specs=(P("i"), P()), out_specs=P("i"))
    def f(x, w):
        return nn.gathered_product("sd,df->sf", x, w, "i", gathered="s")

    sent = re.findall(r"collective_permute.*?-> tensor<(\w+)>", weft.jit(f).lower(x, w).as_text())
    assert sent == ["2x2xbf16"] * 3


# ---- what is communicated, and kept --------------------------------------------------------------

SHAPES = ((16, 6), (6, 12), (12, 6))
SPECS = (P("i"), P(None, "i"), P("i"))


def layer(x, w1, w2):
    h = nn.gelu(nn.gathered_product("sd,df->sf", x, w1, "i", gathered="s"))
    return nn.scattered_product("sf,fd->sd", h, w2, "i", scattered="s")


def plain_layer(x, w1, w2):
    h = nn.gelu(lax.all_gather(x, "i", tiled=True) @ w1)
    return lax.psum_scatter(h @ w2, "i", tiled=True)


def over_devices(function, count=8):
    return shard_map(function, mesh=mesh_of((count,)), in_specs=SPECS, out_specs=P("i"))


def weights(seed=0):
    return [drawn(16, 16, seed=seed), drawn(16, 32, seed=seed + 1), drawn(32, 16, seed=seed + 2)]


def gradient(function, count=8):
    loss = lambda *args: jnp.sum(jnp.sin(over_devices(function, count)(*args)))  # noqa: E731
    return weft.grad(loss, (0, 1, 2))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_layer_sends_blocks_step_by_step(count):
    args = weights()
    assert communicates(over_devices(plain_layer, count), *args) == {
        "all_gather": 1,
        "reduce_scatter": 1,
    }
    permutes = {"collective_permute": 2 * (count - 1)}
    assert communicates(over_devices(layer, count), *args) == permutes
    # Backward: the cotangent once, for both derivatives of the second product; for the first the
    # sums of its input's cotangent, and the input once more.
    backward = {"collective_permute": 5 * (count - 1)}
    assert communicates(gradient(layer, count), *args) == backward
    weft.tree.map(
        close_doubles, weft.jit(gradient(layer, count))(*args), gradient(plain_layer, count)(*args)
    )


def test_the_hessian_of_a_layer_communicates_step_by_step_too():
    args = weights()

    def second(function):
        whole = lambda *args: sum(jnp.sum(jnp.cos(g)) for g in gradient(function, 4)(*args))  # noqa: E731
        return weft.grad(whole, (0, 1, 2))

    close_enough = lambda got, wanted: close_doubles(got, wanted, 1e-11)  # noqa: E731
    weft.tree.map(
        close_enough, weft.jit(second(layer))(*args), weft.jit(second(plain_layer))(*args)
    )
    assert set(communicates(second(layer), *args)) == {"collective_permute"}


def test_a_derivative_keeps_blocks_not_gathered_arrays():
    x, w1, w2 = weights()

    def kept(function):
        out = weft.eval_shape(lambda *args: weft.vjp(over_devices(function), *args)[1], x, w1, w2)
        shapes = Counter(leaf.shape for leaf in weft.tree.leaves(out))
        return sum(int(np.prod(shape)) * n for shape, n in shapes.items())

    # The gathered x of each of eight devices is eight times what each has of it; a block is kept.
    assert kept(plain_layer) - kept(layer) == 7 * x.size


def test_weights_that_devices_share_get_the_sum_of_their_gradients():
    x, w = drawn(8, 6), drawn(6, 4)

    @shard_map(mesh=mesh_of((4, 2)), in_specs=(P("i"), P()), out_specs=P(("i", "j")))
    def f(x, w):
        return nn.gathered_product("sd,df->sf", x, w, "i", gathered="s")

    ct = drawn(64, 4, seed=7)
    _, pull = weft.vjp(f, x, w)
    got_x, got_w = pull(ct)
    total = np.sum(np.split(np.asarray(ct), 8), 0)
    close_doubles(got_x, total @ np.asarray(w).T)
    close_doubles(got_w, np.asarray(x).T @ total)


# ---- errors --------------------------------------------------------------------------------------


BLOCKS = (P("i"), P(None, "i"))


def called(function, *args, specs=BLOCKS, **options):
    mesh = mesh_of((4,))
    return shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("i"), **options)(*args)


@pytest.mark.parametrize(
    ("spec", "letter", "error", "says"),
    [
        ("...d,df->...f", "s", WeftValueError, "the spec has the labels of two operands"),
        ("sd,df", "s", WeftValueError, "the spec has the labels of two operands"),
        (
            "sd,df->sf",
            "z",
            WeftValueError,
            "gathered='z' is no label that the first operand has once",
        ),
        (
            "ss,df->df",
            "s",
            WeftValueError,
            "gathered='s' is no label that the first operand has once",
        ),
        ("sd,df->df", "s", WeftValueError, "neither the second operand nor the result has"),
        ("sdb,df->sf", "s", WeftValueError, "does not fit an operand of shape"),
        ("sf,df->sd", "s", ShapeError, "the label 'f' stands for two lengths"),
        ("sd,sf->df", "s", ShapeError, "8 in the first operand, gathered from 4 devices, and 6"),
    ],
)
def test_a_wrong_spec_of_a_gathered_product_is_named(spec, letter, error, says):
    with pytest.raises(error) as caught:
        called(
            lambda x, w: nn.gathered_product(spec, x, w, "i", gathered=letter),
            drawn(8, 6),
            drawn(6, 12),
        )
    assert says in str(caught.value)


def test_what_cannot_be_scattered_is_named():
    def scatter(x, w):
        return nn.scattered_product("sd,df->sf", x, w, "i", scattered="s")

    with pytest.raises(ShapeError, match="does not split into 4 equal parts"):
        called(scatter, drawn(7, 6), drawn(6, 12), specs=(P(), P(None, "i")))
    with pytest.raises(AxisError, match="equal on all devices along 'i'"):
        called(scatter, drawn(8, 6), drawn(6, 12), specs=(P(), P()))
    with pytest.raises(WeftValueError, match="scattered='d' is no label that the result has once"):
        called(
            lambda x, w: nn.scattered_product("sd,df->sf", x, w, "i", scattered="d"),
            drawn(8, 6),
            drawn(6, 12),
        )


def test_booleans_names_and_explicit_casts_are_refused():
    def gather(x, w, name="i"):
        return nn.gathered_product("sd,df->sf", x, w, name, gathered="s")

    x, w = drawn(8, 6), drawn(6, 12)
    with pytest.raises(DTypeError, match="gathered_product: booleans have no sums"):
        called(gather, x > 0, w > 0)
    with pytest.raises(UnboundAxisError):
        called(lambda x, w: gather(x, w, "other"), x, w)
    with pytest.raises(AxisError, match="casts are explicit"):
        called(gather, x, w, specs=(P("i"), P()), auto_pbroadcast=False)
