"""Bounds against points: the result at random points of the box, computed in double precision, lies
between the bounds that were computed in single precision; and bounds that are known exactly."""

from __future__ import annotations

import functools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from intervals import Interval, enclose

import weft
import weft.numpy as jnp
from weft import lax, nn

hypothesis.settings.register_profile("quick", deadline=None, max_examples=15, derandomize=True)
hypothesis.settings.load_profile("quick")

rng = np.random.default_rng(2)
M = rng.normal(size=(4, 3)).astype(np.float32)
K = rng.normal(size=(4, 4)).astype(np.float32) / 2


@weft.custom_jvp
def cubed(x):
    return x * x * x


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))


def steps_until_large(x):
    return lax.while_loop(lambda c: jnp.sum(c) < 30, lambda c: c * 1.5 + 1, jnp.abs(x))


UNARY = {
    "neg": lambda x: -x, "abs": jnp.abs, "sign": jnp.sign, "floor": jnp.floor, "ceil": jnp.ceil,
    "round": jnp.round, "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1, "tanh": jnp.tanh,
    "sin": jnp.sin, "cos": jnp.cos, "sin of large": lambda x: jnp.sin(x * 64), "tan": jnp.tan,
    "sinh": jnp.sinh, "cosh": jnp.cosh, "asinh": jnp.arcsinh, "atan": jnp.arctan,
    "log": lambda x: jnp.log(x + 4), "log1p": lambda x: jnp.log1p(x + 3),
    "sqrt": lambda x: jnp.sqrt(x + 3), "rsqrt": lambda x: lax.rsqrt(x + 4), "cbrt": jnp.cbrt,
    "asin": lambda x: jnp.arcsin(x / 4), "acos": lambda x: jnp.arccos(x / 4),
    "atanh": lambda x: jnp.arctanh(x / 4), "acosh": lambda x: jnp.arccosh(x + 5),
    "logistic": nn.sigmoid, "softplus": nn.softplus, "erf": lax.erf, "erfc": lax.erfc,
    "square": jnp.square, "cube": lambda x: x**3, "ninth": lambda x: x**9, "even": lambda x: x**4,
    "reciprocal": lambda x: x**-3, "power": lambda x: (x + 4) ** 1.5,
    "exponent": lambda x: 2.5**x, "of both": lambda x: (jnp.abs(x) + 1) ** x,
    "relu": nn.relu, "clip": lambda x: jnp.clip(x, -1, 0.5),
    "where": lambda x: jnp.where(x > 0.25, x * 3, -x), "to half": lambda x: x.astype("float16"),
    "compared": lambda x: (x < 0.5) | (x >= 1) & ~(x == 0.25), "unequal": lambda x: x != 0.5,
    "finite": jnp.isfinite, "max and min": lambda x: jnp.maximum(x, 0.5) - jnp.minimum(x, x[0]),
    "mul": lambda x: x * x[::-1], "div": lambda x: x / x[::-1], "sub": lambda x: x - x[::-1],
    "div by positive": lambda x: x / (x * x + 1), "add": lambda x: x + x.sum(),
    "logaddexp": lambda x: jnp.logaddexp(x, x[::-1]),
    "sum": jnp.sum, "mean": jnp.mean, "variance": jnp.var, "cumsum": jnp.cumsum, "max": jnp.max,
    "min": lambda x: jnp.min(x.reshape(2, 2), 1), "any": lambda x: jnp.any(x > 1),
    "all": lambda x: jnp.all(x > -1), "cummax": lambda x: lax.cummax(x), "sort": jnp.sort,
    "matmul": lambda x: x @ M, "matmul before": lambda x: K @ x, "quadratic": lambda x: x @ K @ x,
    "outer": lambda x: jnp.outer(x, x), "batched": lambda x: jnp.einsum("ij,ij->i", K * x, K + x),
    "reshape": lambda x: x.reshape(2, 2).T, "index": lambda x: x[jnp.array([2, 0])] * x[1:3],
    "concatenate": lambda x: jnp.concatenate([x[1:], x[:2] * 2, K[0]]),
    "pad": lambda x: jnp.pad(x, 1),
    "stack": lambda x: jnp.stack([x, K[0]]), "split": lambda x: jnp.split(x, 2)[1],
    "roll": lambda x: jnp.roll(x, 1), "update": lambda x: x.at[1:3].set(x[:2] * 2),
    "dynamic": lambda x: lax.dynamic_slice(x, (1,), (2,)), "broadcast": lambda x: x[:, None] + K,
    "softmax": nn.softmax, "norm": lambda x: jnp.sqrt(jnp.sum(x * x)),
    "log1p of exp": lambda x: jnp.log1p(jnp.exp(x)),
    "jit": weft.jit(lambda x: jnp.sin(x) * jnp.exp(x)), "vmap": weft.vmap(lambda y: y * jnp.cos(y)),
    "checkpoint": weft.checkpoint(lambda x: jnp.sin(x) ** 2), "custom derivative": cubed,
    "gradient": weft.grad(lambda x: jnp.sum(jnp.sin(x) * cubed(x))),
    "hessian": lambda x: weft.hessian(lambda x: jnp.sum(jnp.tanh(x)) ** 2)(x),
    "scan": lambda x: lax.scan(lambda c, k: (jnp.tanh(k @ c), c[0]), x, np.stack([K, K.T])),
    "scanned": lambda x: lax.scan(lambda c, y: (c + y * y, c), x[0] * 0, x, reverse=True),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c / 2 + i, x),
    "cond": lambda x: lax.cond(x[0] > 0.25, lambda y: y * 2, lambda y: -y, x),
    "switch": lambda x: lax.switch((x[0] > 0).astype("int32"), [jnp.exp, jnp.sin, jnp.cos], x),
    "certain cond": lambda x: lax.cond(K[0, 0] > 0, jnp.exp, jnp.sin, x),
    "while": steps_until_large,
    "known length": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] / 2),
                                             (0, x))[1],
    "tree": lambda x: {"a": (x * 2, K), "b": x[0]},
}  # fmt: skip
SMOOTH = (
    "exp exp2 expm1 tanh sin cos tan sinh cosh asinh atan log log1p sqrt rsqrt cbrt asin acos "
    "atanh acosh logistic softplus erf erfc square cube reciprocal power logaddexp softmax"
)


def derivative(function):
    return lambda x: weft.jvp(function, (x,), (x,))[1]


UNARY |= {f"derivative of {name}": derivative(UNARY[name]) for name in SMOOTH.split()}


def boxes():
    yield np.array([0.3, -0.7, 1.1, 0.45]), 0.125
    yield np.array([0.3, -0.7, 1.1, 0.45]), 0.0
    yield np.array([1.5, 1.25, 1.1, 2.0]), 0.5
    yield np.array([-1.0, -0.5, 0.25, 0.5]), 1.0


def box(centre, radius):
    return Interval(*(jnp.asarray(centre + s * radius, "float32") for s in (-1, 1)))


@functools.cache
def reference(function):
    return weft.jit(weft.vmap(function))


def contained(found, function, interval, count=60):
    low, high = (np.asarray(x, np.float64) for x in (interval.lower, interval.upper))
    share = rng.random((count, *low.shape))
    share[:2], share[2:12] = np.stack([0 * low, 0 * low + 1]), np.round(share[2:12])
    intervals = weft.tree.leaves(found, is_leaf=lambda x: isinstance(x, Interval))
    with weft.enable_x64():
        results = reference(function)(low + share * (high - low))
    for interval, result in zip(intervals, weft.tree.leaves(results), strict=True):
        values = np.asarray(result).astype(np.float64)
        lower, upper = (np.asarray(x, np.float64) for x in (interval.lower, interval.upper))
        assert lower.shape == values.shape[1:]
        assert np.all(lower <= upper)
        inside = (lower <= values) & (values <= upper) | np.isnan(values)
        assert np.all(inside), (lower, upper, values[~inside.reshape(count, -1).all(1)][:3])


@pytest.mark.parametrize("name", UNARY)
def test_points_of_the_box_map_into_the_bounds(name):
    function = UNARY[name]
    compiled = weft.jit(enclose(function))
    for centre, radius in boxes():
        x = box(centre, radius)
        contained(compiled(x), function, x)


@pytest.mark.parametrize("name", ["sin", "div", "matmul", "scan", "while", "gradient", "tree"])
def test_bounds_are_computed_eagerly_too(name):
    function, x = UNARY[name], box(*next(boxes()))
    found = enclose(function)(x)
    contained(found, function, x)
    compiled = weft.jit(enclose(function))(x)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mul", "sin", "softmax", "matmul", "scan", "cond", "gradient"])
def test_bounds_are_mapped_over_boxes(name):
    many = [box(centre, radius) for centre, radius in boxes()]
    stacked = weft.tree.map(lambda *xs: jnp.stack(xs), *many)
    found = weft.jit(weft.vmap(enclose(UNARY[name])))(stacked)
    for i, x in enumerate(many):
        contained(weft.tree.map(lambda leaf, i=i: leaf[i], found), UNARY[name], x)


STEPS = {
    "sin": jnp.sin, "exp": lambda x: jnp.exp(x / 4), "tanh": jnp.tanh, "mul": lambda x: x * x[::-1],
    "square": lambda x: x**2 / 4, "matmul": lambda x: K @ x, "relu": nn.relu, "abs": jnp.abs,
    "div": lambda x: x / (2 + jnp.cos(x)), "where": lambda x: jnp.where(x > 0.5, x - 1, x + 1),
    "sort": jnp.sort, "cumsum": jnp.cumsum, "scan": lambda x: UNARY["scan"](x)[0],
    "cond": UNARY["cond"], "gradient": UNARY["gradient"],
    "sub": lambda x: x - jnp.mean(x), "jit": UNARY["jit"],
}  # fmt: skip


@hypothesis.given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6),
    st.sampled_from([0.0, 0.001, 0.25]),
    st.lists(st.integers(-16, 16), min_size=4, max_size=4),
)
def test_random_programs(names, radius, centre):
    def function(x):
        for name in names:
            x = STEPS[name](x)
        return x

    x = box(np.array(centre) / 8, radius)
    contained(weft.jit(enclose(function))(x), function, x)


@pytest.mark.parametrize(
    ("function", "low", "high", "wanted"),
    [
        (jnp.sin, 1.0, 2.0, (np.sin(1.0), 1.0)),
        (jnp.sin, 4.0, 5.0, (-1.0, np.sin(4.0))),
        (jnp.cos, -0.5, 0.25, (np.cos(0.5), 1.0)),
        (jnp.square, -2.0, 1.0, (0.0, 4.0)),
        (lambda x: x**3, -2.0, 1.0, (-8.0, 1.0)),
        (lambda x: 1 / x, 0.5, 4.0, (0.25, 2.0)),
        (lambda x: 1 / x, -1.0, 4.0, (-np.inf, np.inf)),
        (lambda x: 1 / x, 0.0, 4.0, (-np.inf, np.inf)),
        (jnp.tan, 1.0, 2.0, (-np.inf, np.inf)),
        (jnp.log, -1.0, 1.0, (-np.inf, 0.0)),
        (jnp.sqrt, -1.0, 4.0, (0.0, 2.0)),
        (jnp.abs, -2.0, 1.0, (0.0, 2.0)),
        (lambda x: lax.while_loop(lambda c: c < 10, lambda c: c + 1, x), 0.5, 2.25, (8.5, np.inf)),
        (lambda x: lax.while_loop(lambda c: c > 1, lambda c: c / 2, x), 3.0, 3.5, (0.75, 0.875)),
    ],
)
def test_bounds_that_are_known(function, low, high, wanted):
    found = enclose(function)(Interval(jnp.float32(low), jnp.float32(high)))
    assert found.lower <= wanted[0] and wanted[1] <= found.upper
    np.testing.assert_allclose([found.lower, found.upper], wanted, rtol=1e-5, atol=1e-6)


def test_a_loop_that_may_go_on_is_bounded_by_widening():
    halve = lambda x: lax.while_loop(lambda c: c > 1, lambda c: c / 2, x)  # noqa: E731
    found = enclose(halve)(Interval(jnp.float32(0.9), jnp.float32(3.0)))
    assert found.lower <= 0.5 and 3.0 <= found.upper < 3.001


def test_one_operation_is_sharp_to_the_rounding():
    x = Interval(jnp.float32(0.1), jnp.float32(0.1))
    found = enclose(lambda x: x + jnp.float32(0.2))(x)
    exact = np.float64(np.float32(0.1)) + np.float64(np.float32(0.2))
    assert found.lower < exact < found.upper
    assert float(found.width) <= 4 * np.spacing(np.float32(0.3))


def test_bounds_have_derivatives():
    def upper(radius):
        x = Interval(jnp.float32(1.0) - radius, jnp.float32(1.0) + radius)
        return enclose(lambda x: jnp.exp(x) * x)(x).upper

    np.testing.assert_allclose(weft.grad(upper)(0.25), np.exp(1.25) * 2.25, rtol=1e-5)


def test_certain_values_pass_through_and_arguments_are_trees():
    found = enclose(lambda tree, k: (tree["x"] * k, k + 1))({"x": box(np.zeros(2), 1.0)}, 3.0)
    assert float(found[1].lower) == float(found[1].upper) == 4.0
    np.testing.assert_allclose(found[0].upper, [3, 3], rtol=1e-6)
