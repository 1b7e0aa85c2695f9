"""Every example of the shard_map note, eager and jitted, with what it prints and computes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import equal
from weft import lax, shard_map
from weft.errors import AxisError, ConcretizationError, ShapeError
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

WAYS = {"eager": lambda f: f, "jit": weft.jit}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture
def m():
    """The mesh of the note: `Mesh(devices.reshape(4, 2), ('i', 'j'))`."""
    devices = np.array(weft.devices())
    return Mesh(devices.reshape(4, 2), ("i", "j"))


A = np.arange(8 * 16.0).reshape(8, 16)
B = np.arange(16 * 32.0).reshape(16, 32)
X = np.arange(12 * 12).reshape(12, 12)


# ---- the two products --------------------------------------------------------------------------


def test_matmul_basic(way):
    mesh = weft.make_mesh((4, 2), ("i", "j"))
    a = wnp.arange(8 * 16.0).reshape(8, 16)
    b = wnp.arange(16 * 32.0).reshape(16, 32)
    seen = []

    @partial(shard_map, mesh=mesh, in_specs=(P("i", "j"), P("j", None)), out_specs=P("i", None))
    def matmul_basic(a_block, b_block):
        seen.append((a_block.shape, b_block.shape))
        z_partialsum = wnp.dot(a_block, b_block)
        z_block = lax.psum(z_partialsum, "j")
        return z_block

    c = way(matmul_basic)(a, b)
    assert set(seen) == {((2, 8), (8, 32))}
    equal(c, A @ B)  # Sums of integers below 2**24, exact in any order.
    assert c.dtype == np.float32
    assert c.sharding.is_equivalent_to(NamedSharding(mesh, P("i", None)), 2)
    assert {s.data.shape for s in c.addressable_shards} == {(2, 32)}
    # The result goes on into jitted programs as it lies.
    equal(weft.jit(lambda c: c * 2)(c), 2 * (A @ B))


def test_matmul_reduce_scatter(way):
    mesh = weft.make_mesh((4, 2), ("i", "j"))
    seen = []

    @partial(shard_map, mesh=mesh, in_specs=(P("i", "j"), P("j", None)), out_specs=P("i", "j"))
    def matmul_reduce_scatter(a_block, b_block):
        c_partialsum = wnp.matmul(a_block, b_block)
        c_block = lax.psum_scatter(c_partialsum, "j", scatter_dimension=1, tiled=True)
        seen.append((c_partialsum.shape, c_block.shape))
        return c_block

    c = way(matmul_reduce_scatter)(A, B)
    assert set(seen) == {((8 // 4, 32), (8 // 4, 32 // 2))}
    equal(c, A @ B)
    assert {s.data.shape for s in c.addressable_shards} == {(2, 16)}


# ---- stacking and concatenating ----------------------------------------------------------------


def f_3_7(x):
    """From `f32[5]`, or blocks `f32[2,5]`, to `f32[3,7]`."""
    row = x.reshape(-1, 5).sum(0)
    return wnp.outer(wnp.arange(3.0) + row[1], wnp.arange(7.0) - row[4])


def f_3_7_numpy(x):
    row = x.reshape(-1, 5).sum(0)
    return np.outer(np.arange(3.0) + row[1], np.arange(7.0) - row[4])


Y = np.arange(40.0).reshape(8, 5)


def test_mapping_that_drops_the_axis_stacks(way):
    """Unstack, apply, stack: what `vmap` does, and shard_map with blocks of one row."""
    stacked = np.stack([f_3_7_numpy(x) for x in Y])
    assert stacked.shape == (8, 3, 7)
    equal(way(weft.vmap(f_3_7))(Y), stacked)
    mesh = weft.make_mesh((8,), ("i",))
    mapped = shard_map(lambda x: f_3_7(x[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    equal(way(mapped)(Y), stacked)
    equal(weft.pmap(f_3_7, in_axes=0, out_axes=0)(Y), stacked)


def test_mapping_that_keeps_the_axis_concatenates(way):
    """Split, apply, concatenate: `f32[8,5]` to four blocks `f32[2,5]`, to `f32[12,7]`."""
    devices = np.array(weft.devices()[:4])
    m = Mesh(devices, ("i",))
    assert m.shape["i"] == 4
    got = way(shard_map(f_3_7, m, in_specs=P("i"), out_specs=P("i")))(Y)
    assert got.shape == (12, 7)
    equal(got, np.concatenate([f_3_7_numpy(y_blk) for y_blk in np.split(Y, 4)]))
    equal(got, wnp.concatenate([f_3_7(y_blk) for y_blk in wnp.split(Y, 4)]))


# ---- inputs: splitting and tiling --------------------------------------------------------------


def test_f1_prints_the_shape_of_blocks_of_whole_rows(m, way, capsys):
    @partial(shard_map, mesh=m, in_specs=P("i", None), out_specs=P("i", "j"))
    def f1(x_block):
        print(x_block.shape)
        return x_block

    y = way(f1)(X)
    assert capsys.readouterr().out == "(3, 12)\n"
    equal(y, np.tile(X, (1, 2)))  # (12, 24)


def test_f2_on_a_tiled_input_is_f1(m, way, capsys):
    @partial(shard_map, mesh=m, in_specs=P("i", "j"), out_specs=P("i", "j"))
    def f2(x_block):
        print(x_block.shape)
        return x_block

    x_ = wnp.tile(X, (1, m.shape["j"]))
    assert x_.shape == (12, 24)
    y = way(f2)(x_)
    assert capsys.readouterr().out == "(3, 12)\n"
    f1 = shard_map(lambda x: x, mesh=m, in_specs=P("i", None), out_specs=P("i", "j"))
    equal(y, np.asarray(way(f1)(X)))


def test_the_tiling_is_not_unique(m, way):
    """Along the first dimension as well, by the spec `P(('j', 'i'), None)`."""
    tiled = np.tile(X, (m.shape["j"], 1))
    f = shard_map(lambda x: x, mesh=m, in_specs=P(("j", "i"), None), out_specs=P("i", "j"))
    equal(way(f)(tiled), np.tile(X, (1, 2)))


def test_two_axes_split_one_dimension_in_their_order(m, way):
    """Row-major: with `('j', 'i')` the blocks of j = 0 come first."""
    for axes in (("i", "j"), ("j", "i")):
        index = shard_map(
            lambda x, axes=axes: x * 0 + lax.axis_index(axes),
            mesh=m,
            in_specs=P(axes),
            out_specs=P(axes),
        )
        equal(way(index)(np.zeros(16, np.int32)), np.repeat(np.arange(8), 2))
    crossed = shard_map(
        lambda x: x, mesh=m, in_specs=P(("j", "i"), None), out_specs=P(("i", "j"), None)
    )
    rows = np.arange(8)[:, None]
    equal(way(crossed)(rows), rows.reshape(2, 4).T.reshape(8, 1))


def test_a_dimension_that_does_not_divide_is_an_error(m, way):
    f = shard_map(lambda x: x, mesh=m, in_specs=P("i"), out_specs=P("i"))
    with pytest.raises(ShapeError, match="4"):
        way(f)(np.arange(10))


# ---- outputs: untiling -------------------------------------------------------------------------

THREE = np.array([[3.0]], np.float32)


@pytest.mark.parametrize(
    ("spec", "tiles"), [(P("i", "j"), (4, 2)), (P("i", None), (4, 1)), (P(None, None), (1, 1))]
)
def test_a_closed_over_array_as_output(m, way, spec, tiles):
    x = wnp.array([[3.0]])
    z = way(shard_map(lambda: x, mesh=m, in_specs=(), out_specs=spec))()
    equal(z, np.tile(THREE, tiles))
    assert str(z) == str(wnp.tile(x, tiles))


def test_printed_tiles(m):
    x = wnp.array([[3.0]])

    def printed(spec):
        return str(shard_map(lambda: x, mesh=m, in_specs=(), out_specs=spec)())

    assert printed(P("i", "j")) == "[[3. 3.]\n [3. 3.]\n [3. 3.]\n [3. 3.]]"
    assert printed(P("i", None)) == "[[3.]\n [3.]\n [3.]\n [3.]]"
    assert printed(P(None, None)) == "[[3.]]"


def test_closing_over_is_passing_with_an_empty_spec(m, way):
    """Values, and derivatives with respect to what is closed over."""
    w = wnp.arange(1.0, 7.0)
    x = X.astype(np.float32)

    def body(w, block):
        return lax.psum(wnp.sin(block / 144 * w), "i")

    def closed(w):
        f = shard_map(
            lambda block: body(w, block), mesh=m, in_specs=P("i", "j"), out_specs=P(None, "j")
        )
        return f(x)

    passed = shard_map(body, mesh=m, in_specs=(P(None), P("i", "j")), out_specs=P(None, "j"))
    equal(way(closed)(w), np.asarray(way(passed)(w, x)))
    gradients = [
        way(weft.grad(lambda w, f=f: (f(w) ** 2).sum()))(w)
        for f in (closed, lambda w: passed(w, x))
    ]
    equal(gradients[0], np.asarray(gradients[1]))


@pytest.mark.parametrize(
    ("axes", "spec", "wanted"),
    [
        pytest.param("j", P("i", None), X[:, :6] + X[:, 6:], id="f3, over j"),
        pytest.param("i", P(None, "j"), X.reshape(4, 3, 12).sum(0), id="f4, over i"),
        pytest.param(("i", "j"), P(None, None), X.reshape(4, 3, 2, 6).sum((0, 2)), id="f5, both"),
    ],
)
def test_sums_over_axes(m, way, axes, spec, wanted):
    f = shard_map(lambda x: lax.psum(x, axes), mesh=m, in_specs=P("i", "j"), out_specs=spec)
    y = way(f)(X)
    equal(y, wanted)
    assert y.is_fully_replicated == (spec == P(None, None))


@pytest.mark.parametrize("spec", [P(None, "j"), P("i", None), P(None, None)])
def test_untiling_blocks_that_may_differ_is_an_error(m, way, spec):
    """The promise of an unmentioned axis is checked by types, before anything runs."""
    f = shard_map(lambda x: x, mesh=m, in_specs=P("i", "j"), out_specs=spec)
    with pytest.raises(AxisError, match="may differ between devices") as caught:
        way(f)(X)
    # The fix, applied: the axes that the error names are mentioned, or summed over.
    axes = caught.value.fix.data["axes"]
    mentioned = P(*(axis if axis in axes or axis in spec.axes() else None for axis in "ij"))
    kept = shard_map(lambda x: x, mesh=m, in_specs=P("i", "j"), out_specs=mentioned)
    equal(way(kept)(X), X)
    summed = shard_map(lambda x: lax.psum(x, axes), mesh=m, in_specs=P("i", "j"), out_specs=spec)
    assert way(summed)(X).sum() == X.sum()


def test_too_small_a_rank_for_the_spec_is_an_error(m, way):
    f = shard_map(lambda x: x.sum(), mesh=m, in_specs=P("i", "j"), out_specs=P("i", "j"))
    with pytest.raises(ShapeError, match="too few dimensions") as caught:
        way(f)(X)
    assert caught.value.fix.kind == "dimension"
    fixed = shard_map(
        lambda x: x.sum()[None, None], mesh=m, in_specs=P("i", "j"), out_specs=P("i", "j")
    )
    equal(way(fixed)(X), X.reshape(4, 3, 2, 6).sum((1, 3)))


def test_blocks_are_transposed_by_the_specs(m, way):
    """The order of the names in the output spec may be another: blocks change places."""
    f = shard_map(lambda x: x.T, mesh=m, in_specs=P("i", "j"), out_specs=P("j", "i"))
    equal(way(f)(X), X.T)


# ---- eager by default --------------------------------------------------------------------------


def test_python_sees_values(m, capsys):
    """Outside of jit: printing every block, and branching on what is equal everywhere."""

    def body(x_block):
        total = lax.psum(x_block.sum(), ("i", "j"))
        print(x_block[:1, :1])
        if total > 100:
            out = x_block * 2
        else:
            out = x_block
        return out, float(total)

    f = shard_map(body, mesh=m, in_specs=P("i", "j"), out_specs=(P("i", "j"), P()))
    doubled, total = f(X)
    equal(doubled, 2 * X)
    assert float(total) == X.sum()
    lines = capsys.readouterr().out.splitlines()
    for i in range(4):
        for j in range(2):
            (line,) = [line for line in lines if f"i={i}, j={j}:" in line]
            assert line.endswith(f"[[{X[3 * i, 6 * j]}]]")


def test_branching_on_what_differs_is_an_error(m):
    def body(x_block):
        return x_block * 2 if x_block[0, 0] > 10 else x_block

    f = shard_map(body, mesh=m, in_specs=P("i", "j"), out_specs=P("i", "j"))
    with pytest.raises(ConcretizationError, match="differs between devices over 'i', 'j'"):
        f(X)

    def agreed(x_block):
        return x_block * 2 if lax.pmax(x_block[0, 0], ("i", "j")) > 10 else x_block

    f = shard_map(agreed, mesh=m, in_specs=P("i", "j"), out_specs=P("i", "j"))
    equal(f(X), 2 * X)
