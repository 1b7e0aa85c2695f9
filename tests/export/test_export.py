"""Exported programs: another process runs them, and they compose with everything in this one."""

from __future__ import annotations

import collections
import os
import pathlib

import numpy as np
import pytest
import scipy.special

import weft
import weft.numpy as wnp
from export_cases import (
    ON_MESH,
    TABLE,
    F,
    Layer,
    Point,
    S,
    W,
    X,
    exported,
    partitioned,
    random,
    ring_reference,
    sharded_ring,
)
from processes import python_output
from source_files import ROOT
from weft import dtypes, export, tree
from weft.errors import TreeError, WeftValueError
from weft.sharding import NamedSharding, P
from weft.sharding.mesh import AbstractMesh

RUNNER = ROOT / "tests" / "support" / "export_runner.py"

# ---- in another process ------------------------------------------------------------------------


def forest(a, b, layer, point, *, scale):
    mapped = {"z": a["n"] * scale, "a": {3: [b[0] + b[2], None]}}
    keyed = {(1, 2.5): layer.weight * layer.factor, (0, True): {None: a["m"]}}
    return (
        mapped,
        keyed,
        collections.OrderedDict(q=point.x, p=point.y),
        Layer(a["m"], 7),
        Point(b[0], 1),
    )


def forest_reference(a, b, layer, point, *, scale):
    return [
        *(b[0] + b[2], a["n"] * scale, a["m"], layer.weight * 5),
        *(point.x, point.y, a["m"], b[0], np.int32(1)),
    ]


FOREST = (
    {"n": F(2), "m": random(2)},
    (F(3), None, random(1, 2)),
    Layer(random(2, 2), 5),
    Point(random(3), np.int32(4)),
)


def tower(x):
    """A loop over a loop over a branch."""

    def step(carry, row):
        carry = weft.lax.cond(row > 0, lambda c: c * row, lambda c: c - row, carry)
        return carry, weft.lax.while_loop(lambda c: c < 4, lambda c: c + 1, carry)

    return weft.lax.scan(step, F(1), x)


def tower_reference(x):
    carry, rows = 1.0, []
    for row in np.asarray(x, float):
        carry = carry * row if row > 0 else carry - row
        last = carry
        while last < 4:
            last += 1
        rows.append(last)
    return [carry, np.array(rows)]


def network(w, x):
    return wnp.tanh(w @ x)


def network_gradient(w, x):
    return [np.outer(1 - np.tanh(w @ x) ** 2, x)]


def network_vjp(w, x, ct):
    inner = ct * (1 - np.tanh(w @ x) ** 2)
    return [np.outer(inner, x), w.T @ inner]


def cubes(x):
    return x**3 * wnp.asarray(X)


def plain(reference):
    """A reference of one result."""
    return lambda *args, **kwargs: [reference(*args, **kwargs)]


# name -> (how it is called, function, arguments, keyword arguments, reference on float64)
CASES = {
    "trees": ("call", forest, FOREST, {"scale": F(0.5)}, forest_reference),
    "closure": ("call", lambda x: W @ x, (X,), {}, plain(lambda x: W @ x)),
    "large_closure": ("call", lambda i: wnp.asarray(TABLE)[i].sum(), (np.int32(17),), {},
                      plain(lambda i: TABLE.astype(float)[17].sum())),
    "nothing": ("call", lambda: (), (), {}, list),
    "constant": ("call", lambda x: (wnp.zeros((0, 3)), x, 2.5), (X,), {},
                 lambda x: [np.zeros((0, 3)), x, 2.5]),
    "loops": ("call", tower, (random(6),), {}, tower_reference),
    "special": (
        "call", lambda x: (weft.lax.erf(x), weft.lax.lgamma(x), wnp.arcsinh(x), wnp.tan(x)), (X,),
        {}, lambda x: [scipy.special.erf(x), scipy.special.gammaln(x), np.arcsinh(x), np.tan(x)],
    ),
    "sort": ("jit", lambda x: weft.lax.top_k(x, 2), (X,), {},
             lambda x: [np.sort(x)[::-1][:2], np.argsort(-x)[:2].astype(np.int32)]),
    "jit": ("jit", network, (W, X), {}, plain(lambda w, x: np.tanh(w @ x))),
    "vmap": ("vmap", network, (W, X), {},
             plain(lambda w, x: np.tanh(np.einsum("bij,bj->bi", w, x)))),
    "grad": ("grad", network, (W, X), {}, network_gradient),
    "jit_grad": ("jit_grad", network, (W, X), {}, network_gradient),
    "vjp": ("vjp", network, (W, X), {}, network_vjp),
    "hessian": ("hessian", cubes, (X,), {}, plain(lambda x: np.diag(6 * x * X))),
    "jvp": ("jvp", cubes, (X,), {}, plain(lambda x: 3 * x**3 * X)),
    "sharded": ("call", partitioned, (random(8, 4),), {},
                plain(lambda x: np.sin(x) @ x.T + ring_reference(x).sum())),
    "sharded_jit": ("jit", sharded_ring, (random(8, 4),), {}, plain(ring_reference)),
    "sharded_grad": ("grad", lambda x: wnp.sin(x), (random(8, 4),), {}, plain(np.cos)),
}  # fmt: skip
SHARDED = {"sharded": ON_MESH, "sharded_grad": ON_MESH}
ORDERS = {"hessian": 2, "jvp": 2, "grad": 1, "jit_grad": 1, "vjp": 1, "sharded_grad": 1}


def stored_bytes(leaf):
    if hasattr(leaf.dtype, "key_shape"):
        leaf = weft.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def arguments_of(how, args):
    """The arguments of the call, given those of the exported program."""
    if how == "vmap":
        return tuple(np.stack([x, x + 1]) for x in args)
    return (*args, random(4, seed=5)) if how == "vjp" else args


def write_case(folder, name, how, program, args, kwargs):
    (folder / f"{name}.weft").write_bytes(program)
    (folder / f"{name}.how").write_text(how)
    leaves = tree.leaves((args, kwargs))
    (folder / f"{name}.in").write_bytes(b"".join(map(stored_bytes, leaves)))


KEYS = weft.random.split(weft.random.key(7), 5)
DTYPES = sorted(dtypes.ANY | dtypes.NARROW, key=str)


def of_dtype(dtype):
    return np.array([0, 1, 1, 0, 1]).astype(dtype)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The folder in which another process has run all the cases."""
    folder = tmp_path_factory.mktemp("exported")
    for name, (how, function, args, kwargs, _) in CASES.items():
        places = {"in_shardings": SHARDED[name]} if name in SHARDED else {}
        made = export.export(weft.jit(function, **places))(*args, **kwargs)
        program = made.serialize(vjp_order=ORDERS.get(name, 0))
        write_case(folder, name, how, program, arguments_of(how, args), kwargs)
    with weft.enable_x64():
        for dtype in DTYPES:
            constant = wnp.asarray(of_dtype(dtype))
            made = export.export(weft.jit(lambda x, c=constant: (x[::-1], c)))(S((5,), dtype))
            write_case(folder, f"dtype_{dtype}", "call", made.serialize(), (of_dtype(dtype),), {})
    made = export.export(weft.jit(lambda keys: (keys[::-1], KEYS[1:3])))(KEYS)
    write_case(folder, "dtype_key", "call", made.serialize(), (KEYS,), {})
    python_output(RUNNER, folder, timeout=None, env=os.environ | {"WEFT_NUM_CPU_DEVICES": "8"})
    return folder


@pytest.mark.parametrize("name", CASES)
def test_another_process_computes_the_same(elsewhere, name):
    how, _, args, kwargs, reference = CASES[name]
    args = arguments_of(how, args)
    to_double = lambda x: x.astype(float) if getattr(x, "dtype", None) == F else x  # noqa: E731
    wanted = reference(*tree.map(to_double, args), **kwargs)
    data = (elsewhere / f"{name}.out").read_bytes()
    for want in wanted:
        want = np.asarray(want)
        dtype = np.dtype(np.int32) if want.dtype.kind == "i" else np.dtype(F)
        count = want.size * dtype.itemsize
        got = np.frombuffer(data[:count], dtype).reshape(want.shape)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
        data = data[count:]
    assert not data


def test_another_process_gives_results_their_structure(elsewhere):
    shown = (elsewhere / "trees.tree").read_text()
    ordered = repr(collections.OrderedDict(q=0, p=0))
    assert shown == (
        "({'a': {3: [0, None]}, 'z': 0}, {(0, True): {None: 0}, (1, 2.5): 0}, "
        f"{ordered}, Block(weight=0, factor=7), Place(first=0, second=0))"
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_as_argument_and_as_constant(elsewhere, dtype):
    values = of_dtype(dtype)
    data = (elsewhere / f"dtype_{dtype}.out").read_bytes()
    assert data == values[::-1].tobytes() + values.tobytes()


def test_random_keys_as_argument_and_as_constant(elsewhere):
    bits = np.asarray(weft.random.key_data(KEYS))
    data = (elsewhere / "dtype_key.out").read_bytes()
    assert data == bits[::-1].tobytes() + bits[1:3].tobytes()


# ---- what the bytes hold -----------------------------------------------------------------------


def test_equal_programs_have_equal_bytes_without_paths():
    def data():
        table = wnp.asarray(TABLE)
        return export.export(weft.jit(lambda x: x @ table))(S((300,), F)).serialize(1)

    first = data()
    assert first == data()
    assert str(pathlib.Path(__file__).parent).encode() not in first
    assert b"test_export" not in first


def test_what_is_closed_over_is_stored_once():
    table = wnp.asarray(TABLE)
    made = export.export(weft.jit(lambda x: x @ table), platforms=("cpu", "cuda"))(S((300,), F))
    one, three = len(made.serialize()), len(made.serialize(vjp_order=2))
    assert table.nbytes < one < three < table.nbytes + 40_000


def test_an_exported_program_describes_itself():
    function = weft.jit(lambda x, *, k: {"y": x * k}, in_shardings=ON_MESH)
    made = export.export(function, platforms=("cpu", "gpu"))(S((8, 4), F), k=S((), "int32"))
    for found in (made, export.deserialize(made.serialize(vjp_order=1))):
        assert found.fun_name == "<lambda>"
        assert found.in_tree == tree.structure(((0,), {"k": 0}))
        assert found.out_tree == tree.structure({"y": 0})
        assert [str(t) for t in found.in_avals] == ["f32[8,4]", "i32[]"]
        assert [str(t) for t in found.out_avals] == ["f32[8,4]"]
        assert found.platforms == ("cpu", "cuda") and found.nr_devices == 8
        abstract = AbstractMesh((4, 2), ("i", "j"))
        assert found.in_shardings == (NamedSharding(abstract, P("i", "j")), None)
        assert found.out_shardings == (None,) and found.has_vjp()
        assert "func.func public @main(%arg0: tensor<8x4xf32>" in found.mlir_module()
        assert "sdy.mesh" in found.mlir_module("cuda")
        assert repr(found) == "<Exported <lambda>: (f32[8,4], i32[]) -> (f32[8,4]) on cpu, cuda>"


def test_weak_types_survive():
    made = exported(lambda x: x * 2, S((), F, weak_type=True))
    assert made.in_avals[0].weak_type and made.call(1.0).weak_type
    assert not exported(lambda x: x * 2, S((), F)).call(1.0).weak_type


def test_static_arguments_are_fixed():
    function = weft.jit(lambda n, x, *, up: x + n if up else x - n, static_argnums=0,
                        static_argnames="up")  # fmt: skip
    made = export.deserialize(export.export(function)(3, S((2,), F), up=True).serialize())
    np.testing.assert_array_equal(made.call(np.ones(2, F)), [4, 4])
    with pytest.raises(TreeError, match="a tuple of length 2"):
        made.call(3, np.ones(2, F))


def test_donation_is_dropped():
    made = export.export(weft.jit(lambda x: x + 1, donate_argnums=0))(S((3,), F))
    x = wnp.zeros(3)
    made.call(x)
    made.call(x)
    assert not x.is_deleted()


# ---- composing ---------------------------------------------------------------------------------


def test_names_do_not_clash():
    """Two programs with one name, each with functions of one name inside, one of them twice."""
    inner = weft.jit(lambda x: x * 2)
    first = exported(lambda x: inner(x) + inner(x + 1), S((2,), F))
    inner2 = weft.jit(lambda x: x * 5)
    second = exported(lambda x: inner2(x) - inner2(x + 1), S((2,), F))
    x = random(2)

    @weft.jit
    def both(x):
        return first.call(x) * second.call(first.call(x)) + inner(x)

    np.testing.assert_allclose(both(x), (4 * x + 2) * -5 + 2 * x, rtol=1e-6)
    text = both.lower(x).as_text()
    # first is called twice and stands there once: four functions of `inner`, and ours.
    assert text.count("func.func") == 6


def test_an_exported_program_in_another_exported_one():
    inner = exported(lambda x: wnp.sin(x) * W[0], S((3,), F))
    outer = exported(lambda x: inner.call(x) + inner.call(2 * x), S((3,), F))
    want = (np.sin(X.astype(float)) + np.sin(2 * X.astype(float))) * W[0]
    np.testing.assert_allclose(outer.call(X), want, rtol=1e-5)


def test_inside_of_scan_and_cond_and_under_checkpoint():
    made = export.deserialize(
        export.export(weft.jit(lambda c, x: wnp.sin(c) * x))(S((), F), S((), F)).serialize(1)
    )

    def by_export(c, xs):
        step = weft.checkpoint(lambda c, x: (made.call(c, x), c))
        return weft.lax.cond(c > 0, lambda: weft.lax.scan(step, c, xs)[0], lambda: c)

    def by_hand(c, xs):
        for x in xs:
            c = np.sin(c) * x
        return c

    xs, c, h = random(4) + 2, 0.7, 1e-6
    np.testing.assert_allclose(by_export(F(c), xs), by_hand(c, xs.astype(float)), rtol=1e-5)
    got = weft.jit(weft.grad(by_export))(F(c), xs)
    slope = (by_hand(c + h, xs.astype(float)) - by_hand(c - h, xs.astype(float))) / (2 * h)
    np.testing.assert_allclose(got, slope, rtol=1e-4)


@pytest.mark.parametrize("in_axes", [(0, None), (None, 1), (1, 0)])
def test_vmap_and_its_derivative(in_axes):
    made = export.deserialize(
        export.export(weft.jit(lambda x, y: wnp.sin(x) * y))(S((3,), F), S((3,), F)).serialize(1)
    )
    args = [
        random(*([3] if a is None else [4, 3] if a == 0 else [3, 4]), seed=k)
        for k, a in enumerate(in_axes)
    ]
    x, y = (
        arg.astype(float).T if axis == 1 else arg.astype(float)
        for arg, axis in zip(args, in_axes, strict=True)
    )
    np.testing.assert_allclose(weft.vmap(made.call, in_axes)(*args), np.sin(x) * y, rtol=1e-5)
    loss = weft.vmap(weft.grad(lambda x, y: made.call(x, y).sum()), in_axes)
    np.testing.assert_allclose(loss(*args), np.broadcast_to(np.cos(x) * y, (4, 3)), rtol=1e-5)
    # The sum over the mapped axis, where an argument is not mapped.
    sums = weft.grad(lambda x: weft.vmap(made.call, in_axes)(x, args[1]).sum())(args[0])
    want = np.broadcast_to(np.cos(x) * y, (4, 3))
    if in_axes[0] is None:
        want = want.sum(0)
    np.testing.assert_allclose(sums, want.T if in_axes[0] == 1 else want, rtol=1e-5)


def test_integers_and_keys_have_no_derivative_and_do_no_harm():
    def f(n, x, key):
        return n + 1, x ** n.astype("float32") + weft.random.uniform(key, (2,))

    key = weft.random.key(1)
    made = export.deserialize(
        export.export(weft.jit(f))(S((), "int32"), S((2,), F), key).serialize(vjp_order=1)
    )
    x = np.array([2, 3], F)
    got = weft.grad(lambda x: made.call(3, x, key)[1].sum())(x)
    np.testing.assert_allclose(got, 3 * x**2, rtol=1e-6)
    assert [str(t) for t in made.vjp().out_avals] == ["f32[2]"]


def test_complex_derivatives():
    made = export.deserialize(
        export.export(weft.jit(lambda z: z * z))(S((), "complex64")).serialize(vjp_order=1)
    )
    z = np.complex64(1 + 2j)
    _, pull = weft.vjp(made.call, z)
    np.testing.assert_allclose(pull(wnp.complex64(1))[0], 2 * z, rtol=1e-6)


def test_derivatives_end_where_they_were_not_exported():
    made = export.export(weft.jit(lambda x: x**3))(S((), F))
    assert made.has_vjp() and made.vjp().vjp().vjp().has_vjp()
    for order in (0, 1):
        found = export.deserialize(made.serialize(vjp_order=order))
        f = found.call
        for _ in range(order):
            f = weft.grad(f)
        np.testing.assert_allclose(f(2.0), [8.0, 12.0][order], rtol=1e-6)
        with pytest.raises(WeftValueError, match="no derivative") as caught:
            weft.grad(f)(2.0)
        assert caught.value.fix.kind == "vjp_order"
        again = export.deserialize(
            made.serialize(vjp_order=order + caught.value.fix.data["vjp_order"])
        )
        f = again.call
        for _ in range(order + 1):
            f = weft.grad(f)
        np.testing.assert_allclose(f(2.0), [12.0, 12.0][order], rtol=1e-6)
    with pytest.raises(WeftValueError, match="no derivative"):
        export.deserialize(made.serialize()).vjp()
    with pytest.raises(WeftValueError, match="no derivative"):
        export.deserialize(made.serialize()).serialize(vjp_order=1)
    with pytest.raises(WeftValueError, match="no derivative"):
        weft.jvp(export.deserialize(made.serialize(vjp_order=1)).call, (2.0,), (1.0,))


def test_functions_of_weft_are_exported_as_they_are():
    for function in (wnp.cos, wnp.linalg.norm, weft.nn.relu):
        made = export.export(function)(S((3,), F))
        x = np.array([-1.0, 0.5, 2.0], F)
        np.testing.assert_allclose(made.call(x), function(x), rtol=1e-6)
    with pytest.raises(TypeError, match="made by weft.jit"):
        export.export(lambda x: x)
