"""Making arrays: from values, of one value, of regular sequences."""

from __future__ import annotations

import array as python_array
import collections
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config
from weft.api.autodiff import grad
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.arrays.array import Array
from weft.core.shape_struct import ShapeDtypeStruct
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.testing import exact_array


def kind(x):
    return x.dtype.name, x.weak_type, x.shape


# ---- array -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, ("float32", True, ())),
        (1, ("int32", True, ())),
        (True, ("bool", False, ())),
        (1j, ("complex64", True, ())),
        ([1, 2.0], ("float32", False, (2,))),
        ([True, 1], ("int32", False, (2,))),
        ([1j, 2], ("complex64", False, (2,))),
        ([], ("float32", False, (0,))),
        ([[], []], ("float32", False, (2, 0))),
        (((1, 2), (3, 4)), ("int32", False, (2, 2))),
        (np.float64(3), ("float32", False, ())),
        (np.arange(3), ("int32", False, (3,))),
        (np.ones((2, 0)), ("float32", False, (2, 0))),
        ([np.float16(1), 2], ("float16", False, (2,))),
        ([np.float16(1), np.float64(2)], ("float32", False, (2,))),
        ([np.ones(2), [1, 2]], ("float32", False, (2, 2))),
        (range(3), ("int32", False, (3,))),
        (python_array.array("d", [1.0, 2.0]), ("float32", False, (2,))),
    ],
)
def test_array_of_values(value, expected):
    if isinstance(value, range):
        value = list(value)
    out = jnp.array(value)
    assert kind(out) == expected
    reference = np.asarray(value).astype(expected[0])
    np.testing.assert_array_equal(np.asarray(out), reference)
    assert kind(jnp.asarray(value)) == expected


def test_lists_of_arrays_and_numbers():
    half = jnp.float16(1)
    assert kind(jnp.array([half, 2.0])) == ("float16", False, (2,))
    assert kind(jnp.array([half, np.float32(2)])) == ("float32", False, (2,))
    nested = jnp.array([[half, 2], [3, jnp.asarray(4)]])
    assert kind(nested) == ("float16", False, (2, 2))
    assert nested.tolist() == [[1, 2], [3, 4]]
    rows = jnp.array([jnp.arange(2), jnp.arange(2.0)])
    assert kind(rows) == ("float32", False, (2, 2))


def test_lists_of_traced_values():
    def f(x):
        return jnp.array([x, 2 * x, 3.0])

    assert jit(f)(2.0).tolist() == [2.0, 4.0, 3.0]
    assert grad(lambda x: f(x).sum())(2.0).item() == 3.0
    assert vmap(f)(jnp.arange(2.0)).tolist() == [[0, 0, 3], [1, 2, 3]]


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_an_explicit_wide_dtype_is_honoured(dtype):
    for out in (
        jnp.array([1, 2], dtype),
        jnp.array(np.arange(2), dtype=dtype),
        jnp.zeros(2, dtype),
        jnp.arange(2, dtype=dtype),
        jnp.arange(2).astype(dtype),
        jnp.full(2, 1, dtype),
        jnp.asarray(1, dtype),
    ):
        assert out.dtype == dtype and not out.weak_type
    precise = jnp.array([0.1], "float64") if dtype == "float64" else jnp.array(2**40, "int64")
    assert precise.item() in (0.1, 2**40)


def test_the_setting_widens_what_asks_for_nothing():
    with config.enable_x64():
        assert jnp.array([1]).dtype == np.int64
        assert jnp.array(np.ones(2)).dtype == np.float64
        assert jnp.arange(2.0).dtype == jnp.zeros(1).dtype == jnp.linspace(0, 1, 2).dtype == float
        assert jnp.array(2**40).item() == 2**40


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.array(2**40),
        lambda: jnp.array([2**40]),
        lambda: jnp.asarray(np.array([2**40])),
        lambda: jnp.asarray(np.int64(2**40)),
        lambda: jnp.array(300, "int8"),
        lambda: jnp.array([-1], "uint8"),
        lambda: jnp.arange(2**40, 2**40 + 2),
        lambda: jnp.arange(300, dtype="int8"),
    ],
)
def test_integers_that_do_not_fit(make):
    with pytest.raises(OverflowError):
        make()


@pytest.mark.parametrize("bad", [None, "a", {1: 2}, {1}, object(), ["a"], [None]])
def test_what_is_no_array(bad):
    with pytest.raises(TypeError):
        jnp.array(bad)


def test_ragged_lists():
    with pytest.raises(ValueError, match="shape"):
        jnp.array([[1, 2], [3]])
    with pytest.raises(ShapeError):
        jnp.array([jnp.ones(2), jnp.ones(3)])


def test_conversions():
    assert jnp.array(1.7, int).tolist() == 1
    assert jnp.array([1.7, -1.7], "int8").tolist() == [1, -1]
    assert jnp.array(jnp.array([1 + 2j]), float).tolist() == [1.0]
    assert jnp.array([2, 0], bool).tolist() == [True, False]
    assert bool(jnp.isinf(jnp.array([1e300])).all())
    assert jnp.array(5, ndmin=3).shape == (1, 1, 5 // 5)
    with pytest.raises(WeftValueError, match="order"):
        jnp.array([1], order="F")


def test_copies():
    x = jnp.arange(3)
    assert jnp.asarray(x) is x
    assert jnp.asarray(x, "int32") is x
    for copied in (jnp.array(x), x.copy(), jnp.copy(x), jnp.asarray(x, copy=True)):
        assert copied is not x
        assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
        assert copied.tolist() == x.tolist()
    source = np.arange(4, dtype=np.int32)
    out = jnp.asarray(source)
    source[:] = 9
    assert out.tolist() == [0, 1, 2, 3]


def test_other_sources():
    assert jnp.frombuffer(b"\x01\x02", jnp.uint8).tolist() == [1, 2]
    assert jnp.frombuffer(np.arange(3.0).tobytes()).tolist() == [0, 1, 2]
    assert jnp.fromstring("1,2", "int32", sep=",").tolist() == [1, 2]
    assert jnp.fromiter((i * i for i in range(3)), "float32").tolist() == [0, 1, 4]
    shared = jnp.from_dlpack(np.arange(3, dtype=np.float32))
    assert type(shared) is Array and shared.tolist() == [0, 1, 2]
    assert type(jnp.from_dlpack(jnp.arange(2), copy=True)) is Array


def test_fromfile(tmp_path):
    np.arange(4.0).tofile(tmp_path / "values")
    assert jnp.fromfile(str(tmp_path / "values")).tolist() == [0, 1, 2, 3]


# ---- of one value ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@pytest.mark.parametrize("shape", [3, (2, 3), [2], (), (0, 2), np.array([1, 2]), range(2, 4)])
def test_constant_arrays(name, shape):
    out = getattr(jnp, name)(shape)
    expected = getattr(np, name if name != "empty" else "zeros")(shape)
    np.testing.assert_array_equal(np.asarray(out), expected)
    assert out.dtype == np.float32
    (eqn,) = make_jaxpr(lambda: getattr(jnp, name)(shape))().eqns or [None]
    assert eqn.primitive.name == "broadcast_in_dim"


def test_large_arrays_are_computed_on_the_device():
    out = jnp.ones((300, 300))
    assert float(out.sum()) == 90_000
    assert jnp.arange(100_000)[-1].item() == 99_999
    assert float(jnp.eye(300).sum()) == 300


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: jnp.zeros(-1), ShapeError),
        (lambda: jnp.zeros((2, -1)), ShapeError),
        (lambda: jnp.zeros(2.0), WeftTypeError),
        (lambda: jnp.zeros("a"), WeftTypeError),
        (lambda: jnp.full((2,), np.ones(3)), ShapeError),
        (lambda: jit(lambda n: jnp.zeros(n))(3), TypeError),
        (lambda: jnp.zeros(2, "nonsense"), TypeError),
        (lambda: jnp.zeros(2, stride=1), TypeError),
    ],
)
def test_shapes_that_are_none(make, error):
    with pytest.raises(error):
        make()


def test_full():
    assert kind(jnp.full(2, 2)) == ("int32", True, (2,))
    assert kind(jnp.full((2,), 2.5)) == ("float32", True, (2,))
    assert kind(jnp.full(2, 1, "int8")) == ("int8", False, (2,))
    assert jnp.full((2, 3), jnp.arange(3)).tolist() == [[0, 1, 2]] * 2
    assert jnp.full(2, [3, 4]).tolist() == [3, 4]
    assert jit(lambda v: jnp.full((2,), v, "float16"))(3).tolist() == [3, 3]
    assert jnp.full(2, 1 + 2j, "float32").tolist() == [1, 1]


def test_like():
    x = exact_array(np.arange(3), "int8")
    assert kind(jnp.zeros_like(x)) == ("int8", False, (3,))
    assert kind(jnp.ones_like(x, float)) == ("float32", False, (3,))
    assert kind(jnp.empty_like(x, shape=(2,))) == ("int8", False, (2,))
    assert jnp.full_like(x, 2.5).tolist() == [2, 2, 2]
    assert kind(jnp.zeros_like(ShapeDtypeStruct((2,), "bfloat16"))) == ("bfloat16", False, (2,))
    assert kind(jnp.ones_like(np.ones(2))) == ("float32", False, (2,))
    assert jnp.ones_like(2.5).tolist() == 1.0


# ---- sequences ---------------------------------------------------------------------------------

RANGES = [
    (5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (0, 10, 3), (2.5,), (0, 1, 0.25), (5, 1, -1.5),
    (1, 1), (True, 3), (0, 2.5), (np.float16(3),), (np.int64(2), 5),
]  # fmt: skip


@pytest.mark.parametrize("args", RANGES)
def test_arange(args):
    expected = np.arange(*[float(a) if isinstance(a, np.floating) else a for a in args])
    out = jnp.arange(*args)
    np.testing.assert_allclose(np.asarray(out), expected)
    assert out.dtype.kind == (
        "f" if any(isinstance(a, (float, np.floating)) for a in args) else "i"
    )
    np.testing.assert_array_equal(np.asarray(jit(lambda: jnp.arange(*args))()), np.asarray(out))


def test_arange_of_dtypes():
    assert jnp.arange(np.float16(3)).dtype == np.float16
    assert jnp.arange(jnp.int8(3)).dtype == np.int8
    assert jnp.arange(3, dtype="bfloat16").dtype == jnp.bfloat16
    assert jnp.arange(3.7, dtype=int).tolist() == [0, 1, 2, 3]
    assert [eqn.primitive.name for eqn in make_jaxpr(lambda: jnp.arange(3))().eqns] == ["iota"]


def test_arange_refuses():
    with pytest.raises(WeftTypeError, match="static") as caught:
        jit(lambda n: jnp.arange(n))(3)
    assert caught.value.fix.data["argument"] == "stop"
    assert jit(lambda n: jnp.arange(n), static_argnums=0)(3).tolist() == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        jnp.arange(0, 3, 0)
    with pytest.raises(WeftValueError, match="complex"):
        jnp.arange(1j)
    with pytest.raises(ShapeError):
        jnp.arange(jnp.ones(2))


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("traced", [False, True])
def test_linspace(num, endpoint, traced):
    def f(start, stop):
        return jnp.linspace(start, stop, num, endpoint=endpoint, retstep=True)

    out, step = jit(f)(-1.0, 2.0) if traced else f(-1.0, 2.0)
    expected, expected_step = np.linspace(-1.0, 2.0, num, endpoint=endpoint, retstep=True)
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-6)
    np.testing.assert_allclose(step.item(), expected_step, rtol=1e-6)
    assert out.dtype == np.float32


def test_linspace_of_arrays():
    start, stop = np.array([[0.0], [1.0]]), np.array([2.0, 3.0, 4.0])
    for axis in (0, 1, -1, 2):
        got = jnp.linspace(start, stop, 4, axis=axis)
        np.testing.assert_allclose(
            np.asarray(got), np.linspace(start, stop, 4, axis=axis), rtol=1e-6
        )
    z = jnp.linspace(0, 1j, 3)
    np.testing.assert_allclose(np.asarray(z), np.linspace(0, 1j, 3))
    assert jnp.linspace(0, 10, 5, dtype=int).tolist() == [0, 2, 5, 7, 10]
    assert jnp.linspace(jnp.float32(-5), 5, 5, dtype=int).tolist() == [-5, -3, 0, 2, 5]
    assert grad(lambda x: jnp.linspace(0.0, x, 5).sum())(1.0).item() == 2.5
    with pytest.raises(WeftValueError, match="negative"):
        jnp.linspace(0, 1, -1)
    with pytest.raises(WeftTypeError, match="num"):
        jnp.linspace(0, 1, 2.5)


def test_linspace_ends_where_it_should():
    for stop in (0.3, 1e10, 7.7):
        out = jnp.linspace(jnp.float32(0.1), jnp.float32(stop), 37)
        assert out[0] == np.float32(0.1) and out[-1] == np.float32(stop)


def test_other_spacings():
    np.testing.assert_allclose(np.asarray(jnp.logspace(0, 2, 5)), np.logspace(0, 2, 5), rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(jnp.logspace(0, 3, 4, base=2, endpoint=False)),
        np.logspace(0, 3, 4, base=2, endpoint=False),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        np.asarray(jnp.geomspace(1, 1000, 7)), np.geomspace(1, 1000, 7), rtol=1e-6
    )
    np.testing.assert_allclose(
        np.asarray(jnp.geomspace(-1, -16, 5)), np.geomspace(-1, -16, 5), rtol=1e-6
    )
    assert jnp.geomspace(1, 256, 9, dtype=int).tolist() == [2**i for i in range(9)]
    columns = np.array([1.0, 10.0]), np.array([100.0, 1000.0])
    np.testing.assert_allclose(
        np.asarray(jnp.geomspace(*columns, 3, axis=1)), np.geomspace(*columns, 3, axis=1), rtol=1e-6
    )


@pytest.mark.parametrize("k", [-9, -2, -1, 0, 1, 2, 9])
def test_matrices(k):
    for args in ((3,), (2, 4), (4, 2), (0, 3)):
        np.testing.assert_array_equal(np.asarray(jnp.eye(*args, k=k)), np.eye(*args, k=k))
        np.testing.assert_array_equal(np.asarray(jnp.tri(*args, k=k)), np.tri(*args, k=k))
        traced = jit(lambda args=args: (jnp.eye(*args, k=k), jnp.tri(*args, k=k)))()
        np.testing.assert_array_equal(np.asarray(traced[0]), np.eye(*args, k=k))
        np.testing.assert_array_equal(np.asarray(traced[1]), np.tri(*args, k=k))
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(np.asarray(jnp.tril(x, k)), np.tril(x, k))
    np.testing.assert_array_equal(np.asarray(jnp.triu(x, k)), np.triu(x, k))


def test_matrices_of_dtypes():
    assert jnp.identity(2, "int8").tolist() == [[1, 0], [0, 1]]
    assert jnp.tril(jnp.ones((2, 2), bool)).dtype == np.bool_
    assert grad(lambda x: jnp.tril(x).sum())(jnp.ones((2, 2))).tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ShapeError):
        jnp.tril(jnp.ones(3))
    with pytest.raises(WeftValueError, match="negative"):
        jnp.eye(-1)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshgrid(indexing, sparse, count):
    vectors = [np.arange(n + 2, dtype=np.int32) for n in range(count)]
    got = jnp.meshgrid(*vectors, indexing=indexing, sparse=sparse)
    expected = np.meshgrid(*vectors, indexing=indexing, sparse=sparse)
    assert type(got) is list and len(got) == count
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_meshgrid_refuses():
    with pytest.raises(WeftValueError, match="indexing"):
        jnp.meshgrid(jnp.arange(2), indexing="zz")
    with pytest.raises(ShapeError):
        jnp.meshgrid(jnp.ones((2, 2)))
    assert [x.shape for x in jnp.meshgrid(1.0, jnp.arange(3))] == [(3, 1), (3, 1)]


def test_fromfunction():
    got = jnp.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=int)
    np.testing.assert_array_equal(np.asarray(got), np.fromfunction(lambda i, j: i * 10 + j, (2, 3)))


def test_copy_means_what_the_array_api_says():
    x = jnp.arange(3.0)
    address = x.unsafe_buffer_pointer()
    for same in (
        jnp.asarray(x),
        jnp.asarray(x, copy=False),
        jnp.array(x, copy=False),
        jnp.array(x, copy=None),
        jnp.asarray(x, dtype="float32", copy=np.False_),
        jnp.reshape(x, (3,), copy=False),
    ):
        assert same.unsafe_buffer_pointer() == address
    copies = (
        jnp.array(x),
        jnp.asarray(x, copy=True),
        jnp.reshape(x, (3,), copy=True),
        jnp.astype(x, "float32", copy=True),
    )
    for copy in copies:
        assert copy.unsafe_buffer_pointer() != address
        np.testing.assert_array_equal(copy, x)


def test_from_dlpack_copies_only_where_it_may():
    block = np.zeros(128, np.uint8)
    at = -block.ctypes.data % 64
    aligned = block[at : at + 16].view(np.float32)
    assert jnp.from_dlpack(aligned, copy=False).unsafe_buffer_pointer() == aligned.ctypes.data
    unaligned = block[at + 4 : at + 20].view(np.float32)
    read_only = aligned.view()
    read_only.flags.writeable = False
    for array in (unaligned, read_only):
        assert jnp.from_dlpack(array).unsafe_buffer_pointer() != array.ctypes.data
        with pytest.raises(WeftValueError, match="copy=False"):
            jnp.from_dlpack(array, copy=False)


def test_masked_arrays_of_which_nothing_is_masked_are_arrays():
    for mask in (np.ma.nomask, [0, 0, 0]):
        values = np.ma.masked_array(np.arange(3.0), mask)
        np.testing.assert_array_equal(jnp.add(values, 1), [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(jnp.array(values), [0.0, 1.0, 2.0])


MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + MASKED,
        lambda x: MASKED * x,
        lambda x: x == MASKED,
        lambda x: x @ MASKED,
        lambda x: x[MASKED > 1],
        lambda x: x[np.ma.masked_array([0, 1], [0, 1])],
        lambda x: x.at[:].set(MASKED),
        lambda x: jnp.array([MASKED, MASKED]),
        lambda x: jnp.array([1.0, np.ma.masked]),
        lambda x: weft.jit(lambda y: y + 1)(MASKED),
        lambda x: weft.grad(jnp.sum)(MASKED),
        lambda x: weft.vmap(jnp.sin)(MASKED),
        lambda x: weft.device_put(MASKED),
        lambda x: jnp.repeat(x, np.ma.masked_array([1, 2, 1], [0, 1, 0])),
    ],
)
def test_a_mask_is_not_lost(use):
    jnp.add(np.ones(3), jnp.ones(3))  # a plan for arrays of the shape is known
    with pytest.raises(WeftValueError, match="filled"):
        use(jnp.arange(3.0))


def test_full_answers_with_an_array():
    for value in (np.ones(3), np.float64(1), [1, 1, 1]):
        assert type(jnp.full(3, value)) is weft.Array
    assert type(jnp.astype(np.ones(3, np.float32), "float32")) is weft.Array


def test_numbers_too_large_are_infinite_without_a_warning():
    x, wide = jnp.ones(3), np.array([1e300])
    cases = (
        lambda: jnp.full(3, 1e300),
        lambda: jnp.where(x > 0, 1e300, x),
        lambda: jnp.where(x > 0, np.float64(1e300), x),
        lambda: jnp.asarray(wide),
        lambda: jnp.linspace(0, 1e300, 3)[1:],
        lambda: jnp.arange(1e300, 4e300, 1e300),
        lambda: jnp.take(x, jnp.array([9]), fill_value=1e300),
        lambda: jnp.pad(x, 1, constant_values=1e300)[:1],
        lambda: jnp.nan_to_num(jnp.array([jnp.inf]), posinf=1e300),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in cases:
            for found in (case(), weft.jit(case)()):
                assert found.dtype == np.float32 and np.isinf(found).all()


@pytest.mark.parametrize("name", ["start", "stop", "step"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_ranges_that_do_not_end(name, value):
    if name == "step" and np.isinf(value):
        np.testing.assert_array_equal(jnp.arange(0, np.sign(value) * 3, value), [0.0])
        return
    for scalar in (float, jnp.float32):
        with pytest.raises(WeftValueError, match=f"arange: {name} is"):
            jnp.arange(**{"start": 0, "stop": 3, "step": 1, name: scalar(value)})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (jnp, "zeros_like"),
        (jnp, "ones_like"),
        (jnp, "empty_like"),
        (jnp, "full_like"),
        (weft.lax, "full_like"),
    ],
)
def test_arrays_like_another_lie_where_it_does(module, name):
    fill = (2,) if name == "full_like" else ()
    device, other = weft.devices()[-1], weft.devices()[0]
    mesh = weft.make_mesh((2,), ("i",))
    split = weft.sharding.NamedSharding(mesh, weft.sharding.PartitionSpec("i"))
    make = getattr(module, name)
    assert make(weft.device_put(jnp.ones(4), device), *fill).devices() == {device}
    assert make(weft.device_put(jnp.ones(4), split), *fill).sharding == split
    assert not make(jnp.ones(4), *fill).committed
    if module is jnp:
        like = weft.ShapeDtypeStruct((4,), np.float32, sharding=split)
        assert make(like, *fill).sharding == split
        x = weft.device_put(jnp.ones(4), device)
        assert make(x, *fill, device=other).devices() == {other}


@pytest.mark.parametrize(("n", "m", "k"), [(3, 4, 1), (4, 3, -2), (3, 3, 0), (3, 3, 9), (2, 5, -9)])
def test_the_number_of_a_diagonal_may_be_traced(n, m, k):
    x = np.random.default_rng(0).normal(size=(2, n, m)).astype(np.float32)
    for name in ("eye", "tri"):
        want = getattr(np, name)(n, m, k)
        function = getattr(jnp, name)
        np.testing.assert_array_equal(function(n, m, k), want)
        np.testing.assert_array_equal(weft.jit(lambda k, f=function: f(n, m, k))(k), want)
    for name in ("tril", "triu"):
        want = getattr(np, name)(x, k)
        np.testing.assert_array_equal(getattr(jnp, name)(x, k), want)
        np.testing.assert_array_equal(weft.jit(getattr(jnp, name))(x, k), want)


def test_lists_that_hold_themselves_or_are_nested_too_deeply_are_refused():
    cycle, deep = [1.0], 1.0
    cycle.append(cycle)
    for _ in range(3000):
        deep = [deep]
    for value in (cycle, (cycle,), deep, collections.deque([cycle])):
        for function in (jnp.asarray, jnp.array, lambda v: jit(lambda: jnp.array(v))()):
            with pytest.raises(WeftValueError, match="nested too deeply"):
                function(value)
        with pytest.raises(WeftTypeError, match="not a"):
            jnp.sum(value)
