"""Choosing, finding, taking, sorting, sets: held to NumPy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from weft.errors import AxisError, ConcretizationError, ShapeError, WeftValueError

RANDOM = np.random.default_rng(1)
V = RANDOM.normal(size=7)
M = RANDOM.normal(size=(3, 4))
T = RANDOM.normal(size=(2, 3, 4))
N = np.array([[3.0, np.nan, -1.0], [np.nan, np.nan, np.nan], [2.0, 5.0, 2.0]])
NUMBERS = np.array([2.0, np.nan, -1.0, np.inf, -0.0, 0.0, np.nan, -np.inf])
REPEATED = np.array([3, 1, 2, 3, 1, 1, 7])
MASK = np.array([True, False, True, True, False, False, True])
C = RANDOM.integers(-1, 2, size=(2, 5)) + 1j * RANDOM.integers(-1, 2, size=(2, 5))
RISING = np.array([-1.0, -0.5, 0.0, 0.0, 0.5, 2.0])

CHOOSING = [
    case("where", MASK, V, 2 * V, _grad=True),
    case("where", MASK, V, 0.0),
    case("where", MASK[:3, None], M, V[:4]),
    case("where", V, 1, 2),
    case("where", MASK, _jit=False),
    case("nonzero", M > 0, _jit=False),
    case("flatnonzero", M > 0, _jit=False),
    case("argwhere", M > 0, _jit=False),
    case("extract", M > 0, M, _jit=False),
    case("compress", np.array([True, False, True]), M, axis=0, _jit=False),
    case("compress", np.array([True, False, True]), M, axis=1, _jit=False),
    case("select", [V > 1, V > 0], [V, 2 * V], -1.0),
    case("choose", np.array([0, 2, 1]), [V[:3], 2 * V[:3], 7.0], _jit=False),
    case("choose", np.array([0, 5, -1]), [V[:3], 2 * V[:3], 7.0], mode="clip"),
    case("choose", np.array([0, 5, -1]), [V[:3], 2 * V[:3], 7.0], mode="wrap"),
    case("piecewise", V, [V > 0], [lambda x: x * 2, lambda x: -x], _jit=False),
    case("piecewise", V, [V > 1, V < 0], [1.0, lambda x: x], _jit=False),
]
FINDING = [
    *[
        case(name, x, axis=axis, keepdims=keep)
        for name in ("argmax", "argmin")
        for x, axis in ((V, None), (M, None), (M, 0), (T, -1))
        for keep in (False, True)
    ],
    case("argmax", REPEATED),
    case("argmin", N),
    case("argmax", MASK),
    case("nanargmax", N[[0, 2]], axis=1),
    case("nanargmin", N[[0, 2]], axis=0),
    case("nanargmax", N),
    *[
        case("searchsorted", RISING, V, side=side, method=method, _vmap=False,
             _reference=lambda a, v, side, method: np.searchsorted(a, v, side))
        for side in ("left", "right")
        for method in ("scan", "compare_all", "sort")
    ],
    case("searchsorted", RISING, RISING, side="right"),
    case("searchsorted", RISING, M, _vmap=False),
    case("searchsorted", np.append(RISING, np.nan), NUMBERS, _vmap=False),
    case("searchsorted", RISING[::-1].copy(), V, sorter=np.arange(6)[::-1].copy(), _vmap=False),
    case("digitize", V, RISING, _vmap=False),
    case("digitize", V, RISING, right=True, _vmap=False),
    case("digitize", np.append(V, RISING), RISING[::-1].copy(), _vmap=False),
    case("digitize", np.append(V, RISING), RISING[::-1].copy(), right=True, _vmap=False),
    case("isin", REPEATED, np.array([3, 9])),
    case("isin", M, M[0, :2], invert=True),
    case("interp", V, np.sort(V)[::2] + 0.01, np.array([1.0, 5, -2, 3]), _vmap=False, _grad=True),
    case("interp", V * 9, np.array([0.0, 1, 3]), V[:3], left=-7.0, right=8.0, _vmap=False),
    case("interp", V * 9, np.array([4.0, 1, 3]), V[:3], period=5.0, _vmap=False),
]  # fmt: skip
TAKING = [
    case("take", V, np.array([[1, 0], [-1, 6]]), _grad=True),
    case("take", M, np.array([2, 0, 2]), axis=1, _grad=True),
    case("take", T, 1, axis=1),
    case("take", M, np.array([-5, 9]), axis=0, mode="wrap"),
    case("take", M, np.array([-5, 9]), axis=0, mode="clip"),
    case("take", M, np.array([1, 3], np.int8)),
    case("take_along_axis", M, np.argsort(M, 1), axis=1, _grad=True),
    case("take_along_axis", M, np.array([[0, 2, 1, -1]]), axis=0),
    case("take_along_axis", M, np.array([3, 11]), axis=None, _vmap=False),
    case("take_along_axis", T, np.array([[[1], [0], [2]]]), axis=2),
]
SORTING = [
    *[case("sort", x, axis=axis) for x, axis in ((V, -1), (M, 0), (M, None), (T, 1))],
    case("sort", M, _grad=True),
    case("sort", NUMBERS),
    case("sort", C),
    case("sort", REPEATED, descending=True, _reference=lambda x, descending: -np.sort(-x)),
    case("sort", MASK),
    *[case("argsort", x, axis=axis, _reference=lambda x, axis: np.argsort(x, axis, kind="stable"))
      for x, axis in ((V, -1), (M, 0), (M, None), (REPEATED, -1), (NUMBERS, -1))],
    case("argsort", REPEATED, descending=True,
         _reference=lambda x, descending: np.argsort(-x, kind="stable")),
    case("lexsort", (V, REPEATED)),
    case("lexsort", np.stack([V, REPEATED]), _vmap=False),
    case("sort_complex", C),
    case("sort_complex", REPEATED),
    *[case(name, x, axis=axis) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")
      for x, axis in ((V, None), (M, 0), (N, 1))],
    case("cumsum", M, axis=1, _grad=True),
    case("cumprod", M, axis=1, _grad=True),
    case("cumsum", MASK),
    case("cumsum", REPEATED, dtype="float64"),
    case("cumulative_sum", M, axis=1, include_initial=True),
    case("cumulative_sum", V),
    case("cumulative_prod", V, include_initial=True),
]  # fmt: skip
SETS = [
    case("unique", REPEATED, _jit=False),
    case("unique", M, return_index=True, return_inverse=True, return_counts=True, _jit=False),
    case(
        "unique", REPEATED, return_index=True, return_inverse=True, return_counts=True, _jit=False
    ),
    case("unique", NUMBERS, _jit=False),
    case("unique", NUMBERS, equal_nan=False, _jit=False),
    case("unique", REPEATED[:6].reshape(3, 2) % 2, axis=0, return_counts=True, _jit=False),
    case("unique", REPEATED[:6].reshape(2, 3) % 2, axis=1, _jit=False),
    case("unique", MASK, _jit=False),
    case("unique_all", REPEATED, _jit=False),
    case("unique_counts", REPEATED, _jit=False),
    case("unique_inverse", REPEATED.reshape(1, 7), _jit=False),
    case("unique_values", NUMBERS, _jit=False),
    case("union1d", REPEATED, np.array([9, 1]), _jit=False),
    case("setdiff1d", REPEATED, np.array([9, 1]), _jit=False),
    case("intersect1d", REPEATED, np.array([9, 1, 7]), _jit=False),
    case("intersect1d", REPEATED, np.array([9, 1, 7, 1]), return_indices=True, _jit=False),
    case("setxor1d", REPEATED, np.array([9, 1]), _jit=False),
]


@pytest.mark.parametrize("row", CHOOSING + FINDING + TAKING + SORTING + SETS, ids=str)
def test_row(row):
    check(row)


@pytest.mark.parametrize("name", ["partition", "argpartition"])
@pytest.mark.parametrize("kth", [0, 3, -1])
def test_partition(name, kth):
    out = np.asarray(getattr(jnp, name)(V, kth))
    found = V[out] if name == "argpartition" else out
    middle = np.sort(V)[kth]
    assert found[kth] == np.float32(middle) or found[kth] == middle
    assert (found[: kth % 7] <= found[kth]).all() and (found[kth % 7 :] >= found[kth]).all()


def test_shapes_fixed_by_size():
    mask = np.array([False, True, True, False, True])
    f = weft.jit(lambda m: jnp.nonzero(m, size=4, fill_value=-1)[0])
    np.testing.assert_array_equal(f(mask), [1, 2, 4, -1])
    np.testing.assert_array_equal(jnp.nonzero(mask, size=2)[0], [1, 2])
    rows, columns = jnp.nonzero(np.eye(3), size=4, fill_value=(7, 8))
    np.testing.assert_array_equal(rows, [0, 1, 2, 7])
    np.testing.assert_array_equal(columns, [0, 1, 2, 8])
    np.testing.assert_array_equal(jnp.argwhere(np.eye(2), size=3), [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(jnp.where(mask, size=4)[0], [1, 2, 4, 0])
    out = weft.jit(lambda m, x: jnp.compress(m, x, size=4, fill_value=9))(mask, np.arange(5) * 2)
    np.testing.assert_array_equal(out, [2, 4, 8, 9])
    rows = weft.jit(lambda m, x: jnp.compress(m, x, axis=0, size=4))(mask, np.ones((5, 2)))
    np.testing.assert_array_equal(rows, [[1, 1]] * 3 + [[0, 0]])
    both = weft.vmap(lambda m: jnp.flatnonzero(m, size=3))(np.stack([mask, ~mask]))
    np.testing.assert_array_equal(both, [[1, 2, 4], [0, 3, 0]])


def test_sets_with_size():
    x, y = np.array([3, 1, 2, 3]), np.array([1, 5, 3])
    f = weft.jit(
        lambda x: jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=5)
    )
    values, index, inverse, counts = f(x)
    np.testing.assert_array_equal(values, [1, 2, 3, 1, 1])
    np.testing.assert_array_equal(index, [1, 2, 0, 1, 1])
    np.testing.assert_array_equal(inverse, [2, 0, 1, 2])
    np.testing.assert_array_equal(counts, [1, 1, 2, 0, 0])
    np.testing.assert_array_equal(jnp.unique(x, size=2), [1, 2])
    np.testing.assert_array_equal(jnp.unique(x, size=4, fill_value=9), [1, 2, 3, 9])

    def sized(function, *args, **kwargs):
        return np.asarray(weft.jit(lambda *a: function(*a, **kwargs))(*args))

    np.testing.assert_array_equal(sized(jnp.union1d, x, y, size=5, fill_value=0), [1, 2, 3, 5, 0])
    np.testing.assert_array_equal(sized(jnp.setdiff1d, x, y, size=2, fill_value=8), [2, 8])
    np.testing.assert_array_equal(sized(jnp.intersect1d, x, y, size=3, fill_value=8), [1, 3, 8])
    np.testing.assert_array_equal(sized(jnp.setxor1d, x, y, size=3, fill_value=8), [2, 5, 8])
    values, one, two = jnp.intersect1d(x, y, return_indices=True, size=3, fill_value=8)
    np.testing.assert_array_equal(values, [1, 3, 8])
    np.testing.assert_array_equal(one, [1, 0, 4])
    np.testing.assert_array_equal(two, [0, 2, 3])


def test_putting():
    x = np.zeros((2, 3))
    index = np.array([[2, 0], [1, -1]])
    values = np.array([[1.0, 2], [3, 4]])
    expected = x.copy()
    np.put_along_axis(expected, index, values, 1)
    out = jnp.put_along_axis(x, index, values, 1, inplace=False)
    np.testing.assert_array_equal(out, expected)
    np.put(expected, [0, -1, 2], [7.0, 8.0])
    out = jnp.put(out, np.array([0, -1, 2]), np.array([7.0, 8.0]), inplace=False)
    np.testing.assert_array_equal(out, expected)
    mask = np.array([[True, False, True], [True, True, False]])
    np.place(expected, mask, [5.0, 6.0])
    out = jnp.place(out, mask, np.array([5.0, 6.0]), inplace=False)
    np.testing.assert_array_equal(out, expected)


def test_taking_out_of_bounds():
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(jnp.take(x, np.array([3, -1, -4])), [np.nan, 2, np.nan])
    np.testing.assert_array_equal(jnp.take(x, np.array([3]), fill_value=-1), [-1])
    np.testing.assert_array_equal(jnp.take(jnp.arange(3), 5), -(2**31))
    out = jnp.take_along_axis(x, np.array([9]), 0)
    np.testing.assert_array_equal(out, [np.nan])


def test_negative_positions_that_do_not_wrap():
    x = jnp.arange(3.0)
    for mode, wanted in (
        (None, [np.nan, 2, np.nan]),
        ("fill", [np.nan, 2, np.nan]),
        ("clip", [0, 2, 2]),
    ):
        for index in (np.array([-1, 2, 3]), np.array([-1, 2, 3], np.int8)):
            out = jnp.take_along_axis(x, index, 0, mode=mode, wrap_negative_indices=False)
            np.testing.assert_array_equal(out, wanted)


def test_positions_in_a_dtype():
    x = np.array([3.0, 1.0, 2.0])
    for found, wanted in (
        (jnp.argsort(x, dtype="int16"), np.argsort(x)),
        (jnp.ravel_multi_index((1, 2), (3, 4), dtype=np.int16), 6),
    ):
        assert found.dtype == np.int16
        np.testing.assert_array_equal(found, wanted)


def test_the_derivative_of_where_does_not_see_the_other_branch():
    x = np.array([0.0, 4.0], np.float32)
    f = weft.grad(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0).sum())
    np.testing.assert_allclose(f(x), [0, 0.25])


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_puts_nan_last(side):
    a = np.array([-1.0, 0.0, 0.0, 2.0, np.nan, np.nan], np.float32)
    v = np.array([-np.inf, -1, 0, -0.0, 1, 2, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(jnp.searchsorted(a, v, side), np.searchsorted(a, v, side))
    for of in (a[:0], a[:1], np.arange(7), np.array([False, True, True])):
        at = np.arange(-1, 8) if of.dtype != bool else np.array([True, False])
        np.testing.assert_array_equal(jnp.searchsorted(of, at, side), np.searchsorted(of, at, side))


@pytest.mark.usefixtures("optimized")
def test_a_step_of_searchsorted_is_short():
    """XLA computes all earlier steps again in each step, so that what a step costs counts twice."""
    v = np.zeros(3, np.float32)
    few, many = (weft.jit(jnp.searchsorted).lower(np.zeros(n, "float32"), v).compile().as_text()
                 for n in (2**5, 2**15))  # fmt: skip
    assert many.count(" = ") - few.count(" = ") < 10 * 25


def test_result_dtypes():
    assert jnp.argmax(V).dtype == jnp.argsort(V).dtype == jnp.nonzero(V)[0].dtype == np.int32
    assert jnp.searchsorted(V, V).dtype == np.int32
    assert jnp.cumsum(np.ones(2, np.int8)).dtype == np.int8
    assert jnp.cumsum(np.ones(2, bool)).dtype == np.int32
    assert jnp.cumsum(jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    assert jnp.where(np.array(True), jnp.int8(1), 2).dtype == np.int8


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.where(MASK, V), WeftValueError, "both"),
        (lambda: jnp.where(MASK, V, M), ShapeError, "where"),
        (lambda: weft.jit(jnp.nonzero)(V), ConcretizationError, "size="),
        (lambda: weft.jit(jnp.unique)(V), ConcretizationError, "size="),
        (lambda: jnp.nonzero(1.0), WeftValueError, "dimensions"),
        (lambda: jnp.argmax(np.zeros((0, 3)), 0), WeftValueError, "no elements"),
        (lambda: jnp.argmax(V, 1), AxisError, "argmax"),
        (lambda: jnp.searchsorted(M, 1.0), ShapeError, "one dimension"),
        (lambda: jnp.take(np.zeros(0), 0), IndexError, "no elements"),
        (lambda: jnp.take_along_axis(M, np.array([0]), 1), ShapeError, "dimensions"),
        (lambda: jnp.select([MASK], []), WeftValueError, "choices"),
        (lambda: jnp.choose(np.array([3]), [V]), WeftValueError, "out of range"),
        (lambda: jnp.sort(V, axis=1), AxisError, "sort"),
        (lambda: jnp.partition(V, 7), WeftValueError, "kth"),
        (lambda: jnp.lexsort([V, M]), ShapeError, "one shape"),
        (lambda: jnp.cumulative_sum(M), WeftValueError, "axis"),
        (lambda: jnp.interp(V, V, M), ShapeError, "interp"),
        (lambda: jnp.sort(V, unknown=1), TypeError, "unknown"),
    ],
)
def test_wrong_calls_raise(call, error, text):
    with pytest.raises(error, match=text):
        call()


# ---- sets of a given size ----------------------------------------------------------------------

SETS = {
    "intersect1d": (np.intersect1d, True),
    "setxor1d": (np.setxor1d, True),
    "setdiff1d": (np.setdiff1d, False),
    "union1d": (np.union1d, True),
}


@pytest.mark.parametrize("fill", [None, 9])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("name", SETS)
def test_sets_of_a_given_size_are_those_of_numpy_filled_up(name, dtype, fill):
    function, least = SETS[name]
    rng = np.random.default_rng(0)
    for _ in range(12):
        a, b = (rng.integers(-3, 4, rng.integers(0, 5)).astype(dtype) for _ in range(2))
        if dtype == np.float32 and a.size:
            a[0] = np.nan
        whole = function(a, b)
        if not whole.size and fill is None and name == "union1d":
            continue
        missing = fill if fill is not None else (whole[0] if least and whole.size else 0)
        wanted = [*whole, *[missing] * 4][:4]
        found = weft.jit(lambda a, b: getattr(jnp, name)(a, b, size=4, fill_value=fill))(a, b)
        np.testing.assert_array_equal(found, np.array(wanted, dtype), f"{a} {b}")


@pytest.mark.parametrize("size", [0, 1, 2, 6])
def test_counts_and_indices_of_unique_values_of_a_given_size(size):
    rng = np.random.default_rng(1)
    for _ in range(8):
        a = rng.integers(-3, 4, 5)
        values, index, inverse, counts = np.unique(a, True, True, True)
        found = jnp.unique(a, True, True, True, size=size, fill_value=9)
        n = min(size, values.size)
        more = size - n
        wanted = [*values[:n], *[9] * more], [*index[:n], *[index[0]] * more], inverse
        for x, y in zip(found, (*wanted, [*counts[:n], *[0] * more]), strict=True):
            np.testing.assert_array_equal(x, y)


def test_sets_of_nothing():
    nothing = np.zeros((0,), np.int32)
    assert jnp.unique(nothing, size=2, fill_value=7).tolist() == [7, 7]
    assert jnp.unique(np.zeros((0, 3)), axis=0, size=1, fill_value=7).tolist() == [[7.0] * 3]
    assert jnp.unique_inverse(jnp.zeros((3, 0))).inverse_indices.shape == (3, 0)
    with pytest.raises(ValueError, match="no elements") as info:
        jnp.unique(nothing, size=2)
    assert jnp.unique(nothing, size=2, **info.value.fix.data).tolist() == [0, 0]


def test_results_without_elements():
    x = jnp.arange(3)
    assert jnp.extract(x, x, size=0).shape == jnp.nonzero(x, size=0)[0].shape == (0,)
    assert jnp.compress(x, jnp.zeros((0,)), size=2, fill_value=4).tolist() == [4.0, 4.0]
    repeat = weft.jit(lambda a, r: jnp.repeat(a, r, total_repeat_length=0))
    assert repeat(jnp.zeros((0,), int), 2).shape == repeat(x, 2).shape == (0,)
    assert jnp.mgrid[()].shape == jnp.ogrid[:].shape == (0,) and jnp.ogrid[()] == ()


# ---- positions and slopes ----------------------------------------------------------------------


def test_clipped_positions_along_an_axis_count_from_the_end_first():
    x, places = np.arange(10.0), np.arange(-13, 13)
    wanted = x[np.clip(np.where(places < 0, places + 10, places), 0, 9)]
    np.testing.assert_array_equal(jnp.take_along_axis(x, places, 0, mode="clip"), wanted)


def test_slopes_between_points_that_are_close_together():
    x = np.exp(np.linspace(-80, -20, 500)).astype(np.float32)
    f = lambda x, xp, fp: jnp.interp(x, xp, fp).sum()  # noqa: E731
    for run in (weft.grad(f, (0, 1, 2)), weft.jit(weft.grad(f, (0, 1, 2)))):
        assert all(np.isfinite(slope).all() for slope in run(x * 1.01, x, np.ones_like(x)))


@pytest.mark.parametrize("indices", [[1, 1, 2], [0, 0, 0], [2, 0], [-1, 2], [[1, 1], [0, 1]]])
def test_functions_are_applied_once_per_entry(indices):
    x = np.array([2.0, 3.0, 0.5], np.float32)
    wanted, slope = x.astype(float), np.ones(3)
    for i in np.ravel(indices):
        slope[i] *= 2 * wanted[i]
        wanted[i] = wanted[i] ** 2
    place = np.array(indices)

    def f(x, place):
        return x.at[place].apply(jnp.square)

    for run in (f, weft.jit(f)):
        np.testing.assert_allclose(run(jnp.array(x), place), wanted, rtol=1e-6)
        found = weft.grad(lambda x: run(x, place).sum())(jnp.array(x))  # noqa: B023
        np.testing.assert_allclose(found, slope, rtol=1e-6)


@pytest.mark.parametrize("left", [None, -5.0, "extrapolate"])
@pytest.mark.parametrize("right", [None, 5.0, "extrapolate"])
def test_interp_beyond_the_points(left, right):
    x, xp, fp = np.array([-1.0, 0, 0.5, 3, 7]), np.array([0.0, 1, 3]), np.array([1.0, 4, 0])
    want = np.interp(x, xp, fp, *(end if isinstance(end, float) else None for end in (left, right)))
    if left == "extrapolate":
        want[0] = 1 + (4 - 1) * -1.0
    if right == "extrapolate":
        want[-1] = 0 + (0 - 4) / 2 * (7 - 3)
    np.testing.assert_allclose(jnp.interp(x, xp, fp, left, right), want, rtol=1e-6)


SPECIAL_HEIGHTS = np.array([0, 1, 5, np.inf, -np.inf, 3e38, -3e38, 1e30, np.nan], np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_interp_between_special_heights(seed):
    """A height counts at its own point alone, and two large ones may differ by more than fits."""
    draw = np.random.default_rng(seed)
    count = draw.integers(1, 6)
    xp = np.sort(draw.choice([0, 1, 1.5, 2, 3, 4, -1, -2, 7], count, replace=False))
    fp = draw.choice(SPECIAL_HEIGHTS, count)
    x = np.array([0, 1, 0.5, 1.5, 1.7, 2, 3, 9, -9, 4, -1, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        want = np.interp(x, xp, fp.astype(np.float64)).astype(np.float32)
    x, xp = x.astype(np.float32), xp.astype(np.float32)
    for interp in (jnp.interp, weft.jit(jnp.interp)):
        np.testing.assert_allclose(interp(x, xp, fp), want, rtol=1e-5, atol=1e-6)
