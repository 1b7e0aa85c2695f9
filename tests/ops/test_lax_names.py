"""Names and keywords of `weft.lax` beside its operations: primitives, accuracies, algorithms of
products, what compilers are told, and operands with dimensions of length 1."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.primitive import Primitive
from weft.errors import MissingRuleError, ShapeError, WeftNotImplementedError, WeftValueError
from weft.extend.core import primitives

COLUMN, ROW = np.array([[1.0], [2.0]]), np.array([[3.0, 4.0, 5.0]])


# ---- primitives by name ------------------------------------------------------------------------


def test_primitives_have_the_names_of_jax():
    names = [name for name in dir(lax) if name.endswith("_p")]
    assert len(names) > 140 and all(isinstance(getattr(lax, name), Primitive) for name in names)
    assert lax.add_p is primitives["add"] and lax.while_p is primitives["while"]
    assert lax.regularized_incomplete_beta_p is primitives["regularized_incomplete_beta"]
    assert lax.linalg.cholesky_p is primitives["cholesky"]
    assert float(lax.add_p.bind(1.0, 2.0)) == 3.0
    eqns = weft.make_jaxpr(lambda x: lax.scan(lambda c, _: (c, c), x, None, length=2))(1.0).eqns
    assert eqns[0].primitive is lax.scan_p


def test_a_primitive_without_counterpart_cannot_be_applied():
    with pytest.raises(MissingRuleError):
        lax.stack_p.bind(np.ones(1))
    assert lax.squeeze_p.bind(np.ones((1, 3)), dimensions=(0,)).shape == (3,)
    with pytest.raises(AttributeError, match="ppermute"):
        _ = lax.psend


# ---- dimensions of length 1 ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lax.add, np.add),
        (lax.mul, np.multiply),
        (lax.pow, np.power),
        (lax.atan2, np.arctan2),
        (lax.max, np.maximum),
        (lax.lt, np.less),
        (lax.eq, np.equal),
        (lax.nextafter, lambda x, y: np.nextafter(np.float32(x), np.float32(y))),
        (lax.complex, lambda x, y: x + 1j * y),
    ],
)
def test_dimensions_of_length_one_are_repeated(function, reference):
    for f in (function, weft.jit(function)):
        np.testing.assert_allclose(f(COLUMN, ROW), reference(COLUMN, ROW), rtol=1e-6)


def test_derivatives_of_repeated_operands_are_sums():
    found = weft.grad(lambda x, y: lax.mul(x, y).sum(), (0, 1))(COLUMN, ROW)
    np.testing.assert_allclose(found[0], [[12.0], [12.0]])
    np.testing.assert_allclose(found[1], [[3.0, 3.0, 3.0]])
    mapped = weft.vmap(lax.add, (0, None))(np.stack([COLUMN, COLUMN]), ROW)
    assert mapped.shape == (2, 2, 3)
    assert lax.betainc(jnp.asarray(COLUMN), jnp.asarray(ROW), jnp.full((1, 1), 0.5)).shape == (2, 3)


def test_other_shapes_are_refused():
    for x, y in ((np.ones(3), ROW), (np.ones((3, 3)), np.ones((2, 3)))):
        with pytest.raises(ShapeError, match="one shape"):
            lax.add(x, y)


# ---- keywords ----------------------------------------------------------------------------------


def test_an_accuracy_is_checked():
    wanted = float(lax.exp(1.5))
    for accuracy in (None, lax.AccuracyMode.HIGHEST, lax.Tolerance(1e-5, 1e-5)):
        assert float(lax.exp(1.5, accuracy=accuracy)) == wanted
    for name in "cbrt cos exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split():
        assert float(getattr(lax, name)(0.5, accuracy=lax.Tolerance(ulps=1))) == float(
            getattr(lax, name)(0.5)
        )
        with pytest.raises(WeftValueError, match="accuracy"):
            getattr(lax, name)(0.5, accuracy="best")
    for bounds in ((-1.0,), ()):
        with pytest.raises(WeftValueError, match="bounds"):
            lax.Tolerance(*bounds)


def test_a_product_in_another_dtype():
    big = np.full(2, 100, np.int8)
    assert lax.mul(big, big, out_dtype="int32").tolist() == [10000, 10000]
    assert lax.mul(big, np.ones(2, np.float16), out_dtype="float32").dtype == "float32"
    assert lax.mul(np.ones(2), np.ones(2), out_dtype="float16").dtype == "float16"


def test_products_by_algorithms():
    x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    exact = x.astype(np.float64) @ x
    for preset in ("DEFAULT", "F32_F32_F32", "BF16_BF16_F32_X6", "F64_F64_F64"):
        found = lax.dot(x, x, precision=lax.DotAlgorithmPreset[preset])
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    half = lax.dot(x, x, precision=lax.DotAlgorithm("float16", "float16", "float16"))
    assert 1e-4 < np.abs(np.asarray(half) - exact).max() < 0.1
    text = weft.jit(lambda x: lax.dot(x, x, precision="BF16_BF16_F32_X3")).lower(x).as_text()
    assert "num_primitive_operations = 3" in text


def test_a_loop_unrolled_whole():
    rolled, whole = (
        weft.jit(lambda x, n=n: lax.scan(lambda c, v: (c + v, c), 0.0, x, unroll=n)) for n in (1, 0)
    )
    x = jnp.arange(4.0)
    assert [v.tolist() for v in whole(x)] == [v.tolist() for v in rolled(x)]
    assert "while" in rolled.lower(x).as_text() and "while" not in whole.lower(x).as_text()
    assert float(lax.scan(lambda c, v: (c + v, None), 0.0, x, _split_transpose=True)[0]) == 6.0


# ---- what compilers are told ---------------------------------------------------------------------


def test_a_barrier_stands_in_the_program_and_its_derivative():
    def f(x):
        return lax.optimization_barrier({"a": lax.sin(x), "n": 3})["a"] + lax.sin(x)

    assert "optimization_barrier" in weft.jit(f).lower(1.0).as_text()
    np.testing.assert_allclose(weft.grad(f)(1.0), 2 * np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(weft.grad(f))(jnp.ones(2)), 2 * np.cos(np.ones(2)),
                               rtol=1e-6)  # fmt: skip
    assert lax.optimization_barrier([]) == []


def test_what_sinks_is_computed():
    def f(x, **options):
        lax.dce_sink([lax.cos(x)], **options)
        return x * x

    names = [eqn.primitive.name for eqn in weft.make_jaxpr(f)(2.0).eqns]
    assert names == ["cos", "dce_sink", "mul"]
    assert float(weft.grad(f)(2.0)) == 4.0 and weft.vmap(f)(jnp.ones(2)).tolist() == [1.0, 1.0]
    text = weft.jit(lambda x: f(x, prevent_mlir_dce=True)).lower(2.0).as_text()
    assert "dce_sink" in text and "has_side_effect = true" in text
    assert float(weft.jit(lambda x: f(x, prevent_mlir_dce=True))(2.0)) == 4.0


# ---- shapes, dtypes and listed positions ---------------------------------------------------------


def test_shapes_of_windows():
    # What JAX 0.10.2 gives for these.
    assert lax.conv_general_shape_tuple(
        (2, 8, 9, 3), (3, 2, 3, 4), (2, 3), ((1, 0), (0, 2)), ("NHWC", "HWIO", "NCHW")
    ) == (2, 4, 4, 4)
    assert lax.conv_transpose_shape_tuple(
        (1, 8, 9, 3), (3, 2, 3, 4), (2, 3), "VALID", ("NHWC", "HWIO", "NHWC")
    ) == (1, 17, 27, 4)
    window = ((8, 9), (2, 3), (2, 1), ((0, 1), (2, 0)), (1, 2), (2, 1))
    assert lax.reduce_window_shape_tuple(*window) == (4, 17)


def test_values_as_arrays():
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3] and lax.shape_as_value(()).shape == (0,)
    assert [lax.dtype(x).name for x in (1, 1.0, True, np.int8(3), "ab" > "b", np.uint8)] == [
        "int32", "float32", "bool", "int8", "bool", "uint8"
    ]  # fmt: skip
    assert lax.dtype(np.dtype("int8")) == lax.dtype("int8") == np.int8
    assert lax.stage(2.0).weak_type and isinstance(lax.stage(2.0), weft.Array)


def test_a_function_is_applied_as_often_as_its_position_is_listed():
    cells = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, places = np.arange(4.0), np.array([[1], [1], [7], [3]])

    def apply(x, **options):
        return lax.scatter_apply(
            x, places, lambda v: 10 * v + 1, cells, update_shape=(4,), **options
        )

    assert apply(x).tolist() == weft.jit(apply)(x).tolist() == [0.0, 111.0, 2.0, 31.0]
    assert apply(x, mode="clip").tolist() == [0.0, 111.0, 2.0, 311.0]
    np.testing.assert_allclose(weft.grad(lambda x: apply(x).sum())(x), [1.0, 100.0, 1.0, 10.0])
    assert weft.vmap(apply)(np.stack([x, x])).shape == (2, 4)
    with pytest.raises(ShapeError):
        lax.scatter_apply(x, places, lambda v: v, cells)


def test_collectives_with_a_source_or_a_type():
    x = jnp.arange(3.0)
    found = weft.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(x)
    assert found.tolist() == [1.0, 1.0, 1.0]
    mesh = weft.make_mesh((3,), ("i",), devices=weft.devices()[:3])
    whole = weft.shard_map(
        lambda x: lax.all_gather(x, "i", tiled=True, to="invarying"),
        mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P(),
    )  # fmt: skip
    assert whole(x).tolist() == x.tolist()
    sent = weft.shard_map(
        lambda x: lax.pbroadcast(x, "i", 2), mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i")
    )
    assert sent(x).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(WeftValueError, match="to"):
        weft.vmap(lambda x: lax.all_gather(x, "i", to="nowhere"), axis_name="i")(x)


def test_groups_are_all_computed():
    with pytest.raises(WeftNotImplementedError, match="group_offset"):
        lax.ragged_dot(np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1, int), group_offset=[0])
