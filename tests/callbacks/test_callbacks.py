"""Callbacks: what they compute, promise and refuse, batched and differentiated."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from callback_cases import SCALAR, Log, Struct
from ways import WAYS, WAYS_AND_TWICE
from weft import errors
from weft.callbacks.primitives import io_callback, pure_callback
from weft.experimental import io_callback as experimental_io_callback
from weft.lowering.module import lower_to_module

pytestmark = pytest.mark.fast


def sine(x, **how):
    return pure_callback(np.sin, Struct(x.shape, x.dtype), x, **how)


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_a_callback_computes(way):
    x = wnp.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(way(sine)(x), np.sin(np.asarray(x)), rtol=1e-6)


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_trees_and_keywords_go_in_and_out(way):
    def host(pair, *, scale):
        a, b = pair["a"], pair["b"]
        assert type(a) is type(b) is type(scale) is np.ndarray
        return {"sum": a + b, "parts": (a * scale, None, b.astype(np.int32))}

    def f(a, b):
        struct = {
            "sum": Struct((3,), np.float32),
            "parts": (Struct((3,), np.float32), None, Struct((3,), np.int32)),
        }
        return pure_callback(host, struct, {"a": a, "b": b}, scale=2.0)

    out = way(f)(wnp.arange(3.0), wnp.ones(3))
    np.testing.assert_array_equal(out["sum"], [1, 2, 3])
    np.testing.assert_array_equal(out["parts"][0], [0, 2, 4])
    assert out["parts"][1] is None and out["parts"][2].dtype == np.int32


DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_dtype_goes_in_and_out(dtype, shape, way):
    values = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype).reshape(shape)
    x = weft.numpy.asarray(values, dtype=dtype)
    seen = []

    def host(v):
        seen.append((v.dtype, v.shape, v.tolist()))
        return v

    out = way(lambda x: pure_callback(host, Struct(shape, dtype), x))(x)
    assert seen == [(values.dtype, shape, values.tolist())]
    assert out.dtype == dtype and out.shape == shape
    np.testing.assert_array_equal(np.asarray(out), values)


@pytest.mark.parametrize("way", WAYS)
def test_random_keys_stay_keys(way):
    keys = weft.random.split(weft.random.key(7), 3)

    def host(ks):
        assert ks.dtype == keys.dtype
        return ks[::-1], weft.random.uniform(ks[0], (2,))

    struct = Struct((3,), keys.dtype), Struct((2,), np.float32)
    reverse, drawn = way(lambda ks: pure_callback(host, struct, ks))(keys)
    np.testing.assert_array_equal(
        weft.random.key_data(reverse), np.asarray(weft.random.key_data(keys))[::-1]
    )
    np.testing.assert_array_equal(drawn, weft.random.uniform(keys[0], (2,)))


@pytest.mark.parametrize("way", WAYS)
def test_float0_has_a_shape_only(way):
    nothing = np.zeros(3, weft.float0)

    def host(a, z):
        assert z.dtype == weft.float0 and z.shape == (3,)
        return a + 1, z[:2]

    def f(x):
        out, z = pure_callback(host, (SCALAR, Struct((2,), weft.float0)), x, nothing)
        assert z.dtype == weft.float0 and z.shape == (2,)
        return out

    assert float(way(f)(1.0)) == 2.0


@pytest.mark.parametrize("way", WAYS)
def test_numbers_and_64_bit_results_yield_to_the_promise(way):
    for value in (2, 2.5, np.float64(2.5), np.ones((), np.float64), wnp.float32(1.5)):
        out = way(lambda x, value=value: pure_callback(lambda v: value, SCALAR, x))(0.0)
        assert out.dtype == np.float32 and float(out) == float(value)
    with weft.enable_x64():
        out = way(lambda x: pure_callback(np.sin, Struct((), np.float64), x))(0.5)
        assert out.dtype == np.float64
        np.testing.assert_allclose(float(out), np.sin(0.5), rtol=1e-15)


def test_results_in_any_memory_layout():
    def f(x):
        return pure_callback(lambda v: v.T[::-1], Struct((3, 2), np.float32), x)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(weft.jit(f)(x), x.T[::-1])
    swapped = x.astype(">f4")
    out = weft.jit(lambda x: pure_callback(lambda v: swapped, Struct((2, 3), np.float32), x))(x)
    np.testing.assert_array_equal(out, x)


def test_no_arguments_and_no_results():
    seen = []

    @weft.jit
    def f():
        io_callback(lambda: seen.append("a"), None)
        return io_callback(lambda: 3.0, SCALAR)

    assert float(f()) == 3.0 and seen == ["a"]
    weft.jit(lambda: io_callback(lambda: seen.append("b"), None))()
    assert seen == ["a", "b"]


@pytest.mark.parametrize("way", WAYS)
def test_on_another_device(way):
    device = weft.devices()[3]
    x = weft.device_put(wnp.arange(3.0), device)
    out = way(sine)(x)
    assert out.device == device
    np.testing.assert_allclose(out, np.sin(np.arange(3.0)), rtol=1e-6)


def test_the_facade_shows_the_same_function():
    assert experimental_io_callback is io_callback


# ---- what is promised ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "host", "match"),
    [
        (errors.ShapeError, lambda v: {"a": np.zeros(2, np.float32)}, r"result\['a'\].*shape"),
        (errors.DTypeError, lambda v: {"a": np.zeros(3, np.int32)}, r"result\['a'\].*dtype"),
        (errors.DTypeError, lambda v: {"a": np.zeros(3, np.float16)}, r"result\['a'\].*dtype"),
        (errors.TreeError, lambda v: {"b": np.zeros(3, np.float32)}, "structure"),
        (errors.TreeError, lambda v: None, "structure"),
        (errors.WeftTypeError, lambda v: {"a": "text"}, r"result\['a'\] is no array"),
    ],
)
def test_a_result_that_was_not_promised(way, kind, host, match):
    def f(x):
        return pure_callback(host, {"a": Struct((3,), np.float32)}, x)

    with pytest.raises(kind, match=match) as caught:
        way(f)(wnp.ones(3))
    assert "pure_callback of <lambda>" in str(caught.value)
    assert "test_callbacks.py" in caught.value.location


def test_the_fix_of_a_wrong_result_works():
    def call(host):
        return weft.jit(lambda x: pure_callback(host, (Struct((2,), np.float32),), x))(1.0)

    with pytest.raises(errors.ShapeError) as caught:
        call(lambda v: (np.zeros(5),))
    wanted = caught.value.fix.data
    (out,) = call(lambda v: (np.full(wanted["shape"], 2.0, wanted["dtype"]),))
    np.testing.assert_array_equal(out, [2, 2])


def test_integers_that_do_not_fit():
    with pytest.raises(errors.DTypeError, match="do not fit"):
        pure_callback(lambda: np.int64(2**40), Struct((), np.int32))
    with pytest.raises(errors.DTypeError, match="do not fit"):
        pure_callback(lambda: -1, Struct((), np.uint32))


def test_bad_arguments():
    with pytest.raises(errors.WeftTypeError, match="no shape and dtype") as caught:
        pure_callback(np.sin, {"a": 1.0}, 1.0)
    assert "['a']" in str(caught.value)
    with pytest.raises(errors.WeftTypeError, match=r"argument 0\['x'\] is no array"):
        pure_callback(np.sin, SCALAR, {"x": "text"})
    with pytest.raises(errors.WeftTypeError, match="key is no array"):
        pure_callback(np.sin, SCALAR, key=object())
    with pytest.raises(errors.WeftTypeError, match="takes a function"):
        io_callback(3, SCALAR)
    with pytest.raises(errors.WeftNotImplementedError, match="device"):
        io_callback(np.sin, SCALAR, 1.0, sharding=object())
    with pytest.raises(errors.WeftValueError, match="vmap_method") as unknown:
        pure_callback(np.sin, SCALAR, 1.0, vmap_method="nonsense")
    assert float(pure_callback(np.sin, SCALAR, 0.0, **unknown.value.fix.data)) == 0.0


def test_a_platform_without_callbacks():
    jaxpr = weft.make_jaxpr(lambda x: pure_callback(np.sin, SCALAR, x))(1.0).jaxpr
    with pytest.raises(errors.WeftNotImplementedError, match="rocm"):
        lower_to_module(jaxpr, "f", "rocm")


def test_a_reduction_cannot_call_back():
    def f(x):
        return weft.lax.reduce(
            x, 0.0, lambda a, b: a + pure_callback(np.sin, SCALAR, b), dimensions=(0,)
        )

    with pytest.raises(errors.WeftNotImplementedError, match="combines elements"):
        weft.jit(f)(wnp.ones(4))


# ---- vmap of pure callbacks ----------------------------------------------------------------------

METHODS = {
    "sequential": [((), ())] * 3,
    "sequential_unrolled": [((), ())] * 3,
    "expand_dims": [((3,), (1,))],
    "broadcast_all": [((3,), (3,))],
    "legacy_vectorized": [((3,), ())],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_vmap_methods(method, way):
    shapes = []

    def host(x, y):
        shapes.append((x.shape, y.shape))
        return x + y

    def f(x, y):
        return pure_callback(host, SCALAR, x, y, vmap_method=method)

    out = way(weft.vmap(f, in_axes=(0, None)))(wnp.arange(3.0), 1.0)
    np.testing.assert_array_equal(out, [1, 2, 3])
    assert shapes == METHODS[method]


@pytest.mark.parametrize("method", [m for m in METHODS if m != "legacy_vectorized"])
def test_nested_vmap(method):
    def f(x, y):
        return pure_callback(lambda x, y: (x * y).sum(-1), SCALAR, x, y, vmap_method=method)

    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = np.arange(8, dtype=np.float32).reshape(2, 4)
    rows = weft.vmap(f, in_axes=(0, None))
    np.testing.assert_allclose(weft.vmap(rows)(x, y), np.einsum("ijk,ik->ij", x, y))
    # A mapped axis that is not the first one, on the inside and on the outside.
    columns = weft.vmap(rows, in_axes=(None, 1))
    np.testing.assert_allclose(weft.jit(columns)(x[0], y.T), np.einsum("jk,ik->ij", x[0], y))
    last = weft.vmap(f, in_axes=(1, None), out_axes=0)
    np.testing.assert_allclose(last(x[0].T, y[1]), x[0] @ y[1])


@pytest.mark.parametrize("size", [0, 1])
def test_vmap_over_few_elements(size):
    for method in METHODS:
        out = weft.vmap(lambda x, m=method: sine(x, vmap_method=m))(wnp.ones((size, 2)))
        np.testing.assert_allclose(out, np.full((size, 2), np.sin(1.0)), rtol=1e-6)


def test_vmap_without_a_method():
    def run(**how):
        return weft.vmap(lambda x: pure_callback(np.sin, SCALAR, x, **how))(wnp.arange(3.0))

    with pytest.raises(errors.WeftNotImplementedError, match="vmap of pure_callback") as caught:
        run()
    out = run(**caught.value.fix.data)
    np.testing.assert_allclose(out, np.sin(np.arange(3.0)), rtol=1e-6)


def test_vmap_of_keys_and_several_results():
    keys = weft.random.split(weft.random.key(1), 4)

    def host(k, x):
        return k, np.float32(x + 1), np.asarray([x, x], np.float32)

    struct = Struct((), keys.dtype), SCALAR, Struct((2,), np.float32)
    call = weft.vmap(lambda k, x: io_callback(host, struct, k, x))
    out, y, z = weft.jit(call)(keys, wnp.arange(4.0))
    np.testing.assert_array_equal(weft.random.key_data(out), weft.random.key_data(keys))
    np.testing.assert_array_equal(y, np.arange(4) + 1)
    np.testing.assert_array_equal(z, np.arange(4)[:, None] * np.ones(2))


# ---- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [pure_callback, io_callback])
@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_no_derivative(call, way):
    def f(x):
        return way(lambda x: call(np.sin, SCALAR, x))(x)

    with pytest.raises(errors.WeftValueError, match="no derivative") as caught:
        weft.grad(f)(1.0)
    assert caught.value.fix.kind == "custom_derivative"
    with pytest.raises(errors.WeftValueError, match="no derivative"):
        weft.jvp(f, (1.0,), (1.0,))
    assert float(weft.grad(lambda x: f(weft.lax.stop_gradient(x)) * x)(1.0)) == pytest.approx(
        np.sin(1.0), rel=1e-6
    )


def test_no_transpose():
    with pytest.raises(errors.WeftValueError, match="no derivative"):
        weft.linear_transpose(lambda x: pure_callback(np.negative, SCALAR, x), 1.0)(1.0)


def test_results_that_are_integers_need_no_derivative():
    def f(x):
        i = pure_callback(lambda v: np.int32(np.floor(v)), Struct((), np.int32), x)
        io_callback(lambda v: None, None, x)
        return x * i

    for way in (lambda f: f, weft.jit):
        assert float(way(weft.grad(f))(2.5)) == 2.0
        assert float(way(lambda x: weft.jvp(f, (x,), (1.0,))[1])(2.5)) == 2.0


@pytest.mark.parametrize("way", WAYS)
def test_a_custom_derivative(way):
    @weft.custom_jvp
    def f(x):
        return sine(x, vmap_method="expand_dims")

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), t * pure_callback(np.cos, SCALAR, x, vmap_method="expand_dims")

    assert float(way(weft.grad(f))(0.5)) == pytest.approx(np.cos(0.5), rel=1e-6)
    out = way(weft.vmap(weft.grad(f)))(wnp.arange(3.0))
    np.testing.assert_allclose(out, np.cos(np.arange(3.0)), rtol=1e-6)


def test_watching_changes_no_derivative():
    log = Log()

    def f(x):
        log.note("f", x)
        return x * x * x

    for way in (lambda f: f, weft.jit):
        assert float(way(weft.grad(f))(2.0)) == 12.0
        assert log.take() == [("f", 2.0)]
        assert float(way(lambda x: weft.jvp(f, (x,), (1.0,))[1])(2.0)) == 12.0
        assert log.take() == [("f", 2.0)]
        assert float(way(weft.grad(weft.grad(f)))(2.0)) == 12.0
        assert log.take() == [("f", 2.0)]
        assert float(way(weft.grad(lambda x: weft.jit(f)(x)))(2.0)) == 12.0
        assert log.take() == [("f", 2.0)]
        np.testing.assert_allclose(
            way(weft.hessian(lambda x: f(x).sum()))(wnp.ones(2)), 6 * np.eye(2)
        )
        log.take()
        pull = weft.vjp(f, 2.0)[1]
        assert log.take() == [("f", 2.0)]
        assert float(pull(1.0)[0]) == float(pull(1.0)[0]) == 12.0
        assert not log.take()


def test_nothing_is_printed_in_a_transposition():
    log = Log()

    def linear(x):
        log.note("linear", x)
        return 3.0 * x

    assert float(weft.linear_transpose(linear, 1.0)(2.0)[0]) == 6.0
    assert not log.take()


def test_callbacks_in_a_shard_map_over_one_device():
    mesh = weft.make_mesh((1,), ("i",))
    got = []

    def f(x):
        weft.experimental.io_callback(lambda x: got.append(x.sum()), None, x, ordered=True)
        return weft.lax.psum(x, "i")

    spec = weft.sharding.PartitionSpec("i")
    out = weft.sharding.PartitionSpec()
    mapped = weft.jit(weft.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out))
    assert mapped(wnp.arange(3)).tolist() == [0, 1, 2]
    weft.effects_barrier()
    assert got == [3]


@pytest.mark.parametrize("nothing", [None, (), [], {}], ids=str)
@pytest.mark.parametrize("call", [weft.io_callback, weft.pure_callback])
def test_a_function_that_returns_nothing_where_no_array_was_promised(call, nothing):
    seen = []
    result = weft.jit(lambda x: (call(seen.append, nothing, x), x)[0])(1.0)
    weft.effects_barrier()
    assert result == nothing and len(seen) == (call is weft.io_callback)
    assert call(lambda x: None, nothing, 1.0) == nothing
