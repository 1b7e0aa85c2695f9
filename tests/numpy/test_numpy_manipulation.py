"""Shapes, joining, splitting, padding, diagonals: held to NumPy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from weft.errors import AxisError, ConcretizationError, ShapeError, WeftTypeError, WeftValueError

RANDOM = np.random.default_rng(0)
V = RANDOM.normal(size=5)
M = RANDOM.normal(size=(3, 4))
T = RANDOM.normal(size=(2, 3, 4))
S = RANDOM.normal(size=(4, 4))
WHOLE = np.arange(6).reshape(2, 3)
ONE = RANDOM.normal(size=(1, 3, 1))


def mean_row(row, widths, axis, kwargs):
    """A padding function as NumPy takes it (it changes the row), and returns it too."""
    value = row[widths[0] : len(row) - widths[1]].mean()
    if isinstance(row, np.ndarray):
        row[: widths[0]] = value
        row[len(row) - widths[1] :] = value
        return row
    return row.at[: widths[0]].set(value).at[len(row) - widths[1] :].set(value)


SHAPES = [
    case("reshape", M, (2, 6), _grad=True),
    case("reshape", M, -1),
    case("reshape", M, (2, -1)),
    case("reshape", M, (-1, 2), order="F", _grad=True),
    case("reshape", T, (4, 6), order="F"),
    case("reshape", np.float64(3), (1, 1)),
    case("ravel", T),
    case("ravel", T, order="F"),
    case("transpose", T, _grad=True),
    case("transpose", T, (1, 2, 0)),
    case("transpose", T, (-1, 0, 1)),
    case("permute_dims", T, (2, 0, 1), _reference=np.transpose),
    case("matrix_transpose", T, _reference=lambda x: np.swapaxes(x, -1, -2)),
    case("swapaxes", T, 0, -1),
    case("moveaxis", T, 0, -1),
    case("moveaxis", T, (0, 1), (-1, 0)),
    case("rollaxis", T, 2),
    case("rollaxis", T, 0, 3),
    case("rollaxis", T, 1, 2),
    case("expand_dims", M, 1),
    case("expand_dims", M, (0, -1)),
    case("expand_dims", M, range(2), _reference=lambda a, axis: np.expand_dims(a, tuple(axis))),
    case("squeeze", ONE),
    case("squeeze", ONE, axis=(0, -1)),
    case("broadcast_to", V, (2, 5), _grad=True),
    case("broadcast_to", 3.0, (2, 2)),
    case(
        "broadcast_arrays",
        ONE,
        np.ones((2, 1, 4)),
        _reference=lambda *a: list(np.broadcast_arrays(*a)),
    ),
    case("atleast_1d", np.float64(2)),
    case("atleast_2d", V),
    case("atleast_3d", V),
    case("atleast_3d", M),
    case("flip", T),
    case("flip", T, (0, 2), _grad=True),
    case("fliplr", M),
    case("flipud", M),
    *[case("rot90", T, k, axes=(0, 2)) for k in (-1, 0, 1, 2, 3)],
    case("rot90", M, _grad=True),
    case("roll", V, 2, _grad=True),
    case("roll", V, -7),
    case("roll", M, 5),
    case("roll", M, (1, -2), axis=(0, 1)),
    case("roll", M, (1, 2)),
    case("roll", M, 1, axis=(0, 1)),
    case("roll", M, (1, 2), axis=0),
    case("roll", M, np.array([1, -6]), axis=(0, 1), _vmap=False),
    case("roll", M, np.array(3), axis=1),
    case("resize", M, (5, 3), _grad=True),
    case("resize", M, (2, 2)),
    case("resize", V, 0),
    case("unstack", T, axis=1, _reference=lambda x, axis: tuple(np.moveaxis(x, axis, 0))),
]

JOINING = [
    case("concatenate", [V, np.arange(2)]),
    case("concatenate", (M, M), axis=-1),
    case("concatenate", (M, V), axis=None),
    case("concatenate", [WHOLE, M[:2, :3]], axis=1, dtype="float32"),
    case("concatenate", M),
    case("concat", [M, M], axis=1, _reference=lambda a, axis: np.concatenate(a, axis)),
    case("stack", [V, V + 1], axis=-1),
    case("stack", [1.0, 2.0]),
    case("stack", [V, np.arange(5)], dtype="float32"),
    case("vstack", [V, V]),
    case("hstack", [V, V]),
    case("hstack", [M, M]),
    case("dstack", [M, M]),
    case("dstack", [V, V]),
    case("column_stack", [V, np.ones((5, 2))]),
    case("append", M, V),
    case("append", M, M, axis=0),
    case("block", [[M, M], [np.zeros((1, 8))]]),
    case("block", [V, 1.0]),
    case("block", [[T, T]]),
    case("split", M, 2, axis=1),
    case("split", V, [1, 3]),
    case("split", V, [3, 1, 9]),
    case("array_split", V, 3),
    case("vsplit", S, 2),
    case("hsplit", S, [1]),
    case("hsplit", V, [1]),
    case("dsplit", T, 2),
    case("tile", M, 2, _grad=True),
    case("tile", M, (2, 1, 3)),
    case("tile", V, (2, 2)),
    case("repeat", V, 2, _grad=True),
    case("repeat", M, 3, axis=1),
    case("repeat", M, [2, 0, 1], axis=0),
    case("repeat", 3.0, 2),
    case("delete", V, 1),
    case("delete", M, slice(0, 3, 2), axis=0, _grad=True),
    case("delete", M, [0, -1], axis=1),
    case("delete", M, 3),
    case("insert", V, 1, 9.0),
    case("insert", V, [0, 5], [1.0, 2.0], _reference=np.insert),
    case("insert", M, 1, V[:4], axis=0, _grad=True),
    case("insert", M, 1, V[:3], axis=1),
    case("insert", M, [1, 1, 3], 7.0, axis=1),
    case("insert", M, -1, 7, axis=1),
    case("insert", V, slice(0, 3), 5),
]
# Lists of operands are no arrays: those inside are static for the row, and some take none.
JOINING = [
    c if c.name != "insert" or not isinstance(c.args[2], list)
    else case("insert", c.args[0], c.args[1], np.array(c.args[2]))
    for c in JOINING
]  # fmt: skip

WIDTHS = [1, (2, 3), ((1, 2), (0, 3))]
PADDING = [
    *[
        case("pad", M, w, mode=m, _grad=w == WIDTHS[2])
        for m in ("constant", "edge", "wrap")
        for w in WIDTHS
    ],
    *[
        case("pad", M, w, mode=m, reflect_type=t)
        for m in ("reflect", "symmetric")
        for t in ("even", "odd")
        for w in WIDTHS
    ],
    case("pad", V, 13, mode="reflect"),
    case("pad", V, 13, mode="symmetric"),
    case("pad", V, 13, mode="wrap"),
    case("pad", np.ones((1, 2)), 2, mode="reflect"),
    case("pad", M, ((1, 2), (0, 3)), constant_values=((1.0, 2.0), (3.0, 4.0))),
    case("pad", np.arange(3), 1, constant_values=1.5),
    case(
        "pad",
        M,
        ((1, 2), (0, 3)),
        mode="linear_ramp",
        end_values=((1.0, 2.0), (3.0, 4.0)),
        _grad=True,
    ),
    case("pad", np.arange(4) * 10, (2, 3), mode="linear_ramp", end_values=(0, 3)),
    *[case("pad", M, ((1, 2), (0, 3)), mode=m) for m in ("maximum", "minimum", "mean", "median")],
    *[case("pad", M, 2, mode=m, stat_length=2) for m in ("maximum", "minimum", "mean", "median")],
    case("pad", np.array([1, 2, 4]), 2, mode="mean"),
    case("pad", M, 1, mode=mean_row, _vmap=False),
]

DIAGONALS = [
    *[case("diagonal", M, k) for k in (-2, 0, 1, 3)],
    case("diagonal", T, 1, 2, 0, _grad=True),
    *[case("diag", V, k) for k in (-2, 0, 1)],
    case("diag", M, 1),
    case("diagflat", M, 1),
    case("trace", M, _grad=True),
    case("trace", T, 1, 1, 2),
    case("trace", WHOLE[:, :2].astype(bool)),
    case("diag_indices", 3),
    case("diag_indices", 3, 3),
    case("diag_indices_from", S),
    case("tril_indices", 3, 1),
    case("triu_indices", 3, -1, 4),
    case("tril_indices_from", M),
    case("triu_indices_from", M, 1),
    case("mask_indices", 3, jnp.triu, _reference=lambda n, f: np.mask_indices(n, np.triu)),
    case("ix_", np.arange(2), np.arange(3)),
    case("ix_", np.array([True, False, True]), np.arange(3), _jit=False),
    case("indices", (2, 3)),
    case("indices", (2, 3), sparse=True),
    case("indices", (2, 3), "float32", _reference=lambda s, d: np.indices(s, dtype=d)),
    case("unravel_index", np.array([1, 5]), (2, 3)),
    case("unravel_index", 4, (2, 3)),
    case("ravel_multi_index", (np.array([0, 1]), np.array([2, 1])), (2, 3)),
    case("ravel_multi_index", (np.array([0, 5]), np.array([-2, 1])), (2, 3), mode="clip"),
    case(
        "ravel_multi_index", (np.array([0, 5]), np.array([-2, 1])), (2, 3), mode="wrap", order="F"
    ),
]


@pytest.mark.parametrize("row", SHAPES + JOINING + PADDING + DIAGONALS, ids=str)
def test_row(row):
    check(row)


def filled(a, val, wrap=False):
    a = a.copy()
    np.fill_diagonal(a, val, wrap)
    return a


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (3, 3, 3)])
@pytest.mark.parametrize("value", [7.0, np.array([1.0, 2.0])])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape, value, wrap):
    a = np.zeros(shape)
    out = jnp.fill_diagonal(a, value, wrap, inplace=False)
    np.testing.assert_array_equal(out, filled(a, value, wrap))


def test_repeat_by_traced_counts():
    counts = np.array([2, 0, 1, 3])
    f = weft.jit(lambda x, n: jnp.repeat(x, n, total_repeat_length=6))
    x = np.arange(4.0)
    np.testing.assert_array_equal(f(x, counts), np.repeat(x, counts))
    np.testing.assert_array_equal(f(x, counts + 1)[:4], np.repeat(x, counts + 1)[:4])
    np.testing.assert_array_equal(f(x, counts * 0 + 1), [0, 1, 2, 3, 3, 3])
    matrix = np.arange(8.0).reshape(4, 2)
    out = jnp.repeat(matrix, counts, axis=0, total_repeat_length=6)
    np.testing.assert_array_equal(out, np.repeat(matrix, counts, axis=0))


def test_broadcast_shapes():
    assert jnp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ShapeError):
        jnp.broadcast_shapes((2,), (3,))


def test_joining_promotes_like_the_operators():
    assert jnp.concatenate([jnp.ones(1, "int8"), jnp.ones(1, "float16")]).dtype == jnp.float16
    assert jnp.stack([1, jnp.int8(2)]).dtype == jnp.int8
    assert jnp.hstack([jnp.ones(1, bool), jnp.ones(1, bool)]).dtype == bool


def test_the_transpose_of_split_joins_the_parts():
    """Those of slices are each padded with zeros and added, which XLA does not make one loop of."""

    def loss(x):
        return sum((k + 1) * jnp.sum(p**3) for k, p in enumerate(jnp.split(x, 3, axis=1)))

    names = [eqn.primitive.name for eqn in weft.make_jaxpr(weft.grad(loss))(np.ones((2, 6))).eqns]
    assert "split" in names and "concatenate" in names and "pad" not in names
    np.testing.assert_allclose(
        weft.grad(loss)(np.ones((2, 6))), np.repeat([[3.0, 6, 9]], 2, 0).repeat(2, 1)
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.reshape(M, (5, -1)), ShapeError, "reshape"),
        (lambda: jnp.reshape(M, (-1, -1)), ShapeError, "one -1"),
        (lambda: jnp.reshape(M, (5, 5)), ShapeError, "12 elements"),
        (lambda: jnp.transpose(M, (0, 0)), ShapeError, "permutation"),
        (lambda: jnp.swapaxes(M, 0, 2), AxisError, "axis 2"),
        (lambda: jnp.moveaxis(M, (0, 1), 0), ShapeError, "moveaxis"),
        (lambda: jnp.squeeze(M, 0), ShapeError, "length 1"),
        (lambda: jnp.broadcast_to(M, (3, 5)), ShapeError, "broadcast"),
        (lambda: jnp.roll(M, (1, 2, 3), axis=(0, 1)), ShapeError, "roll"),
        (lambda: jnp.roll(M, (1, jnp.float32(2)), (0, 1)), WeftTypeError, "roll: shift is an"),
        (lambda: jnp.concatenate([]), WeftValueError, "at least one"),
        (lambda: jnp.concatenate([1, 2]), WeftValueError, "without dimensions"),
        (lambda: jnp.concatenate([M, V]), ShapeError, "concatenate"),
        (lambda: jnp.concatenate([M, M], axis=2), AxisError, "concatenate"),
        (lambda: jnp.concatenate(V, V), WeftTypeError, "arrays as one list"),
        (lambda: jnp.stack(V, V), WeftTypeError, "arrays as one list"),
        (lambda: jnp.hstack(V, [V]), WeftTypeError, "arrays as one list"),
        (lambda: jnp.stack([M, V]), ShapeError, "stack"),
        (lambda: jnp.vsplit(V, 2), ShapeError, "vsplit: the array has fewer than 2"),
        (lambda: jnp.hsplit(V[0], 2), ShapeError, "hsplit: the array has fewer than 1"),
        (lambda: jnp.dsplit(M, 2), ShapeError, "dsplit: the array has fewer than 3"),
        (lambda: jnp.split(V, [1.5]), WeftTypeError, "each place is an integer"),
        (lambda: jnp.split(V, 2), WeftValueError, "equal parts"),
        (lambda: jnp.block([[M], M]), WeftValueError, "nested"),
        (lambda: jnp.repeat(V, [1, 2]), WeftValueError, "repeats"),
        (lambda: weft.jit(jnp.repeat)(V, np.arange(5)), ConcretizationError, "total_repeat_length"),
        (lambda: jnp.delete(V, 7), IndexError, "out of bounds"),
        (lambda: jnp.insert(V, 7, 1.0), IndexError, "out of bounds"),
        (lambda: jnp.pad(M, -1), WeftValueError, "negative"),
        (lambda: jnp.pad(M, ((1, 2), (3, 4), (5, 6))), ShapeError, "pad_width"),
        (lambda: jnp.pad(M, 1, mode="edge", constant_values=1), WeftValueError, "constant_values"),
        (lambda: jnp.pad(M, 1, mode="other"), ValueError, "no mode"),
        (lambda: jnp.diagonal(V), ShapeError, "2 or more dimensions"),
        (lambda: jnp.diag(T), ShapeError, "diag"),
        (lambda: jnp.ravel_multi_index((np.array([5]),), (3,)), WeftValueError, "out of bounds"),
        (lambda: jnp.reshape(M, (3, 4), unknown=1), TypeError, "unknown"),
    ],
)  # fmt: skip
def test_wrong_calls_raise(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_wrong_row_is_found():
    for row in (
        case("flip", V, _reference=np.sort),
        case("flip", V, _reference=lambda x: x[:, None]),
        case("flip", V, _reference=lambda x: x.astype(int)),
    ):
        with pytest.raises(AssertionError):
            check(row)


def test_axes_may_be_any_sequence():
    x = np.arange(24).reshape(2, 3, 4)
    for axes in ((2, 0, 1), [2, 0, 1], np.array([2, 0, 1]), range(2, -1, -1)):
        want = np.transpose(x, axes)
        np.testing.assert_array_equal(jnp.transpose(x, axes), want)
        np.testing.assert_array_equal(jnp.permute_dims(x, axes), want)
        np.testing.assert_array_equal(jnp.asarray(x).transpose(axes), want)


# Functions of an array of three dimensions and of two integers: axes, lengths or repetitions.
OF_TWO_INTEGERS = {
    "tile": lambda x, two: jnp.tile(x, two),
    "reshape": lambda x, two: jnp.reshape(x[0, 0, :0], two),
    "lax.reshape": lambda x, two: weft.lax.reshape(x[0, 0, :0], two),
    "transpose": lambda x, two: jnp.transpose(x[0], two),
    "x.transpose": lambda x, two: x[0].transpose(two),
    "roll": lambda x, two: jnp.roll(x, (1, 2), two),
    "flip": lambda x, two: jnp.flip(x, two),
    "squeeze": lambda x, two: jnp.squeeze(x[:1, :1], two),
    "expand_dims": lambda x, two: jnp.expand_dims(x, two),
    "moveaxis": lambda x, two: jnp.moveaxis(x, two, (1, 2)),
    "sum": lambda x, two: jnp.sum(x, axis=two),
    "std": lambda x, two: jnp.std(x, axis=two),
    "pad": lambda x, two: jnp.pad(x, two),
    "fft2": lambda x, two: jnp.fft.fft2(x, axes=two),
    "logsumexp": lambda x, two: weft.nn.logsumexp(x, axis=two),
}


@pytest.mark.parametrize("function", OF_TWO_INTEGERS.values(), ids=OF_TWO_INTEGERS)
def test_several_integers_may_be_an_array(function):
    x = jnp.asarray(T)
    for values in ((1, 0), (0, 1)):
        want = function(x, values)
        for several in (list(values), np.array(values), jnp.array(values)):
            got = function(x, several)
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)
    with pytest.raises((WeftTypeError, ConcretizationError)):
        weft.jit(lambda two: function(x, two))(jnp.array([1, 0]))


VECTOR, MATRIX = np.arange(6, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("x", "obj", "values", "axis"),
    [
        (VECTOR, 2, 9.0, None),
        (VECTOR, -1, 9.0, None),
        (VECTOR, 6, 9.0, None),
        (VECTOR, [1, 1, 4], [7.0, 8.0, 9.0], None),
        (VECTOR, [-1, 0, 6, 3], 9.0, 0),
        (MATRIX, 5, 9.0, None),
        (MATRIX, 1, np.ones(4), 0),
        (MATRIX, 1, np.ones((2, 3)), 1),
        (MATRIX, [0, 3], [[5.0], [6.0]], 0),
        (MATRIX, [2, 0, 2], 7.0, 1),
    ],
)
def test_insert_before_places_known_or_traced(x, obj, values, axis):
    obj, values = np.asarray(obj, np.int32), np.asarray(values, np.float32)
    want = np.insert(x, obj, values, axis)
    np.testing.assert_array_equal(jnp.insert(x, obj, values, axis), want)
    insert = weft.jit(lambda obj, values: jnp.insert(x, obj, values, axis))
    np.testing.assert_array_equal(insert(obj, values), want)


@pytest.mark.parametrize(("obj", "axis"), [(2, None), (-1, 1), ([1, 3], 1), ([-1, 0, 4], None)])
def test_delete_places_that_are_traced_and_differ(obj, axis):
    obj = np.asarray(obj, np.int32)
    delete = weft.jit(lambda x, o: jnp.delete(x, o, axis, assume_unique_indices=True))
    np.testing.assert_array_equal(delete(MATRIX, obj), np.delete(MATRIX, obj, axis))
    if obj.ndim == 0:
        np.testing.assert_array_equal(
            weft.jit(lambda o: jnp.delete(MATRIX, o, axis))(obj), np.delete(MATRIX, obj, axis)
        )


def test_known_numbers_and_arrays_decide_shapes_also_while_tracing():
    np.testing.assert_array_equal(
        jnp.repeat(V, 2, total_repeat_length=7), np.repeat(V, 2)[:7].astype("float32")
    )
    calls = [
        lambda f: f.repeat(np.arange(3), 2),
        lambda f: f.nonzero(np.array([1, 0, 1]))[0],
        lambda f: f.argwhere(np.array([[1, 0], [0, 1]])),
        lambda f: f.compress(np.array([True, False]), np.arange(2)),
        lambda f: f.ravel_multi_index((1, 2), (3, 4)),
        lambda f: f.choose(1, np.arange(3)),
        lambda f: f.diagflat(3),
        lambda f: f.diagflat(4),
    ]
    for call in calls:
        for found in (call(jnp), weft.jit(lambda call=call: call(jnp))()):
            np.testing.assert_array_equal(found, call(np))
