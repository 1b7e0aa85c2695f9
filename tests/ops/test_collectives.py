"""Collectives over axes of `vmap`: names, nesting, derivatives on either side, and types.

That each collective computes the right numbers is shown by the op table (`op_rows/collectives.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

from closeness import close, close_relative
from weft.api.autodiff import grad, jvp, linearize, vjp
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.core.axes import extend_axis
from weft.core.types import ArrayType
from weft.errors import AxisError, ShapeError, UnboundAxisError, WeftValueError
from weft.interpreters.staging import trace_to_jaxpr
from weft.interpreters.transpose import transpose_jaxpr
from weft.ops.collectives.all_reduce import axis_index, pmax, pmean, pmin, psum
from weft.ops.collectives.movement import all_gather, all_to_all, psum_scatter
from weft.ops.collectives.named_axes import axis_size
from weft.ops.collectives.permutation import ppermute, pshuffle
from weft.ops.elementwise.arithmetic import add, div, mul, sin
from weft.ops.structural.shape import reduce_sum

X = np.linspace(-1, 2, 4, dtype=np.float32)
XY = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)


def over(function, name="i", **options):
    return vmap(function, axis_name=name, **options)


# ---- names and sizes ---------------------------------------------------------------------------


def test_axis_index_and_size():
    assert np.asarray(over(lambda x: axis_index("i"))(X)).tolist() == [0, 1, 2, 3]
    assert np.asarray(over(lambda x: axis_index("i"))(X)).dtype == np.int32
    sizes = []
    over(lambda x: sizes.append((axis_size("i"), psum(1, "i"), psum(2.5, "i"))) or x)(X)
    assert sizes == [(4, 4, 10.0)]
    assert type(sizes[0][1]) is int


def test_several_names_count_row_major():
    def positions(x):
        return axis_index(("i", "j")), axis_index(("j", "i")), axis_size(("i", "j"))

    forwards, backwards, size = over(over(positions, "j"), "i")(XY)
    assert np.asarray(forwards).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.asarray(backwards).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert np.asarray(size).tolist() == [[6] * 3] * 2


def test_the_innermost_axis_of_a_name_counts():
    inner = over(lambda x: psum(x, "i"))
    close_relative(over(inner)(XY), np.broadcast_to(XY.sum(1, keepdims=True), XY.shape))


def test_names_may_be_any_hashable():
    close_relative(over(lambda x: psum(x, 0), 0)(X), np.full(4, X.sum()))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: psum(x, "q"),
        lambda x: pmax(x, ("i", "q")),
        lambda x: axis_index("q"),
        lambda x: axis_size("q"),
        lambda x: psum(1, "q"),
        lambda x: all_gather(x, "q"),
        lambda x: ppermute(x, "q", [(0, 1)]),
    ],
)
def test_a_name_that_is_not_bound(use):
    with pytest.raises(UnboundAxisError, match="'q' is not bound") as caught:
        over(use)(X)
    assert isinstance(caught.value, NameError)
    assert "'i'" in caught.value.wanted
    # The fix, applied: the function runs under a vmap that binds the name.
    name = caught.value.fix.data["axis_name"]
    over(over(use), name)(np.stack([X, X]))


def test_a_name_given_twice():
    with pytest.raises(AxisError, match="twice"):
        over(lambda x: psum(x, ("i", "i")))(X)


def test_no_names():
    close_relative(over(lambda x: psum(x, ()))(X), X)


# ---- arguments ---------------------------------------------------------------------------------


def test_trees():
    out = over(lambda x: psum({"a": x, "b": (mul(x, x), 1)}, "i"))(X)
    close_relative(out["a"], np.full(4, X.sum()))
    close_relative(out["b"][0], np.full(4, (X * X).sum()))
    assert np.asarray(out["b"][1]).tolist() == [4] * 4


def test_values_that_are_not_mapped():
    fixed = np.array([1.0, 2.0], np.float32)

    def all_of_them(x):
        return (
            psum(fixed, "i"),
            pmean(fixed, "i"),
            pmax(fixed, "i"),
            all_gather(fixed, "i"),
            psum_scatter(np.ones((4, 2), np.float32), "i"),
            ppermute(fixed, "i", [(0, 1)]),
        )

    total, mean, most, gathered, scattered, permuted = over(all_of_them)(X)
    close_relative(total, np.tile(fixed * 4, (4, 1)))
    close_relative(mean, np.tile(fixed, (4, 1)))
    close_relative(most, np.tile(fixed, (4, 1)))
    close_relative(gathered, np.tile(fixed, (4, 4, 1)))
    close_relative(scattered, np.full((4, 2), 4))
    close_relative(permuted, [[0, 0], fixed, [0, 0], [0, 0]])


def test_integers_and_booleans():
    whole = np.arange(4, dtype=np.int32)
    mean = over(lambda x: pmean(x, "i"))(whole)
    close_relative(mean, np.full(4, 1.5))
    counted = over(lambda x: psum(x, "i"))(whole > 1)
    assert np.asarray(counted).tolist() == [2] * 4
    assert np.asarray(counted).dtype == np.int32


def test_results_that_are_equal_are_not_mapped():
    """A sum leaves nothing to map: out_axes may be None."""
    close_relative(over(lambda x: psum(x, "i"), out_axes=None)(X), X.sum())
    close_relative(over(lambda x: all_gather(x, "i"), out_axes=None)(X), X)


@pytest.mark.parametrize("groups", [[[0, 1], [2]], [[0, 1]], [[0, 1], [1, 2]], [[0, 4], [1, 2]]])
def test_groups_must_partition_the_axis(groups):
    with pytest.raises(WeftValueError, match="groups of equal size"):
        over(lambda x: psum(x, "i", axis_index_groups=groups))(X)


@pytest.mark.parametrize("perm", [[(0, 4)], [(0, 1), (0, 2)], [(0, 1), (2, 1)]])
def test_pairs_that_are_no_partial_permutation(perm):
    with pytest.raises(WeftValueError, match="partial permutation"):
        over(lambda x: ppermute(x, "i", perm))(X)


def test_pshuffle_takes_all_positions():
    with pytest.raises(WeftValueError, match="all positions"):
        over(lambda x: pshuffle(x, "i", [0, 1, 2, 2]))(X)


def test_lengths_that_do_not_fit_the_axis():
    ones = np.ones((4, 6), np.float32)
    with pytest.raises(ShapeError, match="equal parts"):
        make_jaxpr(jit_over(lambda x: psum_scatter(x, "i", tiled=True)))(ones)
    with pytest.raises(ShapeError, match="as long as the axis"):
        over(lambda x: all_to_all(x, "i", 0, 0))(ones)
    with pytest.raises(ShapeError, match="equal parts"):
        over(lambda x: psum_scatter(x, "i", tiled=True))(ones)
    with pytest.raises(ShapeError, match="as long as the axis"):
        over(lambda x: psum_scatter(x, "i"))(np.ones((4, 8), np.float32))


# ---- together with other transformations -------------------------------------------------------


def jit_over(function):
    return over(jit(function))


def softmax(x):
    shifted = add(x, mul(pmax(x, "i"), np.float32(-1)))
    weights = sin(shifted)
    return div(weights, psum(weights, "i"))


def softmax_reference(x):
    weights = np.sin(x - x.max())
    return weights / weights.sum()


@pytest.mark.parametrize("transform", [over, jit_over, lambda f: jit(over(f))])
def test_jit_on_either_side(transform):
    close_relative(transform(softmax)(X), softmax_reference(X), rtol=1e-5)
    close_relative(transform(lambda x: add(x, psum(np.float32(1), "i")))(X), X + 4)
    assert np.asarray(transform(lambda x: axis_index("i"))(X)).tolist() == [0, 1, 2, 3]


def test_one_jitted_function_under_axes_of_different_lengths():
    mean = jit(lambda x: pmean(x, "i"))
    close_relative(over(mean)(X), np.full(4, X.mean()))
    close_relative(over(mean)(X[:2]), np.full(2, X[:2].mean()))


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_gradients_inside(wrap):
    """Each element's cotangent is 1: what arrives is the sum over all that use the value."""
    close_relative(over(grad(wrap(lambda x: psum(x, "i"))))(X), np.full(4, 4.0))
    close_relative(over(grad(wrap(lambda x: psum(sin(x), "i"))))(X), 4 * np.cos(X))
    close_relative(over(grad(wrap(lambda x: pmean(sin(x), "i"))))(X), np.cos(X))
    close_relative(over(grad(wrap(lambda x: mul(x, axis_value(x)))))(X), gradient_of_weighted(X))
    moved = over(grad(wrap(lambda x: mul(x, ppermute(x, "i", [(0, 1), (1, 2)])))))(X)
    close_relative(moved, [X[1], X[0] + X[2], X[1], 0])


def axis_value(x):
    return psum(mul(x, x), "i")


def gradient_of_weighted(x):
    # d/dx_k of sum_j x_j * s, with s the sum of squares
    return (x * x).sum() + 2 * x * x.sum()


def test_gradients_outside():
    def loss(xs):
        return reduce_sum(over(lambda x: mul(x, axis_value(x)))(xs), (0,))

    close_relative(grad(loss)(X), gradient_of_weighted(X), rtol=1e-5)
    close_relative(jit(grad(loss))(X), gradient_of_weighted(X), rtol=1e-5)
    inside = over(grad(lambda x: mul(x, axis_value(x))))(X)
    close_relative(grad(loss)(X), inside, rtol=1e-5)


def test_the_derivative_of_an_extremum_is_shared():
    tied = np.array([1, 3, 3, 2], np.float32)
    close_relative(over(grad(lambda x: pmax(x, "i")))(tied), [0, 2, 2, 0])
    close_relative(over(grad(lambda x: pmin(x, "i")))(tied), [4, 0, 0, 0])
    _, tangent = over(lambda x, t: jvp(lambda v: pmax(v, "i"), (x,), (t,)))(tied, tied * 10)
    close_relative(tangent, np.full(4, 30.0))


def test_linearize_and_vjp_inside():
    def both(x):
        out, linear = linearize(softmax, x)
        _, back = vjp(softmax, x)
        return out, linear(np.float32(1)), back(np.float32(1))[0]

    out, forwards, backwards = over(both)(X)
    close_relative(out, softmax_reference(X), rtol=1e-5)
    step = 1e-6
    wide = X.astype(np.float64)
    columns = [
        (softmax_reference(wide + step * e) - softmax_reference(wide - step * e)) / (2 * step)
        for e in np.eye(4)
    ]
    close(forwards, np.sum(columns, axis=0), 1e-3, 1e-4)
    close(backwards, np.sum(columns, axis=1), 1e-3, 1e-4)


def test_collectives_over_the_outer_axis_only():
    out = over(vmap(lambda x: psum(sin(x), "i")))(XY)
    close_relative(out, np.broadcast_to(np.sin(XY).sum(0), XY.shape))
    gathered = over(vmap(lambda x: all_gather(x, "i")))(XY)
    close_relative(gathered, np.broadcast_to(XY.T, (2, 3, 2)))


def test_a_mapped_operand_at_every_place():
    block = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for dim in range(3):
        got = over(lambda x: psum_scatter(all_gather(x, "i", axis=1), "i", scatter_dimension=1),
                   in_axes=dim, out_axes=dim)(block)  # fmt: skip
        close_relative(got, block * block.shape[dim])


# ---- types of varying values -------------------------------------------------------------------

VARYING = ArrayType((3,), np.float32, varying={"i"})


def staged(function, type):
    with extend_axis("i", 4):
        jaxpr, _ = trace_to_jaxpr(lambda x: [function(x)], [type], transformation="", name="f")
        back, _ = transpose_jaxpr(jaxpr, (True,), (True,))
    return jaxpr, back


def names_of(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_a_sum_makes_a_value_equal_and_transposes_to_a_change_of_type():
    jaxpr, back = staged(lambda x: psum(x, "i"), VARYING)
    assert jaxpr.out_types[0].varying == frozenset()
    assert names_of(back) == ["pbroadcast"]
    assert back.out_types[0] == VARYING
    again, _ = transpose_jaxpr(back, (True,), (True,))
    assert names_of(again) == ["psum"]
    assert again.out_types == jaxpr.out_types


@pytest.mark.parametrize(
    ("function", "transposed"),
    [
        (lambda x: all_gather(x, "i"), "psum_scatter"),
        (lambda x: psum_scatter(all_gather(x, "i"), "i"), "all_gather"),
        (lambda x: ppermute(x, "i", [(0, 1), (3, 2)]), "ppermute"),
        (lambda x: all_to_all(all_gather(x, "i"), "i", 0, 1), "all_to_all"),
        (lambda x: psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), "psum"),
    ],
)
def test_what_moves_data_keeps_it_varying(function, transposed):
    jaxpr, back = staged(function, VARYING)
    assert jaxpr.out_types[0].varying == {"i"}
    assert transposed in names_of(back)
    assert back.out_types[0] == VARYING


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_a_collective_cannot_be_compiled_without_devices_to_communicate(wrap):
    with extend_axis("i", 4), pytest.raises(WeftValueError, match="psum reached the compiler"):
        wrap(lambda x: psum(x, "i"))(X)
