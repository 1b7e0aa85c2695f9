"""Gather, scatter and what moves elements: random dimension numbers, keys, duplicates, errors.

Values and derivatives of fixed cases are in the op table (`op_rows/indexing.py`, `structural.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from op_rows.indexing import gathered, scattered
from weft.api.autodiff import grad, jvp, vjp
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    WeftIndexError,
    WeftNotImplementedError,
    WeftValueError,
)
from weft.ops.elementwise.arithmetic import mul
from weft.ops.elementwise.selection import select
from weft.ops.indexing import creation, dynamic_slicing
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.indexing.scatter import (
    ScatterDimensionNumbers,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural import extended_dtypes, joining
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reduce_sum, reshape, transpose
from weft.testing import check_grads, check_vmap, exact_array

MODES = ["clip", "fill", "promise_in_bounds"]
CELLS = ScatterDimensionNumbers((), (0,), (0,))
ROWS = GatherDimensionNumbers((1,), (0,), (0,))


def host(x):
    return np.asarray(x)


# ---- random dimension numbers ------------------------------------------------------------------


def some(draw, items, least=0):
    """A few of some items, in order."""
    chosen = draw(st.lists(st.sampled_from(items), unique=True, min_size=least)) if items else []
    return tuple(sorted(chosen))


@st.composite
def problems(draw):
    """Shapes, dimension numbers and indices that fit together, as keyword arguments."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    dims = list(range(len(shape)))
    batching = some(draw, dims)
    free = [d for d in dims if d not in batching]
    collapsed = some(draw, free)
    index_map = tuple(draw(st.permutations(some(draw, free))))
    sizes = tuple(
        1 if d in (*batching, *collapsed) else draw(st.integers(0, shape[d])) for d in dims
    )
    # The batch shape of the indices: the batching dimensions and some more, in any order.
    extra = draw(st.lists(st.integers(0, 3), max_size=2))
    order = draw(st.permutations(range(len(batching) + len(extra))))
    lengths = [*(shape[d] for d in batching), *extra]
    batch = tuple(lengths[i] for i in order)
    indices_batching = tuple(order.index(i) for i in range(len(batching)))
    rank = len(batch) + len(free) - len(collapsed)
    window = some(draw, list(range(rank)), least=0)
    while len(window) != len(free) - len(collapsed):
        count = len(free) - len(collapsed)
        window = tuple(sorted(draw(st.permutations(range(rank)))[:count]))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    low, high = draw(st.sampled_from([(-3, 6), (0, 1)]))
    indices = generator.integers(low, high, (*batch, len(index_map)))
    return {
        "shape": shape,
        "numbers": (window, collapsed, index_map, batching, indices_batching),
        "sizes": sizes,
        "indices": indices.astype(draw(st.sampled_from([np.int8, np.int32, np.int64]))),
        "generator": generator,
    }


@given(problems(), st.sampled_from(["clip", "fill"]))
def test_gather_with_random_dimension_numbers(problem, mode):
    x = problem["generator"].integers(-9, 9, problem["shape"]).astype(np.int32)
    numbers = GatherDimensionNumbers(*problem["numbers"])
    args = (x, problem["indices"], numbers, problem["sizes"])
    got = gather(*args, mode=mode, fill_value=77)
    np.testing.assert_array_equal(host(got), gathered(*args, mode=mode, fill_value=77))


@given(problems(), st.sampled_from(["clip", "drop"]))
def test_scatter_add_with_random_dimension_numbers(problem, mode):
    generator = problem["generator"]
    x = generator.integers(-9, 9, problem["shape"]).astype(np.int32)
    numbers = problem["numbers"]
    like = gathered(x, problem["indices"], GatherDimensionNumbers(*numbers), problem["sizes"])
    updates = generator.integers(-9, 9, like.shape).astype(np.int32)
    args = (x, problem["indices"], updates, ScatterDimensionNumbers(*numbers))
    want = scattered(np.add)(*args, mode=mode)
    np.testing.assert_array_equal(host(scatter_add(*args, mode=mode)), want)


@given(problems())
def test_gather_and_scatter_add_are_transposes(problem):
    """<gather(x), y> == <x, scatter_add(0, y)>, in exact arithmetic of integers in float64."""
    generator = problem["generator"]
    numbers, sizes, indices = problem["numbers"], problem["sizes"], problem["indices"]
    x = exact_array(generator.integers(-9, 9, problem["shape"]).astype(np.float64))

    def function(v):
        return gather(
            v, indices, GatherDimensionNumbers(*numbers), sizes, mode="fill", fill_value=0
        )

    out, back = vjp(function, x)
    y = exact_array(generator.integers(-9, 9, out.shape).astype(np.float64))
    assert np.sum(host(out) * host(y)) == np.sum(host(x) * host(back(y)[0]))


# ---- modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("float32", np.nan), ("int8", -128), ("uint8", 255), ("bool", True), ("complex64", np.nan)],
)
def test_default_fill_values(dtype, fill):
    x = np.zeros((3, 1)).astype(dtype)
    got = host(gather(x, np.array([[0], [5], [-1]]), ROWS, (1, 1), mode="fill"))
    np.testing.assert_array_equal(got[1:, 0], np.array([fill, fill]).astype(dtype))
    assert got[0, 0] == 0


def test_modes_by_name():
    assert GatherScatterMode.from_any(None) is GatherScatterMode.FILL_OR_DROP
    assert GatherScatterMode.from_any("fill") is GatherScatterMode.from_any("drop")
    with pytest.raises(WeftValueError, match="no gather or scatter mode 'wrap'"):
        gather(np.zeros((3, 1)), np.zeros((1, 1), int), ROWS, (1, 1), mode="wrap")


def test_unsigned_indices_out_of_bounds():
    x = np.arange(3, dtype=np.float32)[:, None]
    indices = np.array([[1], [2**32 - 1]], np.uint32)
    np.testing.assert_array_equal(host(gather(x, indices, ROWS, (1, 1), mode="fill"))[:, 0],
                                  [1, np.nan])  # fmt: skip
    np.testing.assert_array_equal(host(gather(x, indices, ROWS, (1, 1)))[:, 0], [1, 2])


# ---- positions listed more than once -----------------------------------------------------------

TWICE = np.array([[0], [0], [1]])


def weighted_gradients(function, x, updates):
    weights = np.array([1, 10, 100], np.float32)
    return grad(
        lambda x, u: reduce_sum(mul(function(x, TWICE, u, CELLS), weights), (0,)), argnums=(0, 1)
    )(x, updates)


def test_the_derivative_of_scatter_follows_the_update_that_remains():
    x, updates = np.array([1, 2, 3], np.float32), np.array([5, 6, 7], np.float32)
    value = host(scatter(x, TWICE, updates, CELLS))
    of_x, of_updates = weighted_gradients(scatter, x, updates)
    np.testing.assert_array_equal(host(of_x), [0, 0, 100])
    np.testing.assert_array_equal(host(of_updates), [value[0] == 5, value[0] == 6, 10])
    _, tangent = jvp(lambda u: scatter(x, TWICE, u, CELLS), (updates,), (updates * 2,))
    np.testing.assert_array_equal(host(tangent), [value[0] * 2, 14, 0])


@pytest.mark.parametrize(
    ("function", "updates", "of_x", "of_updates"),
    [
        (scatter_min, [1, 1, 7], [1 / 3, 10, 100], [1 / 3, 1 / 3, 0]),
        (scatter_max, [1, 1, 7], [1 / 3, 0, 100], [1 / 3, 1 / 3, 10]),
    ],
)
def test_values_that_tie_share_the_derivative(function, updates, of_x, of_updates):
    x = np.array([1, 2, 3], np.float32)
    found = weighted_gradients(function, x, np.array(updates, np.float32))
    np.testing.assert_allclose(host(found[0]), of_x, rtol=1e-6)
    np.testing.assert_allclose(host(found[1]), of_updates, rtol=1e-6)


def test_scatter_mul_by_updates_listed_twice_has_no_derivative_in_them():
    x = np.ones(3, np.float32)
    with pytest.raises(WeftNotImplementedError, match="listed once") as caught:
        weighted_gradients(scatter_mul, x, x)
    assert caught.value.fix.kind == "unique_indices"
    once = np.array([[0], [2], [1]])

    def fixed(u):
        return reduce_sum(scatter_mul(x * 3, once, u, CELLS, unique_indices=True), (0,))

    np.testing.assert_array_equal(host(grad(fixed)(x)), [3, 3, 3])


def test_second_derivatives_of_a_scatter_of_duplicates():
    x, updates = exact_array(np.array([1.0, 2, 3])), exact_array(np.array([5.0, 6, 7]))

    def function(x, u):
        return mul(scatter(mul(x, x), TWICE, mul(u, mul(x, u)), CELLS), x)

    check_grads(function, (x, updates), 2, ("fwd", "rev"))


# ---- random keys -------------------------------------------------------------------------------

KEYS = extended_dtypes.KeyDType("of a test", (2,), None)


def keys_of(*shape):
    bits = np.arange(int(np.prod(shape)) * 2, dtype=np.uint32).reshape(*shape, 2)
    return extended_dtypes.wrap_key_bits(exact_array(bits), KEYS), bits


def index_points(x):
    return gather(x, np.array([[2, 1], [0, 0]]), GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1))


MOVES = {
    "concatenate": (lambda k: joining.concatenate([k, k], 1), lambda b: np.concatenate([b, b], 1)),
    "stack": (lambda k: joining.stack([k, k], -1), lambda b: np.stack([b, b], 2)),
    "split": (lambda k: joining.split(k, (1, 2))[1], lambda b: b[1:]),
    "rev": (lambda k: joining.rev(k, (0,)), lambda b: b[::-1]),
    "dynamic_slice": (lambda k: dynamic_slicing.dynamic_slice(k, (-1, 1), (1, 3)),
                      lambda b: b[2:, 1:]),
    "dynamic_update_slice": (
        lambda k: dynamic_slicing.dynamic_update_slice(k, slice_in_dim(k, 0, 1), (2, 0)),
        lambda b: b[[0, 1, 0]],
    ),
    "gather": (index_points, lambda b: b[[2, 0], [1, 0]]),
    "scatter": (
        lambda k: scatter(k, np.array([[1]]), slice_in_dim(k, 2, 3),
                          ScatterDimensionNumbers((1,), (0,), (0,))),
        lambda b: b[[0, 2, 2]],
    ),
    "index_take": (lambda k: dynamic_slicing.index_take(k, (np.array([-1, 0]),), (0,)),
                   lambda b: b[[-1, 0]]),
    "index_in_dim": (lambda k: dynamic_slicing.index_in_dim(k, 1, 1, keepdims=False),
                     lambda b: b[:, 1]),
    "expand_dims": (lambda k: expand_dims(k, (1,)), lambda b: b[:, None]),
    "reshape": (lambda k: reshape(k, (12,)), lambda b: b.reshape(12, 2)),
    "transpose": (lambda k: transpose(k, (1, 0)), lambda b: b.transpose(1, 0, 2)),
    "broadcast_in_dim": (lambda k: broadcast_in_dim(k, (2, 3, 4), (1, 2)),
                         lambda b: np.broadcast_to(b, (2, 3, 4, 2))),
    "tile": (lambda k: joining.tile(k, (1, 2)), lambda b: np.tile(b, (1, 2, 1))),
    "select": (lambda k: select(np.bool_(True), k, joining.rev(k, (0,))), lambda b: b),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_random_keys_move_whole(name):
    move, reference = MOVES[name]
    keys, bits = keys_of(3, 4)
    for call in (move, jit(move)):
        out = call(keys)
        assert out.dtype is KEYS
        np.testing.assert_array_equal(host(extended_dtypes.key_bits(out)), reference(bits))


def test_random_keys_under_vmap():
    keys, bits = keys_of(3, 4)
    rows = np.array([2, 0, 3])
    out = vmap(lambda k, i: dynamic_slicing.dynamic_index_in_dim(k, i, keepdims=False))(keys, rows)
    np.testing.assert_array_equal(host(extended_dtypes.key_bits(out)), bits[np.arange(3), rows])
    pairs = vmap(lambda k, i: dynamic_slicing.dynamic_slice(k, (i,), (2,)))(keys, rows)
    want = [row[min(i, 2) : min(i, 2) + 2] for row, i in zip(bits, rows, strict=True)]
    np.testing.assert_array_equal(host(extended_dtypes.key_bits(pairs)), want)
    update = joining.rev(keys, (1,))
    changed = vmap(lambda k, u, i: dynamic_slicing.dynamic_update_slice(k, u, (i,)))(
        keys, slice_in_dim(update, 0, 1, axis=1), rows
    )
    wanted = bits.copy()
    wanted[np.arange(3), rows] = bits[:, -1]
    np.testing.assert_array_equal(host(extended_dtypes.key_bits(changed)), wanted)


def test_keys_cannot_be_made_of_numbers():
    keys, _ = keys_of(2)
    with pytest.raises(DTypeError, match="cannot make random keys"):
        creation.full_like(keys, 1)
    with pytest.raises(DTypeError, match="cannot make random keys"):
        creation.full((2,), 1, KEYS)
    assert creation.full_like(keys, 1, np.int8).shape == (2,)


# ---- creation ----------------------------------------------------------------------------------


def test_full():
    assert host(creation.full((2,), 1.7, int)).tolist() == [1, 1]
    assert creation.full((2,), 1.5).weak_type
    assert not creation.full((2,), 1.5, np.float32).weak_type
    assert creation.full((), 3).shape == ()
    assert creation.full((2,), 1, np.float64).dtype == np.float64
    assert host(creation.full((1,), np.float64(1e300), np.float32)).tolist() == [np.inf]
    with pytest.raises(ShapeError, match="without dimensions"):
        creation.full((2,), np.ones(2))
    with pytest.raises(ShapeError, match="negative"):
        creation.full((-1,), 0)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float32", "bfloat16", "complex64", "float64"])
def test_iota(dtype):
    got = creation.broadcasted_iota(dtype, (2, 3), 1)
    assert got.dtype == np.dtype(got.dtype) and got.dtype.name == dtype
    np.testing.assert_array_equal(host(got).astype(complex), [[0, 1, 2]] * 2)


def test_iota_errors():
    with pytest.raises(DTypeError, match="iota makes numbers"):
        creation.iota(bool, 3)
    with pytest.raises(AxisError, match="no dimension 2"):
        creation.broadcasted_iota(int, (2, 3), 2)


def test_eye():
    for offset in (-2, 0, 1, 5):
        got = host(creation.eye(np.int16, (3, 4), offset))
        np.testing.assert_array_equal(got, np.eye(3, 4, offset))


def test_index_vector():
    assert host(creation.index_vector((3, 1))).tolist() == [3, 1]
    assert host(jit(lambda: creation.index_vector((3, 1)))()).tolist() == [3, 1]


def test_broadcast_shapes():
    assert joining.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert joining.broadcast_shapes((0,), (1,)) == (0,)
    assert joining.broadcast_shapes() == ()
    with pytest.raises(ShapeError, match="do not broadcast"):
        joining.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize(
    ("bounds", "want"),
    [
        ((0, 2), (6, 4)),
        ((0,), (24,)),
        ((-1,), (2, 3, 4)),
        ((0, -1), (6, 4)),
        ((1, 1), (2, 1, 3, 4)),
    ],
)
def test_collapse(bounds, want):
    assert joining.collapse(np.zeros((2, 3, 4)), *bounds).shape == want


# ---- programs ----------------------------------------------------------------------------------


def test_mapping_over_indices_makes_batching_dimensions():
    """No loop and no list of positions: one gather, whatever the length of the axis."""
    x, i = np.zeros((5, 7, 3), np.float32), np.zeros(5, np.int32)

    def pick(x, i):
        return dynamic_slicing.dynamic_slice(x, (i, 0), (1, 3), allow_negative_indices=False)

    names = [eqn.primitive.name for eqn in make_jaxpr(vmap(pick))(x, i).jaxpr.eqns]
    assert names.count("gather") == 1
    assert not {"iota", "while", "scan"} & set(names)
    gathers = [e for e in make_jaxpr(vmap(pick))(x, i).jaxpr.eqns if e.primitive.name == "gather"]
    numbers = gathers[0].params["dimension_numbers"]
    assert numbers.operand_batching_dims == (0,)
    assert numbers.start_index_map == (1,)  # the last dimension has no room to move


def test_nested_maps():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    i = np.array([[0, 3, 1], [2, 2, -1]], np.int32)
    pick = vmap(vmap(lambda x, i: dynamic_slicing.dynamic_index_in_dim(x, i, keepdims=False)))
    np.testing.assert_array_equal(host(pick(x, i)), np.take_along_axis(x, i[..., None], 2)[..., 0])


def test_mapping_over_an_axis_without_elements():
    x, i = np.zeros((0, 4, 2), np.float32), np.zeros((0, 1, 1), np.int32)
    assert vmap(lambda x, i: gather(x, i, ROWS, (1, 2)))(x, i).shape == (0, 1, 2)
    assert vmap(lambda x: gather(x, i[:, 0], ROWS, (1, 2)))(x).shape == (0, 0, 2)


def test_splitting_transposes_to_one_concatenation():
    x = np.arange(6, dtype=np.float32)

    def function(x):
        return joining.split(x, (1, 2, 3))

    def pullback(x):
        out, back = vjp(function, x)
        return back(out)

    names = [eqn.primitive.name for eqn in make_jaxpr(pullback)(x).jaxpr.eqns]
    assert names == ["split", "concatenate"]
    _, back = vjp(lambda x: joining.split(x, (1, 2, 3))[1], x)
    np.testing.assert_array_equal(host(back(np.ones(2, np.float32))[0]), [0, 1, 1, 0, 0, 0])


def test_positions_as_an_array():
    x = np.arange(12).reshape(3, 4)
    got = dynamic_slicing.dynamic_slice(x, np.array([-1, 9]), (1, 2))
    np.testing.assert_array_equal(host(got), x[2:, 2:])
    traced = jit(lambda i: dynamic_slicing.dynamic_slice(x, i, (1, 2)))(np.array([1, -4]))
    np.testing.assert_array_equal(host(traced), x[1:2, :2])
    kept = dynamic_slicing.dynamic_slice(x, (-1, 1), (1, 2), allow_negative_indices=(False, True))
    np.testing.assert_array_equal(host(kept), x[:1, 1:3])


def test_a_long_axis_and_a_narrow_index():
    """An int8 cannot hold the length that a negative index needs."""
    x = np.arange(300)
    for i in (-1, -128, 127):
        got = jit(lambda i: dynamic_slicing.dynamic_index_in_dim(x, i, keepdims=False))(np.int8(i))
        assert int(got) == x[i]


def test_every_place_of_the_mapped_axis():
    x, i = np.arange(12.0).reshape(3, 4), np.array(1)
    update = np.ones((2, 2))
    check_vmap(
        lambda x, u, i: dynamic_slicing.dynamic_update_slice(x, u, (i, 1)), (x, update, i), limit=30
    )


# ---- errors ------------------------------------------------------------------------------------

X = np.zeros((3, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: joining.concatenate([], 0), WeftValueError, "at least one"),
        (lambda: joining.concatenate([X, X], 2), AxisError, "dimension 2 is out of range"),
        (lambda: joining.concatenate([X, X[:, :2]], 0), ShapeError, "differ in more"),
        (lambda: joining.concatenate([X, X.astype(int)], 0), DTypeError, "one dtype"),
        (lambda: joining.rev(X, (0, 0)), AxisError, "do not fit"),
        (lambda: joining.rev(X, (2,)), AxisError, "do not fit"),
        (lambda: joining.split(X, (1, 1)), ShapeError, "do not add up"),
        (lambda: joining.tile(X, (2,)), ShapeError, "does not fit"),
        (lambda: joining.collapse(X, 2, 1), AxisError, "no range"),
        (lambda: joining.stack([X, X[0]]), ShapeError, "one shape"),
        (lambda: joining.broadcast_to_rank(X, 1), ShapeError, "cannot have 1"),
        (lambda: dynamic_slicing.dynamic_slice(X, (1.0, 1), (1, 2)), DTypeError, "integers"),
        (lambda: dynamic_slicing.dynamic_slice(X, (1,), (1, 2)), ShapeError, "one position"),
        (lambda: dynamic_slicing.dynamic_slice(X, (1, 1), (4, 2)), ShapeError, "does not fit"),
        (lambda: dynamic_slicing.dynamic_slice(X, X, (1, 2)), ShapeError, "one dimension"),
        (lambda: dynamic_slicing.dynamic_update_slice(X, X[0], (0, 0)), ShapeError, "not fit"),
        (lambda: dynamic_slicing.dynamic_update_slice(X, X.astype(int), (0, 0)), DTypeError,
         "operand's dtype"),
        (lambda: dynamic_slicing.index_in_dim(X, 3), WeftIndexError, "out of bounds"),
        (lambda: dynamic_slicing.index_in_dim(X, -4), WeftIndexError, "out of bounds"),
        (lambda: gather(X, X, ROWS, (1, 4)), DTypeError, "integers as indices"),
        (lambda: gather(X, np.int32(1), ROWS, (1, 4)), ShapeError, "last dimension"),
        (lambda: gather(X, np.zeros((2, 2), int), ROWS, (1, 4)), ShapeError, "have 2 elements"),
        (lambda: gather(X, np.zeros((2, 1), int), ROWS, (2, 4)), ShapeError, "length 1"),
        (lambda: gather(X, np.zeros((2, 1), int), ROWS, (1, 5)), ShapeError, "block length"),
        (lambda: gather(X, np.zeros((2, 1), int), GatherDimensionNumbers((), (0,), (0,)), (1, 4)),
         ShapeError, "offset_dims"),
        (lambda: scatter(X, np.zeros((2, 1), int), X[:2].astype(int),
                         ScatterDimensionNumbers((1,), (0,), (0,))), DTypeError, "one dtype"),
        (lambda: scatter(X, np.zeros((2, 1), int), X, ScatterDimensionNumbers((1,), (0,), (0,))),
         ShapeError, "updates of shape"),
        (lambda: scatter_add(X, np.zeros((2, 1), int), np.zeros((2, 5), np.float32),
                             ScatterDimensionNumbers((1,), (0,), (0,))), ShapeError, "larger"),
        (lambda: scatter_add(X > 0, np.zeros((2, 1), int), X[:2] > 0,
                             ScatterDimensionNumbers((1,), (0,), (0,))), DTypeError, "one dtype"),
    ],
)  # fmt: skip
def test_errors_name_the_operation_and_the_line(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert caught.value.operation
    assert "test_gather_scatter.py" in caught.value.location


@pytest.mark.parametrize("indices", [[1, 1], [2, 0], [2, 2, 0], [1, -1, 1, 1]])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_the_transpose_of_an_overwriting_scatter_knows_who_came_last(indices, mode):
    places = np.array(indices)

    def f(u):
        return jnp.zeros(3).at[places].set(u, mode=mode)

    matrix = np.stack([np.asarray(f(row)) for row in np.eye(len(indices), dtype=np.float32)])
    transpose = weft.linear_transpose(f, np.ones(len(indices), np.float32))
    for number, ct in enumerate(np.eye(3, dtype=np.float32)):
        np.testing.assert_array_equal(np.asarray(transpose(ct)[0]), matrix[:, number])
