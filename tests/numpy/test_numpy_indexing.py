"""`x[...]` and `x.at[...]` against NumPy: every form of index, reading, writing, derivatives."""

from __future__ import annotations

import functools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft.errors import (
    Fix,
    NonConcreteBooleanIndexError,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)

# Few shapes, since every index makes a program of its own.
SHAPES = ((5,), (3, 4), (2, 3, 4), (2, 1, 3, 2))


@st.composite
def slices(draw, size):
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = st.one_of(st.none(), st.sampled_from([1, 2, 3, -1, -2]))
    return slice(draw(bound), draw(bound), draw(step))


@st.composite
def index_arrays(draw, size, shape):
    n = int(np.prod(shape))
    values = draw(st.lists(st.integers(-size, size - 1), min_size=n, max_size=n))
    return np.array(values, np.int32).reshape(shape)


@st.composite
def indices(draw, shape, arrays=True):
    """An index of an array of a shape: a tuple of entries for some of its dimensions."""
    common = draw(st.sampled_from([(), (2,), (1, 3)])) if arrays else ()
    entries: list = []
    dim = 0
    while dim < len(shape) and draw(st.integers(0, 5)):
        kind = draw(st.sampled_from("islsann" + ("aam" if arrays else "")))
        size = shape[dim]
        if kind == "i":
            entries.append(draw(st.integers(-size, size - 1)))
        elif kind in "sl":
            entries.append(draw(slices(size)))
        elif kind == "n":
            entries.append(None)
            continue
        elif kind == "m":
            rank = draw(st.integers(1, min(2, len(shape) - dim)))
            if common:  # a mask beside index arrays has to select as many: rarely of interest
                entries.append(draw(index_arrays(size, common)))
            else:
                mask = draw(
                    st.lists(
                        st.booleans(),
                        min_size=int(np.prod(shape[dim : dim + rank])),
                        max_size=int(np.prod(shape[dim : dim + rank])),
                    )
                )
                if any(isinstance(e, np.ndarray) and e.dtype == bool for e in entries):
                    entries.append(slice(None))
                else:
                    entries.append(np.array(mask).reshape(shape[dim : dim + rank]))
                    dim += rank - 1
        elif kind == "a" and arrays:
            entries.append(draw(index_arrays(size, common)))
        else:
            entries.append(slice(None))
        dim += 1
    if draw(st.booleans()):
        # An Ellipsis stands for what is left: only at the end if dimensions were counted.
        entries.append(Ellipsis)
    return tuple(entries)


@st.composite
def cases(draw, arrays=True):
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(indices(shape, arrays))


def values(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def on_device(index):
    """The index with its integer arrays as arrays whose values are not known while tracing."""
    return tuple(
        jnp.asarray(e) if isinstance(e, np.ndarray) and e.dtype != bool else e for e in index
    )


@hypothesis.settings(max_examples=150)
@hypothesis.given(cases())
def test_reading_is_that_of_numpy(case):
    shape, index = case
    x = values(shape)
    expected = x[index]
    out = jnp.asarray(x)[index]
    assert out.shape == expected.shape and out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(jnp.asarray(x)[on_device(index)], expected)


@hypothesis.settings(max_examples=60)
@hypothesis.given(cases())
def test_reading_while_traced_is_that_of_numpy(case):
    shape, index = case
    x = values(shape)
    np.testing.assert_array_equal(weft.jit(lambda x: x[index])(x), x[index])
    places = [i for i, e in enumerate(index) if isinstance(e, np.ndarray) and e.dtype != bool]

    def read(x, *arrays):
        new = list(index)
        for i, a in zip(places, arrays, strict=True):
            new[i] = a
        return x[tuple(new)]

    np.testing.assert_array_equal(weft.jit(read)(x, *[index[i] for i in places]), x[index])


@hypothesis.settings(max_examples=100)
@hypothesis.given(cases())
def test_writing_is_that_of_numpy(case):
    shape, index = case
    x = values(shape)
    expected = x.copy()
    expected[index] = -1
    np.testing.assert_array_equal(jnp.asarray(x).at[index].set(-1), expected)
    np.testing.assert_array_equal(jnp.asarray(x).at[on_device(index)].set(-1), expected)
    counted = np.zeros(shape, np.float32)
    update = np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
    np.add.at(counted, index, update)
    np.testing.assert_array_equal(jnp.zeros(shape).at[index].add(update), counted)


@hypothesis.settings(max_examples=40)
@hypothesis.given(cases())
def test_writing_while_traced_is_that_of_numpy(case):
    shape, index = case
    x = values(shape)
    unique = len(set(np.arange(x.size).reshape(shape)[index].ravel())) == x[index].size
    update = -1 - np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
    if unique:
        expected = x.copy()
        expected[index] = update
        out = weft.jit(lambda x, v: x.at[index].set(v))(x, update)
        np.testing.assert_array_equal(out, expected)
    expected = x.copy()
    np.multiply.at(expected, index, update)
    out = weft.jit(lambda x, v: x.at[index].multiply(v))(x, update)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@hypothesis.settings(max_examples=25)
@hypothesis.given(cases())
def test_the_derivative_of_reading_counts_how_often_an_element_is_read(case):
    shape, index = case
    x = values(shape)
    counts = np.zeros(shape, np.float32)
    np.add.at(counts, index, 1)
    np.testing.assert_array_equal(weft.grad(lambda x: x[index].sum())(x), counts)
    batched = weft.vmap(lambda x: x[index])(np.stack([x, x + 1]))
    np.testing.assert_array_equal(batched, np.stack([x[index], (x + 1)[index]]))


def test_the_derivative_of_writing():
    index = (slice(None), np.array([2, 0, 2]))
    x, v = values((2, 3)), values((2, 3)) + 1

    def f(x, v):
        return (x.at[index].add(v) ** 2).sum()

    by_hand = np.array(x)
    np.add.at(by_hand, index, v)
    dx, dv = weft.grad(f, argnums=(0, 1))(x, v)
    np.testing.assert_allclose(dx, 2 * by_hand)
    np.testing.assert_allclose(dv, 2 * by_hand[index])

    def g(x, v):
        return (x.at[0, 1:].set(v) ** 2).sum()

    dx, dv = weft.grad(g, argnums=(0, 1))(x, v[0, 1:])
    np.testing.assert_allclose(dx, [[0, 0, 0], [6, 8, 10]])
    np.testing.assert_allclose(dv, 2 * v[0, 1:])


# ---- what an index lowers to -----------------------------------------------------------------


def primitives(f, *args):
    return [eqn.primitive.name for eqn in weft.make_jaxpr(f)(*args).jaxpr.eqns]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ((slice(1, 3),), ["slice"]),
        ((2,), ["slice", "reshape"]),
        ((Ellipsis, None, 1), ["slice"]),
        ((slice(None, None, -1), slice(0, 4, 2)), ["slice", "rev"]),
        ((None,), ["reshape"]),
        ((Ellipsis,), []),
    ],
)
def test_a_static_index_is_slices_and_reshapes(index, expected):
    assert primitives(lambda x: x[index], values((4, 5))) == expected


def test_a_traced_integer_is_a_dynamic_slice():
    found = primitives(lambda x, i: x[i], values((4, 5)), 1)
    assert "dynamic_slice" in found and "gather" not in found


def test_writing_a_window_is_a_dynamic_update_slice():
    found = primitives(lambda x: x.at[1:3, 2].set(0.0), values((4, 5)))
    assert "dynamic_update_slice" in found and not any("scatter" in name for name in found)


# ---- out of bounds -----------------------------------------------------------------------------


def test_a_static_index_out_of_bounds_raises():
    x = jnp.arange(5)
    for read in (
        lambda: x[5],
        lambda: x[-6],
        lambda: x[np.array([0, 7])],
        lambda: x.at[5].set(0),
        lambda: weft.jit(lambda x: x[9])(x),
    ):
        with pytest.raises(WeftIndexError, match="out of bounds for dimension 0 of length 5"):
            read()


def test_traced_indices_out_of_bounds():
    x = jnp.arange(5.0)
    far = jnp.array([10, -7])
    np.testing.assert_array_equal(x[far], [4, 0])
    np.testing.assert_array_equal(weft.jit(lambda i: x[i])(10), 4)
    np.testing.assert_array_equal(weft.jit(lambda i: x[i])(-7), 0)
    np.testing.assert_array_equal(x.at[far].get(mode="fill"), [np.nan, np.nan])
    np.testing.assert_array_equal(x.at[far].get(mode="fill", fill_value=7), [7, 7])
    np.testing.assert_array_equal(x.at[jnp.array(9)].get(mode="fill"), np.nan)
    np.testing.assert_array_equal(jnp.arange(5).at[far].get(mode="fill"), [-(2**31)] * 2)
    np.testing.assert_array_equal(x.at[far].set(9), x)
    np.testing.assert_array_equal(x.at[far].set(9, mode="clip"), [9, 1, 2, 3, 9])
    np.testing.assert_array_equal(x.at[jnp.array([-1])].set(9), [0, 1, 2, 3, 9])
    np.testing.assert_array_equal(x.at[jnp.array([-1])].set(9, wrap_negative_indices=False), x)


# ---- updates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index", [2, (slice(1, 4),), np.array([1, 1, 3]), slice(None, None, 2), slice(None)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("mul", np.multiply),
        ("min", np.minimum),
        ("max", np.maximum),
    ],
)
def test_updates_count_every_entry(name, ufunc, dtype, index):
    x = np.array([5, -3, 2, 7, 1], dtype)
    expected = x.copy()
    ufunc.at(expected, index, dtype(2))
    out = getattr(jnp.asarray(x).at[index], name)(2)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, expected)


def test_division_power_and_apply():
    x = jnp.array([5.0, -3, 2, 7, 1])
    np.testing.assert_allclose(x.at[np.array([0, 0])].divide(2), [1.25, -3, 2, 7, 1])
    np.testing.assert_allclose(x.at[1].power(2), [5, 9, 2, 7, 1])
    np.testing.assert_allclose(x.at[1:3].apply(lambda v: -v), [5, 3, -2, 7, 1])
    np.testing.assert_array_equal(jnp.array([5, 4]).at[0].divide(2), [2, 4])


def test_the_result_has_the_dtype_of_the_array():
    x = jnp.arange(5)
    assert x.at[0].set(1.5).dtype == np.int32
    np.testing.assert_array_equal(x.at[0].set(1.5), [1, 1, 2, 3, 4])
    np.testing.assert_array_equal(x.at[1].multiply(2.5), [0, 2, 2, 3, 4])
    half = jnp.ones(3, jnp.bfloat16)
    assert half.at[0].add(jnp.float32(1)).dtype == jnp.bfloat16
    flags = jnp.zeros(3, bool).at[1].set(True)
    assert flags.dtype == bool and flags.tolist() == [False, True, False]


def test_a_traced_mask_chooses_elements():
    x = jnp.arange(6.0).reshape(2, 3)
    out = weft.jit(lambda x: x.at[x > 2].set(0))(x)
    np.testing.assert_array_equal(out, np.where(np.asarray(x) > 2, 0, x))
    rows = weft.jit(lambda x, m: x.at[m].add(x[0]))(x, np.array([False, True]))
    np.testing.assert_array_equal(rows, [[0, 1, 2], [3, 5, 7]])


def test_a_traced_mask_does_not_select():
    with pytest.raises(NonConcreteBooleanIndexError) as caught:
        weft.jit(lambda x: x[x > 2])(jnp.arange(5))
    assert isinstance(caught.value.fix, Fix) and "where" in caught.value.fix.text


def test_known_masks_select_under_a_transformation():
    x = np.arange(5.0, dtype=np.float32)
    np.testing.assert_array_equal(weft.grad(lambda x: x[x > 2].sum())(x), [0, 0, 0, 1, 1])


def test_flags():
    x, n = np.arange(6).reshape(2, 3), jnp.arange(6).reshape(2, 3)
    for index in (True, False, (True, 0), (0, True), (slice(None), True), (None, True, 1)):
        np.testing.assert_array_equal(n[index], x[index])
        expected = x.copy()
        expected[index] = 9
        np.testing.assert_array_equal(n.at[index].set(9), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64])
def test_index_dtypes(dtype):
    x = jnp.arange(300)
    with weft.enable_x64():
        index = jnp.asarray(np.array([3, 120], dtype))
    np.testing.assert_array_equal(x[index], [3, 120])
    np.testing.assert_array_equal(weft.jit(lambda i: x[i])(index[1]), 120)
    np.testing.assert_array_equal(x.at[index].set(0).sum(), np.arange(300).sum() - 123)


def test_negative_narrow_indices_count_from_the_end_of_long_arrays():
    x = jnp.arange(300)
    np.testing.assert_array_equal(x[jnp.array([-1, -128], jnp.int8)], [299, 172])


def test_empty_and_scalar_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    assert x[np.array([], int)].shape == (0, 3)
    assert x[2:, :0].shape == (0, 0)
    assert jnp.zeros((0, 3))[:, 1].shape == (0,)
    scalar = jnp.float32(3)
    assert scalar[()].shape == () and scalar[None].shape == (1,) and scalar[...].shape == ()
    assert float(scalar.at[()].set(4)) == 4


@pytest.mark.parametrize(
    "index",
    [
        [0, 2],
        [True, False, True],
        [[0, 1], [2, -1]],
        (slice(None), [0, 2]),
        ([0, 1], [3, 2]),
        (Ellipsis, []),
        ((0, 1), None, [2]),
    ],
)
def test_lists_in_an_index_are_arrays(index):
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = jnp.asarray(values)
    np.testing.assert_array_equal(x[index], values[index])
    np.testing.assert_array_equal(weft.jit(lambda x: x[index])(x), values[index])
    expected = values.copy()
    expected[index] = -1
    np.testing.assert_array_equal(x.at[index].set(-1), expected)


@pytest.mark.parametrize("index", [(0, 2), (2, 1), (-1,)])
def test_a_list_is_no_tuple_after_the_tuple_was_an_index(index):
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = jnp.asarray(values)
    for part in (index, list(index), index, list(index)):
        np.testing.assert_array_equal(x[part], values[part])


def test_a_list_of_traced_indices_names_stack():
    with pytest.raises(WeftTypeError, match="stack"):
        weft.jit(lambda x, i: x[[i, i]])(jnp.arange(3.0), 1)


# ---- random keys, other devices ------------------------------------------------------------------


def test_random_keys_are_indexed_like_other_arrays():
    keys = weft.random.split(weft.random.key(0), 4)
    bits = np.asarray(weft.random.key_data(keys))
    for index in (
        1,
        slice(1, 3),
        slice(None, None, -2),
        np.array([0, 2]),
        (None, -1),
        bits[:, 0] > 0,
    ):
        np.testing.assert_array_equal(weft.random.key_data(keys[index]), bits[index])
        expected = bits.copy()
        expected[index] = bits[3]
        out = keys.at[index].set(keys[3])
        np.testing.assert_array_equal(weft.random.key_data(out), expected)
    out = weft.vmap(lambda i: keys[i])(np.arange(2))
    np.testing.assert_array_equal(weft.random.key_data(out), bits[:2])


def test_results_stay_on_the_device_of_the_array():
    device = weft.devices()[2]
    x = weft.device_put(np.arange(8.0, dtype=np.float32), device)
    for out in (
        x[2:5],
        x[3],
        x[jnp.array([1, 2])],
        x[np.asarray(x) > 2],
        x.at[2].set(1.0),
        x.at[jnp.array([1])].add(x[3]),
        x * 2.0 + jnp.arange(8.0),
        weft.jit(lambda x, y: x + y)(x, jnp.arange(8.0)),
    ):
        assert out.device == device and out.committed


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ([0.5, 1], WeftTypeError),
        ([0, 3], WeftIndexError),
        (1.0, WeftTypeError),
        ("a", WeftTypeError),
        (np.array([1.0]), WeftTypeError),
        ((0, 0, 0), WeftIndexError),
        ((Ellipsis, Ellipsis), WeftIndexError),
        (np.array([True, False, True, False]), WeftIndexError),
        ((np.zeros(2, int), np.zeros(3, int)), WeftIndexError),
        (slice(None, None, 0), WeftValueError),
        (slice(0.5, None), WeftTypeError),
    ],
)
def test_wrong_indices_raise(index, error):
    x = jnp.zeros((3, 4))
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x.at[index].set(0)
    with pytest.raises(error):
        weft.jit(lambda x: x[index])(x)


def test_a_traced_slice_bound_raises():
    with pytest.raises(WeftIndexError, match="slice must be known"):
        weft.jit(lambda x, i: x[i:])(jnp.arange(4), 1)


def test_updates_take_no_other_options():
    x = jnp.zeros(2).at[0]
    for method in (x.set, x.add, x.subtract, x.multiply, x.divide, x.power, x.min, x.max):
        with pytest.raises(TypeError, match="wrap"):
            method(1.0, wrap=False)
    with pytest.raises(TypeError, match="positional"):
        x.set(1.0, True)


def test_wrong_updates_raise():
    x = jnp.zeros((3, 4))
    with pytest.raises(ShapeError, match="does not broadcast"):
        x.at[1:3].set(jnp.zeros((3, 4)))
    with pytest.raises(ShapeError, match="does not broadcast"):
        x.at[0].set(jnp.zeros((1, 4)))
    with pytest.raises(WeftValueError, match="no mode 'wrap'"):
        x.at[0].set(1, mode="wrap")
    with pytest.raises(TypeError):
        x.at[0].set(1, unknown=True)
    with pytest.raises(WeftTypeError):
        x.at[0].set([1.0, 2, 3, 4])
    with pytest.raises(TypeError):
        x[0] = 1.0


# ---- eager programs are shared -------------------------------------------------------------------


def test_windows_of_one_size_share_one_program():
    x = jnp.arange(1000.0)
    x[3:13], x[5], x.at[3].set(0)
    before = compiled_programs()
    for i in range(20, 40):
        np.testing.assert_array_equal(x[i : i + 10], np.arange(i, i + 10))
        assert float(x[i]) == i
        assert float(x.at[i].set(0)[i]) == 0
    assert compiled_programs() == before


def compiled_programs():
    modules = ("getitem.take_window", "getitem.take_by_plan", "at.update_window")
    found = [functools.reduce(getattr, name.split("."), weft.numpy) for name in modules]
    return sum(len(function.program.calls) for function in found)


@pytest.mark.parametrize("form", [lambda part: part, lambda part: (part,)])
def test_a_bound_equal_to_an_integer_is_none(form):
    x = jnp.arange(5)
    for _ in range(3):  # remembered, and looked up under a key to which 1.0 is equal
        np.testing.assert_array_equal(x[form(slice(1, 2, 1))], [1])
    for part in (slice(1.0, 2, 1), slice(1, 2.0, 1), slice(1, 2, 1.0)):
        for call in (lambda y, k=part: y[form(k)], weft.jit(lambda y, k=part: y[form(k)])):
            with pytest.raises(TypeError, match="bounds of a slice"):
                call(x)


def test_an_ellipsis_for_no_dimensions_sets_index_arrays_apart():
    x = np.arange(24).reshape(2, 3, 4)
    i, j = np.array([0, 1, 1]), np.array([[2, -2, 0], [3, 0, 1]])
    for index in (
        (slice(None), i, ..., j),
        (slice(1), [1, 0, 2], ..., j),
        (0, ..., i, j),
        (slice(None), i, j, ...),
        (slice(None), 1, ..., i),
        (..., i, j),
        (..., [0, 1, 1], j),
    ):
        np.testing.assert_array_equal(jnp.asarray(x)[index], x[index])
        np.testing.assert_array_equal(weft.jit(lambda y, k=index: y[k])(x), x[index])
        changed = x.copy()
        changed[index] = -1
        np.testing.assert_array_equal(jnp.asarray(x).at[index].set(-1), changed)


# ---- known indices out of bounds, where a mode says what to do ------------------------------

BEYOND = (
    11,
    -11,
    10,
    -1,
    3,
    [0, 11],
    np.array([-12, 2, 9]),
    (3, 11),
    (11, slice(1, 3)),
    (9, [1, 5]),
)


def beyond(x, index, mode, value):
    """The elements at an index, and the array with them replaced, one by one in Python."""
    parts = index if type(index) is tuple else (index,)
    sizes = x.shape[: len(parts)]
    parts = [
        np.arange(*p.indices(n)) if type(p) is slice else p
        for p, n in zip(parts, sizes, strict=True)
    ]
    rows = [
        np.asarray(p) + np.where(np.asarray(p) < 0, n, 0) for p, n in zip(parts, sizes, strict=True)
    ]
    inside = np.ones((), bool)
    for row, n in zip(rows, sizes, strict=True):
        inside = inside & (row >= 0) & (row < n)
    near = tuple(np.clip(row, 0, n - 1) for row, n in zip(rows, sizes, strict=True))
    tail = x[near].ndim - inside.ndim
    keep = inside.reshape(inside.shape + (1,) * tail)
    got = x[near] if mode == "clip" else np.where(keep, x[near], np.nan)
    out = x.copy()
    if mode == "clip" or inside.all():
        out[near] = value
    elif inside.any():
        out[tuple(row[inside] for row in np.broadcast_arrays(*near))] = value
    return got, out


@pytest.mark.parametrize("index", BEYOND, ids=str)
@pytest.mark.parametrize("mode", ["fill", "drop", "clip"])
@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
def test_a_mode_says_what_a_known_index_does_beyond_the_end(index, mode, staged):
    x = np.arange(40.0, dtype=np.float32).reshape(10, 4)
    got, out = beyond(x, index, mode, -5.0)
    run = weft.jit if staged else lambda f: f
    np.testing.assert_array_equal(run(lambda x: x.at[index].get(mode=mode))(jnp.asarray(x)), got)
    np.testing.assert_array_equal(
        run(lambda x: x.at[index].set(-5.0, mode=mode))(jnp.asarray(x)), out
    )


def test_too_many_indices_stay_an_error_with_a_mode():
    with pytest.raises(WeftIndexError, match="too many"):
        jnp.arange(3).at[0, 0].get(mode="fill")
