"""shard_map outside of jit: values can be looked at, Python decides on those that are equal on all
devices, debuggers stop inside, and a second call compiles nothing."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from compilations import counted_compilations
from weft import lax, shard_map
from weft.errors import ConcretizationError
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((4, 2), ("i", "j"))
X = np.arange(8, dtype=np.float32)
SUM_I = X.reshape(4, 2).sum(0)
BY_I = P("i")
WRAPS = {"eager": lambda f: f, "jit": weft.jit}
both_ways = pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)


def mapped(f, in_specs=BY_I, out_specs=BY_I, **how):
    return shard_map(f, **{"mesh": MESH, "in_specs": in_specs, "out_specs": out_specs, **how})


# ---- looking at values -------------------------------------------------------------------------


def test_print_shows_every_block_with_its_place_in_the_mesh(capsys):
    def body(v):
        print(v)
        print(v + lax.axis_index("j"))
        print(lax.psum(v, "i"))
        return v

    mapped(body)(X)
    assert capsys.readouterr().out.splitlines() == [
        "Blocks of type f32[2]{i}",
        "  i=0: [0., 1.]",
        "  i=1: [2., 3.]",
        "  i=2: [4., 5.]",
        "  i=3: [6., 7.]",
        "Blocks of type f32[2]{i,j}",
        "  i=0, j=0: [0., 1.]",
        "  i=0, j=1: [1., 2.]",
        "  i=1, j=0: [2., 3.]",
        "  i=1, j=1: [3., 4.]",
        "  i=2, j=0: [4., 5.]",
        "  i=2, j=1: [5., 6.]",
        "  i=3, j=0: [6., 7.]",
        "  i=3, j=1: [7., 8.]",
        "Blocks of type f32[2]",
        "  on all devices: [12., 16.]",
    ]


def test_blocks_of_several_lines_and_split_dimensions_in_another_order(capsys):
    m = np.arange(16).reshape(4, 4)

    def body(v):
        print(v)
        return v

    mapped(body, P("j", "i"), P("j", "i"))(m)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Blocks of type i32[2,1]{i,j}"
    assert lines[1:3] == ["  i=0, j=0: [[0],", "             [4]]"]
    # Device i=1, j=0 has rows 0 and 1 (along j) of column 1 (along i).
    assert lines[5:7] == ["  i=1, j=0: [[1],", "             [5]]"]


def test_a_format_needs_one_value():
    texts = []

    def body(v):
        total = lax.psum(v.sum(), "i")
        texts.append(f"{total:.1f}")
        with pytest.raises(ConcretizationError, match="differs between devices over 'i'"):
            f"{v.sum():.1f}"
        return v

    mapped(body)(X)
    assert texts == ["28.0"]


def test_python_decides_on_values_that_are_equal():
    steps = []

    def body(v):
        while lax.pmax(v.max(), ("i",)) < 100:
            v = v * 2
            steps.append(1)
        if lax.psum(v, "i")[0] > 150:
            v = v + 1
        rows = [v[0] * k for k in range(int(lax.psum(1, "i")))]
        return sum(rows)[None]

    out = mapped(body)(X)
    doubled = X * 2
    count = 1
    while doubled.max() < 100:
        doubled, count = doubled * 2, count + 1
    assert len(steps) == count
    extra = 1.0 if doubled.reshape(4, 2).sum(0)[0] > 150 else 0.0
    np.testing.assert_allclose(out, (doubled.reshape(4, 2)[:, 0] + extra) * 6)


def test_python_decides_under_grad_too():
    def loss(w):
        def body(w, v):
            total = lax.psum((w * v).sum(), "i")
            return total * total if total > 3 else total

        return mapped(body, (P(), P("i")), P())(w, X)

    np.testing.assert_allclose(weft.grad(loss)(2.0), 2 * 2.0 * 28.0**2)
    np.testing.assert_allclose(weft.grad(loss)(0.01), 28.0)
    np.testing.assert_allclose(weft.grad(weft.grad(loss))(2.0), 2 * 28.0**2)
    np.testing.assert_allclose(weft.jvp(loss, (2.0,), (1.0,))[1], 4 * 28.0**2)


def test_numpy_functions_take_values_that_are_equal():
    seen = []

    def body(v):
        total = lax.psum(v, "i")
        seen.extend([np.sin(total), np.asarray(total), total.tolist(), len(total)])
        return v + np.cos(total)

    out = mapped(body)(X)
    np.testing.assert_allclose(seen[0], np.sin(SUM_I))
    assert type(seen[1]) is np.ndarray and seen[2] == [12.0, 16.0] and seen[3] == 2
    np.testing.assert_allclose(out, X + np.tile(np.cos(SUM_I), 4), rtol=1e-6)


def test_a_breakpoint_stops_inside_with_real_blocks(monkeypatch):
    stops = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, dict(frame.f_locals), str(frame.f_locals["v"])))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def body(v):
        total = lax.psum(v, "i")
        breakpoint()
        return total

    mapped(body, P("i"), P())(X)
    ((name, values, text),) = stops
    assert name == "body" and set(values) == {"v", "total"}
    assert text.splitlines()[4] == "  i=3: [6., 7.]"


def test_a_debugger_steps_through_the_lines():
    """Values of local variables can be read at every line, as pdb does through sys.settrace."""
    seen = []

    def body(v):
        total = lax.psum(v.sum(), "i")
        half = total / 2
        return half

    def trace(frame, event, arg):
        if frame.f_code is not body.__code__:
            return None
        seen.append((event, {k: v for k, v in frame.f_locals.items() if k != "v"}))
        if event == "return":
            seen.append(("value", float(frame.f_locals["half"])))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        mapped(body, P("i"), P())(X)
    finally:
        sys.settrace(before)
    assert [event for event, _ in seen] == ["call", "line", "line", "line", "return", "value"]
    assert list(seen[3][1]) == ["total", "half"] and seen[-1][1] == 14.0


def test_an_exception_inside_is_the_users_and_leaves_nothing_behind():
    def body(v):
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine") as caught:
            mapped(body)(X)
        files = []
        step = caught.value.__traceback__
        while step is not None:
            files.append(step.tb_frame.f_code.co_filename)
            step = step.tb_next
        assert set(files) == {__file__}
    np.testing.assert_array_equal(mapped(lambda v: v)(X), X)


# ---- compiling ---------------------------------------------------------------------------------


def test_a_second_call_compiles_nothing(monkeypatch):
    def call():
        def layer(w, v):
            h = wnp.tanh(v @ w)
            h = lax.psum_scatter(h, "i", tiled=True) + lax.axis_index("i")
            h = lax.cond(h.sum() > 0, lambda u: u * 2, lambda u: u, h)
            h, _ = lax.scan(lambda c, _: (c * 0.5 + 1, None), h, None, length=2)
            return lax.pmean(h.sum(), "i")

        f = mapped(layer, (P(), P("i")), P())
        g = weft.grad(lambda w: f(w, np.ones((16, 3), np.float32)))
        return g(np.eye(3, dtype=np.float32))

    first = call()
    compiled = counted_compilations(monkeypatch)
    second = call()
    assert compiled == []
    np.testing.assert_array_equal(first, second)
    # And the counter counts.
    mapped(lambda v: lax.asinh(v) * 1.25)(X)
    assert compiled


# ---- printing from programs --------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("axis_names", [None, {"i"}], ids=["all axes", "some axes"])
def test_debug_print_is_called_once_on_each_device(wrap, axis_names, capfd):
    def body(v):
        weft.debug.print("sum {} of {}", v.sum(), lax.psum(v.sum(), "i"))
        return v

    f = wrap(mapped(body, axis_names=axis_names))
    weft.block_until_ready(f(X))
    weft.debug.print("after")
    sys.stdout.flush()
    lines = capfd.readouterr().out.splitlines()
    each = [f"sum {s} of 28.0" for s in (1.0, 5.0, 9.0, 13.0)]
    assert sorted(lines[:-1]) == sorted(each * 2) and lines[-1] == "after"


@both_ways
def test_ordered_prints_keep_their_order_on_each_device(wrap, capfd):
    def body(v):
        i, j = lax.axis_index("i"), lax.axis_index("j")
        for step in range(3):
            weft.debug.print("{} {} {step}", i, j, step=step, ordered=True)
        return v

    f = wrap(mapped(body))
    weft.block_until_ready(f(X))
    sys.stdout.flush()
    rows = [tuple(map(int, line.split())) for line in capfd.readouterr().out.splitlines()]
    assert len(rows) == 24
    for i in range(4):
        for j in range(2):
            assert [row[2] for row in rows if row[:2] == (i, j)] == [0, 1, 2]


@both_ways
def test_a_callback_gets_the_block_of_each_device(wrap):
    def double(block):
        assert block.shape == (2,) and type(block) is np.ndarray
        return block * 2

    def body(v):
        return weft.pure_callback(double, weft.ShapeDtypeStruct((2,), np.float32), v) + 1

    np.testing.assert_array_equal(wrap(mapped(body))(X), X * 2 + 1)


@both_ways
def test_a_callback_that_fails_on_one_device_does_not_leave_the_others_waiting(wrap):
    """The others wait for it in a collective: it has to get there."""
    calls = []

    def fail(block):
        calls.append(block)
        if block[0] == 4:
            raise RuntimeError("boom")
        return block

    def body(v):
        v = weft.pure_callback(fail, weft.ShapeDtypeStruct((2,), np.float32), v)
        return lax.psum(v, "i")

    f = wrap(mapped(body, P("i"), P()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="boom"):
            f(X)
    # The same program runs on with values that do not fail.
    np.testing.assert_array_equal(f(X + 10), SUM_I + 40)


def test_a_callback_that_fails_in_an_automatically_partitioned_program():
    def fail(values):
        raise ValueError("boom")

    @weft.jit
    def f(v):
        return weft.pure_callback(fail, weft.ShapeDtypeStruct((8,), np.float32), v) + v.sum()

    with pytest.raises(ValueError, match="boom"):
        f(weft.device_put(X, NamedSharding(MESH, P("i"))))


# ---- all kinds of values -----------------------------------------------------------------------

DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]


@both_ways
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name, wrap):
    dtype = weft.dtypes.parse(name)
    x = (np.arange(8) % 3).astype(dtype)

    def body(v):
        whole = lax.all_gather_invariant(v, "i", tiled=True)
        return v, whole, lax.ppermute(v, "i", [(0, 1), (1, 0), (2, 3), (3, 2)])

    own, whole, swapped = wrap(mapped(body, P("i"), (P("i"), P(), P("i"))))(x)
    assert own.dtype == whole.dtype == swapped.dtype == dtype
    np.testing.assert_array_equal(own, x)
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_array_equal(swapped, x.reshape(2, 2, 2)[:, ::-1].reshape(8))


@both_ways
@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0), (3, 8, 0)], ids=str)
def test_empty_blocks(shape, wrap):
    dim = 1 if len(shape) == 3 else 0
    x = np.zeros(shape, np.float32)
    spec = P(*[None] * dim, "i")

    def body(v):
        total = lax.psum(v, "i")
        gathered = lax.all_gather(v, "i", axis=dim, tiled=True)
        apart = lax.all_gather(v, "i")
        scattered = lax.psum_scatter(gathered, "i", scatter_dimension=dim, tiled=True)
        whole = lax.all_gather_invariant(v, "i", axis=dim, tiled=True)
        back = lax.pscatter(whole, "i", axis=dim, tiled=True)
        moved = lax.ppermute(v, "i", [(0, 1)]) + v
        sums = lax.psum(v.sum(), "i")
        return total, apart, scattered, whole, back, moved, sums

    outs = (P(), P("i"), spec, P(), spec, spec, P())
    total, apart, scattered, whole, back, moved, sums = wrap(mapped(body, spec, outs))(x)
    block = list(shape)
    block[dim] //= 4
    assert total.shape == tuple(block) and apart.shape == (16, *block)
    for value in (scattered, whole, back, moved):
        assert value.shape == shape and np.asarray(value).shape == shape
    assert float(sums) == 0.0


@both_ways
def test_random_keys(wrap):
    keys = weft.random.split(weft.random.key(0), 8)

    def body(own, one):
        drawn = weft.vmap(lambda key: weft.random.uniform(key, (3,)))(own)
        return drawn, own[::-1], weft.random.fold_in(one, lax.axis_index("i"))[None]

    drawn, turned, folded = wrap(mapped(body, (P("i"), P()), P("i")))(keys, weft.random.key(1))
    expected = weft.vmap(lambda key: weft.random.uniform(key, (3,)))(keys)
    np.testing.assert_array_equal(drawn, expected)
    data = np.asarray(weft.random.key_data(keys)).reshape(4, 2, 2)[:, ::-1].reshape(8, 2)
    np.testing.assert_array_equal(weft.random.key_data(turned), data)
    each = [weft.random.fold_in(weft.random.key(1), i) for i in range(4)]
    alone = np.stack([weft.random.key_data(key) for key in each])
    np.testing.assert_array_equal(weft.random.key_data(folded), alone)


@both_ways
def test_scalars_in_and_out(wrap):
    def body(a, b, c, d, e):
        return a + b, c, d, lax.psum(e * lax.axis_index("i"), "i")

    f = wrap(mapped(body, (P(),) * 5, P()))
    total, flag, imaginary, sixes = f(1, 2.5, True, 3j, np.float32(2))
    assert float(total) == 3.5 and bool(flag) is True and complex(imaginary) == 3j
    assert float(sixes) == 12.0 and sixes.dtype == np.float32
    assert total.weak_type and not sixes.weak_type


@both_ways
def test_no_inputs(wrap):
    np.testing.assert_array_equal(
        wrap(mapped(lambda: lax.axis_index(("i", "j"))[None], (), P(("i", "j"))))(), np.arange(8)
    )
    one = wnp.full((1, 1), 3.0)
    for spec, shape in ((P("i", "j"), (4, 2)), (P("i", None), (4, 1)), (P(None, None), (1, 1))):
        out = wrap(mapped(lambda: one, (), spec))()
        np.testing.assert_array_equal(out, np.full(shape, 3.0))


@both_ways
@pytest.mark.parametrize("nothing, spec", [(None, P()), ((), P()), ({}, {}), ([], [])], ids=str)
def test_no_outputs(nothing, spec, wrap):
    assert wrap(mapped(lambda v: nothing, P("i"), spec))(X) == nothing


@both_ways
def test_trees_and_prefixes_of_specs(wrap):
    def body(p, pair):
        a, b = pair
        return {"w": (p["w"] * 2, p["b"]), "s": [lax.psum(a, "i"), b]}, a

    specs = ({"w": P("i"), "b": P()}, (P("i"), P(None, "j")))
    outs = ({"w": (P("i"), P()), "s": [P(), P(None, "j")]}, P("i"))
    args = {"w": X, "b": X[:3]}, (X, X.reshape(2, 4))
    found, a = wrap(mapped(body, specs, outs))(*args)
    np.testing.assert_array_equal(found["w"][0], X * 2)
    np.testing.assert_array_equal(found["w"][1], X[:3])
    np.testing.assert_array_equal(found["s"][0], SUM_I)
    np.testing.assert_array_equal(found["s"][1], X.reshape(2, 4))
    np.testing.assert_array_equal(a, X)
    # One spec for all leaves, and None for P().
    twice = wrap(mapped(lambda p: weft.tree.map(lambda v: v * 2, p), P("i"), P("i")))(
        {"a": X, "b": [X, X]}
    )
    np.testing.assert_array_equal(twice["b"][1], X * 2)
    np.testing.assert_array_equal(wrap(mapped(lambda v: v, None, None))(X), X)


@both_ways
def test_keyword_arguments_and_specs_by_name(wrap):
    @shard_map(mesh=MESH, in_specs={"a": P("i"), "b": P(), "c": P("i")}, out_specs=P("i"))
    def f(a, b=2.0, *, c):
        """Adds."""
        return a * b + c

    assert f.__name__ == "f" and f.__doc__ == "Adds."
    g = wrap(f)
    np.testing.assert_array_equal(g(X, c=X), X * 3)
    np.testing.assert_array_equal(g(X, b=3.0, c=X), X * 4)
    np.testing.assert_array_equal(g(c=X, a=X, b=0.0), X)
    one = wrap(mapped(lambda a, b: a + b, P("i"), P("i")))
    np.testing.assert_array_equal(one(X, b=X), X * 2)


@both_ways
def test_decorator_forms(wrap):
    @functools.partial(shard_map, mesh=MESH, in_specs=P("i"), out_specs=P())
    def total(v):
        return lax.psum(v, "i")

    class Model:
        scale = 2.0

        def scaled(self, v):
            return v * self.scale

    np.testing.assert_array_equal(wrap(total)(X), SUM_I)
    np.testing.assert_array_equal(wrap(mapped(Model().scaled))(X), X * 2)
    np.testing.assert_array_equal(wrap(mapped(functools.partial(wnp.multiply, 3.0)))(X), X * 3)


@both_ways
def test_the_mesh_of_the_surroundings(wrap):
    def total(v):
        return lax.psum(v, "i")

    f = wrap(shard_map(total, in_specs=P("i"), out_specs=P()))
    with weft.use_mesh(MESH):
        np.testing.assert_array_equal(f(X), SUM_I)
    with weft.set_mesh(weft.make_mesh((2,), ("i",))):
        np.testing.assert_array_equal(f(X), X.reshape(2, 4).sum(0))
    with MESH:
        np.testing.assert_array_equal(f(X), SUM_I)


def test_results_lie_where_their_specs_say_and_inputs_may_lie_anywhere():
    for x in (X, wnp.asarray(X), weft.device_put(X, NamedSharding(MESH, P(("j", "i"))))):
        out = mapped(lambda v: v * 2)(x)
        assert out.sharding == NamedSharding(MESH, P("i"))
        assert all(s.data.shape == (2,) for s in out.addressable_shards)
        np.testing.assert_array_equal(out, X * 2)
    assert mapped(lambda v: lax.psum(v, "i"), P("i"), P())(X).is_fully_replicated


def test_jitted_functions_run_inside():
    @weft.jit
    def inner(v):
        return lax.psum(v * 2, "i") + wnp.sin(v)

    np.testing.assert_allclose(mapped(inner)(X), np.tile(SUM_I * 2, 4) + np.sin(X), rtol=1e-6)


def test_blocks_have_the_methods_of_arrays():
    def body(v):
        assert (v.shape, v.ndim, v.size, len(v), v.dtype) == ((2,), 1, 2, 2, np.float32)
        v = v.at[0].add(1.0)
        first, second = v
        v = wnp.stack([first, second])[::-1].reshape(2)
        return abs(-v).astype(int)

    out = mapped(body)(X)
    expected = X.reshape(4, 2) + np.array([1, 0])
    np.testing.assert_array_equal(out, expected[:, ::-1].reshape(8).astype(int))


def test_nested_over_the_other_axis():
    seen = []

    def inner(u):
        seen.append(str(u))
        return lax.psum(u, "j")

    def outer(v):
        return mapped(inner, P("j"), P(), axis_names={"j"})(v)

    x = np.arange(16, dtype=np.float32)
    out = mapped(outer, P("i"), P("i"), axis_names={"i"})(x)
    blocks = x.reshape(4, 2, 2)
    np.testing.assert_array_equal(out, blocks.sum(1).reshape(8))
    assert "i=3, j=1: [14., 15.]" in seen[0]
