"""Vectorization: `vmap` against a Python loop, its axes as tree prefixes, and its errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from weft import lax
from weft.errors import AxisError, ShapeError, TreeError, WeftTypeError, WeftValueError
from weft.extend.interpreters import batching

A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(3.0, dtype=np.float32)


def test_a_function_of_a_scalar_on_a_vector():
    seen = []

    def add_one(scalar):
        seen.append(np.shape(scalar))
        return 1 + scalar

    close(weft.vmap(add_one)(V), V + 1)
    assert seen == [()]


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out_axis", [0, 1, 2, -1, -3])
def test_every_position_of_the_mapped_axis(in_axis, out_axis):
    got = weft.vmap(lambda x: jnp.sin(x) * 2, in_axes=in_axis, out_axes=out_axis)(A)
    close(got, np.moveaxis(np.sin(A) * 2, in_axis, out_axis))


def test_in_axes_differ_between_arguments():
    got = weft.vmap(lambda x, y, z: x * y + z, in_axes=(0, None, -1))(A, A[0], np.moveaxis(A, 0, 2))
    close(got, A * A[0] + A)


def test_in_axes_are_a_tree_prefix():
    def f(d, pair, k):
        return d["a"] * d["b"] + pair[0] + pair[1] * k

    args = ({"a": A, "b": np.moveaxis(A, 0, 1)}, [A[0], A], 2.0)
    got = weft.vmap(f, in_axes=({"a": 0, "b": 1}, [None, 0], None))(*args)
    close(got, A * A + A[0] + A * 2)
    got = weft.vmap(f, in_axes=({"a": 0, "b": 1}, 0, None))(args[0], [A, A], 2.0)
    close(got, A * A + A + A * 2)


def test_one_int_serves_all_arguments_and_leaves():
    close(weft.vmap(lambda d, y: d["x"][0] + y)({"x": (A, None)}, A), A + A)


def test_an_argument_that_is_a_single_dict():
    got = weft.vmap(lambda d: d["x"] + d["y"], in_axes=({"x": 0, "y": None},))({"x": A, "y": A[0]})
    close(got, A + A[0])


def test_keyword_arguments_are_mapped_along_axis_zero():
    close(
        weft.vmap(lambda x, *, k: x * k, in_axes=1)(A[:, :2, 0], k=A[:, 0, 0]),
        A[:, :2, 0].T * A[:, 0, 0][:, None],
    )
    close(weft.vmap(lambda *, k: k + 1)(k=V), V + 1)


def test_out_axes_are_a_tree_prefix():
    def f(x):
        return {"a": x, "b": (x, x + 1)}, 3.0

    d, c = weft.vmap(f, out_axes=({"a": 1, "b": -1}, 0))(A[0])
    close(d["a"], A[0].T)
    close(d["b"][1], A[0].T + 1)
    close(c, [3.0, 3.0, 3.0])


def test_results_that_are_not_mapped():
    out, constant = weft.vmap(lambda x: (x, jnp.ones(2)), out_axes=(0, None))(V)
    close(constant, np.ones(2))
    close(weft.vmap(lambda x: jnp.ones(2), out_axes=1)(V), np.ones((2, 3)))
    close(weft.vmap(lambda x: jnp.ones(2), out_axes=-1)(V), np.ones((2, 3)))
    close(weft.vmap(lambda x: 5)(V), [5, 5, 5])


def test_arguments_that_are_no_arrays_pass_where_they_are_not_mapped():
    close(weft.vmap(lambda mode, x: x if mode == "same" else -x, in_axes=(None, 0))("same", V), V)


def test_axis_size_where_nothing_is_mapped():
    assert weft.vmap(lambda: jnp.ones(2), axis_size=3)().shape == (3, 2)
    assert weft.vmap(lambda x: x * 2, in_axes=None, axis_size=4)(1.0).shape == (4,)
    with pytest.raises(ShapeError, match="different lengths"):
        weft.vmap(lambda x: x, axis_size=4)(V)


def test_an_axis_of_length_zero_and_of_length_one():
    assert weft.vmap(lambda x: jnp.sin(x).sum())(jnp.zeros((0, 3))).shape == (0,)
    assert weft.vmap(lambda x: x @ x)(jnp.zeros((1, 3))).shape == (1,)
    assert weft.vmap(weft.grad(lambda x: jnp.sum(x * x)))(jnp.zeros((0, 3))).shape == (0, 3)


def test_nested():
    outer = weft.vmap(weft.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    close(outer(V, V), np.outer(V, V))
    close(
        weft.vmap(weft.vmap(weft.vmap(lambda x: x * x, in_axes=0), in_axes=1), in_axes=2)(A),
        np.transpose(A * A, (2, 1, 0)),
    )


def test_closure_over_mapped_values_of_an_outer_vmap():
    def row(x):
        return weft.vmap(lambda y: x * y)(V)

    close(weft.vmap(row)(V), np.outer(V, V))

    def row_jitted(x):
        return weft.vmap(weft.jit(lambda y: x * y + 1))(V)

    close(weft.vmap(row_jitted)(V), np.outer(V, V) + 1)
    close(weft.jit(weft.vmap(row_jitted))(V), np.outer(V, V) + 1)
    close(weft.grad(lambda v: weft.vmap(row_jitted)(v).sum())(V), [3.0, 3.0, 3.0])


def test_broadcasting_between_ranks_that_vmap_hides():
    # Elements of rank 1 and of rank 0 meet, mapped at different axes.
    got = weft.vmap(lambda x, s: x * s + 1, in_axes=(1, 0))(A[0], A[0, 0])
    close(got, A[0].T * A[0, 0][:, None] + 1)
    got = weft.vmap(lambda s, x: s - x, in_axes=(0, None))(V, np.float32(2.0))
    close(got, V - 2)
    got = weft.vmap(lambda s, x: jnp.where(s > 1, x, s), in_axes=(0, None))(V, A[0])
    close(got, np.where(V[:, None, None] > 1, A[0], V[:, None, None]))


def test_different_axes_through_jit_and_grad():
    @weft.jit
    def loss(params, x):
        return jnp.sum(jnp.tanh(x @ params["w"] + params["b"]) ** 2)

    w = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    params = {"w": w, "b": np.stack([np.full(5, k) for k in range(3)], -1).astype(np.float32)}
    x = np.moveaxis(A, 1, 2)  # (2, 4, 3): mapped along the last axis
    mapped = weft.vmap(
        weft.grad(loss, argnums=(0, 1)),
        in_axes=({"w": None, "b": 1}, -1),
        out_axes=({"w": -1, "b": 1}, 2),
    )
    (gp, gx), again = mapped(params, x), weft.jit(mapped)(params, x)
    for k in range(3):
        hp, hx = weft.grad(loss, argnums=(0, 1))({"w": w, "b": params["b"][:, k]}, x[:, :, k])
        close(gp["w"][..., k], hp["w"], 1e-4, 1e-5)
        close(gp["b"][:, k], hp["b"], 1e-4, 1e-5)
        close(gx[:, :, k], hx, 1e-4, 1e-5)
    for a, b in zip(weft.tree.leaves((gp, gx)), weft.tree.leaves(again), strict=True):
        close(a, b, 1e-4, 1e-5)


def test_per_example_gradients_equal_a_loop():
    def loss(w, x):
        return jnp.tanh(x @ w) ** 2

    w, xs = A[0, 0], A[0] / 10
    got = weft.vmap(weft.grad(loss), in_axes=(None, 0))(w, xs)
    close(got, np.stack([weft.grad(loss)(w, x) for x in xs]))


def test_the_trace_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(x.shape)
        return x

    weft.vmap(f)(jnp.zeros((100, 2)))
    assert calls == [(2,)]


def test_keeps_the_functions_name_and_takes_any_callable():
    def f(x):
        """About f."""
        return x

    assert weft.vmap(f).__name__ == "f" and weft.vmap(f).__doc__ == "About f."
    close(weft.vmap(functools.partial(jnp.multiply, 2.0))(V), V * 2)


def test_a_mapped_value_shows_the_type_of_an_element():
    def f(x):
        assert x.shape == (4,) and x.ndim == 1 and len(x) == 4 and x.size == 4
        assert x.dtype == np.float32
        return x

    weft.vmap(weft.vmap(f))(A)


def test_dtypes_pass_unchanged():
    for dtype in (np.int8, np.uint32, np.bool_, np.float16, np.complex64, np.float64):
        x = jnp.ones((3, 2), dtype)
        assert weft.vmap(lambda x: x)(x).dtype == dtype
        assert weft.vmap(lambda x: jnp.where(x == x, x, x))(x).dtype == dtype


# ---- errors ------------------------------------------------------------------------------------


def test_lengths_that_differ_are_named():
    with pytest.raises(ShapeError, match="different lengths") as info:
        weft.vmap(lambda first, second: first)(jnp.ones(3), {"k": jnp.ones(4)})
    assert "first: 3" in str(info.value) and "second['k']: 4" in str(info.value)


def test_an_argument_without_the_axis_is_named():
    with pytest.raises(AxisError, match="value has no axis 0") as info:
        weft.vmap(lambda x, value: x)(jnp.ones(3), 2.0)
    assert info.value.fix.kind == "in_axes"
    with pytest.raises(AxisError, match="x has no axis -3"):
        weft.vmap(lambda x: x, in_axes=-3)(A[0])


def test_nothing_to_map():
    with pytest.raises(WeftValueError, match="no argument is mapped"):
        weft.vmap(lambda x: x, in_axes=None)(1.0)
    with pytest.raises(WeftValueError, match="no argument is mapped"):
        weft.vmap(lambda: 1.0)()


def test_in_axes_as_a_list_has_an_entry_per_argument():
    found = weft.vmap(lambda x, y: x * y, in_axes=[0, None], out_axes=1)(V, V)
    np.testing.assert_array_equal(found, np.outer(V, V).T)
    stacked = weft.vmap(lambda x: [x, -x], out_axes=[0, 0])(V)
    np.testing.assert_array_equal(stacked, [V, -np.asarray(V)])


def test_in_axes_of_the_wrong_length_kind_or_tree():
    with pytest.raises(WeftValueError, match="2 entries and the call has 1"):
        weft.vmap(lambda x: x, in_axes=(0, 1))(V)
    with pytest.raises(WeftTypeError, match="ints and None"):
        weft.vmap(lambda x: x, in_axes="0")
    with pytest.raises(WeftTypeError, match="ints and None"):
        weft.vmap(lambda x: x, in_axes=(0.5,))
    with pytest.raises(WeftTypeError, match="ints and None"):
        weft.vmap(lambda x: x, in_axes=True)
    with pytest.raises(TreeError, match="in_axes"):
        weft.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": V})
    with pytest.raises(TreeError, match="in_axes"):
        weft.vmap(lambda d: d, in_axes=((0, 0, 0),))((V, V))


def test_out_axes_that_do_not_fit():
    with pytest.raises(TreeError, match="out_axes"):
        weft.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(V)
    with pytest.raises(AxisError, match="out_axes"):
        weft.vmap(lambda x: x, out_axes=1)(V)
    with pytest.raises(WeftValueError, match="depends on a mapped argument"):
        weft.vmap(lambda x: x, out_axes=None)(V)


def test_a_callable_first():
    with pytest.raises(WeftTypeError, match="function first"):
        weft.vmap(3)


def test_results_that_are_no_arrays():
    with pytest.raises(WeftTypeError, match="no array at .*'k'"):
        weft.vmap(lambda x: {"k": "text"})(V)


def test_the_axis_name_is_bound_inside_only():
    got = weft.vmap(lambda x: x / lax.psum(x, "batch"), axis_name="batch")(np.array([1.0, 3.0]))
    close(got, [0.25, 0.75])
    with pytest.raises(WeftValueError, match="batch"):
        lax.psum(1.0, "batch")


def test_functions_on_unmapped_values_give_what_they_give_eagerly():
    # Some functions of weft.numpy run as one program eagerly and as one equation in a trace.
    x = jnp.array(A[0, 0])
    for f in (
        lambda x: jnp.matmul(A[0], jnp.reshape(x, (4, 1))) * x,
        lambda x: jnp.mean(x * jnp.ones((3, 4)), 0) - x,
        lambda x: jnp.linalg.norm(jnp.outer(x, x), axis=0),
    ):
        wanted = f(x)
        mapped, inner = weft.vmap(lambda x, s, f=f: (f(x) + s, f(x)), (None, 0), (0, None))(x, V)
        close(inner, wanted)
        close(mapped, wanted + V.reshape(-1, *[1] * wanted.ndim))
        value, tangent = weft.jvp(lambda s, f=f: (f(x) * s)[0], (1.0,), (0.0,))
        close(value, wanted[0])


class Along:
    """An entry of in_axes and out_axes for `Named`."""

    def __init__(self, axis):
        self.axis = axis


class Named:
    """No node of trees: an array with a name, and the index of the element it is."""

    def __init__(self, array, name, index=None):
        self.array, self.name, self.index = array, name, index


@pytest.fixture
def named_is_vmappable():
    batching.register_vmappable(
        Named, Along, int,
        lambda cont, index, x, spec: Named(cont(x.array, spec.axis), x.name, index()),
        lambda cont, size, x, spec: Named(
            cont(size, x.array, spec.axis), x.name, cont(size, x.index, 0)
        ),
    )  # fmt: skip
    yield
    batching.unregister_vmappable(Named)
    assert not batching.is_vmappable(Named(A, "a"))


def sum_of_named(x, y):
    return Named(x.array.sum() * y, x.name + "!", x.index), x.index + y


def test_classes_that_are_taken_apart_by_functions_of_theirs(named_is_vmappable):
    assert batching.is_vmappable(Named(A, "a")) and not batching.is_vmappable(A)
    mapped = weft.vmap(sum_of_named, (Along(-1), None), (Along(0), 0), axis_size=4)
    named, shifted = mapped(Named(A, "a"), 2.0)
    close(named.array, A.sum((0, 1)) * 2)
    close(named.index, np.arange(4))
    close(shifted, np.arange(4) + 2)
    assert named.name == "a!"

    def total(a):
        named, _ = weft.vmap(sum_of_named, (Along(0), 0), (Along(0), 0))(Named(a, ""), V)
        return (named.array**2).sum()

    wanted = 2 * (A[0].sum(1) * V**2)[:, None] * np.ones((3, 4))
    close(weft.jit(weft.grad(total))(A[0]), wanted)
    close(weft.vmap(weft.grad(total))(A)[0], wanted)


def test_results_of_such_classes_need_an_axis(named_is_vmappable):
    with pytest.raises(WeftValueError, match="out_axes calls None"):
        weft.vmap(sum_of_named, (Along(0), 0), (Along(None), 0))(Named(A[0], ""), V)
    with pytest.raises(WeftTypeError, match="ints and None in in_axes"):
        weft.vmap(sum_of_named, ("first", 0))
