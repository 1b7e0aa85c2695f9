"""Inverses against the function itself and against NumPy; log-determinants against the determinant
of a Jacobian that is taken by finite differences in double precision."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from inversion import NotInvertibleError, inverse, inverse_and_log_det, log_density

import weft
import weft.numpy as jnp
from weft import lax, nn

hypothesis.settings.register_profile("quick", deadline=None, max_examples=12, derandomize=True)
hypothesis.settings.load_profile("quick")

rng = np.random.default_rng(1)
A = rng.normal(size=(4, 4)) + 3 * np.eye(4)
B = rng.normal(size=(3, 2, 2)) + 2 * np.eye(2)
K = A[0] ** 2 + 1
W1, W2 = rng.normal(size=(2, 5)), rng.normal(size=(5, 2))


@pytest.fixture(autouse=True)
def double_precision():
    with weft.enable_x64():
        yield


def coupling(x):
    left, right = x[:2], x[2:]
    hidden = jnp.tanh(left @ W1) @ W2
    return jnp.concatenate([right * jnp.exp(jnp.tanh(hidden)) + hidden, left])


@weft.jit
def jitted_coupling(x):
    return coupling(x)


@weft.custom_jvp
def doubled(x):
    return x * 2


doubled.defjvp(lambda primals, tangents: (doubled(*primals), tangents[0] * 2))


def by_parts(x):
    first = jnp.exp(x[:1])
    second = x[1:3] * first
    third = x[3] + jnp.sum(jnp.sin(second))
    return jnp.concatenate([third[None], first, second])


FUNCTIONS = {
    "affine": lambda x: 3 * x - 1,
    "reversed operands": lambda x: 2 / (5 - x),
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "tanh": jnp.tanh,
    "sinh": jnp.sinh,
    "arcsinh": jnp.arcsinh,
    "arctan": jnp.arctan,
    "log": lambda x: jnp.log(x + 4),
    "log1p": lambda x: jnp.log1p(x + 3),
    "sqrt": lambda x: jnp.sqrt(x + 4),
    "cbrt": jnp.cbrt,
    "softplus": nn.softplus,
    "sigmoid": nn.sigmoid,
    "erf": lax.erf,
    "cube": lambda x: x**3,
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: (x + 4) ** 1.7,
    "exponent": lambda x: 2.5**x,
    "chain": lambda x: jnp.tanh(jnp.exp(0.3 * x) - 1) * 2,
    "matmul": lambda x: A @ x,
    "matmul from the right": lambda x: x @ A + 1,
    "several columns": lambda x: (A[:2, :2] @ x.reshape(2, 2)).ravel(),
    "batched": lambda x: jnp.einsum("bij,bjk->bik", B[:2], x.reshape(2, 2, 1)).ravel(),
    "cumsum": lambda x: jnp.cumsum(x),
    "reverse cumsum": lambda x: jnp.cumsum(x[::-1])[::-1],
    "rows": lambda x: jnp.cumsum(x.reshape(2, 2), axis=1),
    "permutation": lambda x: jnp.roll(x, 1)[::-1],
    "transpose": lambda x: x.reshape(2, 2).T,
    "split": lambda x: jnp.concatenate([y * k for k, y in enumerate(jnp.split(x, 4), 2)]),
    "stack": lambda x: jnp.stack([x[1], x[0] * 2, x[3], x[2]]),
    "strides": lambda x: jnp.concatenate([x[::2] * 3, x[1::2] + x[::2]]),
    "coupling": coupling,
    "jitted coupling": lambda x: jitted_coupling(jitted_coupling(x)),
    "by parts": by_parts,
    "custom derivative": lambda x: doubled(jnp.exp(x)),
    "checkpoint": lambda x: weft.checkpoint(coupling)(x) * 2,
    "counted loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * (i + 1.0) + i, x),
    "flow in a loop": lambda x: lax.scan(lambda c, w: (coupling(c) * w, None), x, K)[0],
    "scanned elements": lambda x: lax.scan(lambda c, y: (c, jnp.exp(y) * c), 2.0, x)[1],
    "reverse loop": lambda x: lax.scan(lambda c, w: (jnp.sinh(c) + w, None), x, A[0],
                                       reverse=True)[0],
    "cond": lambda x: lax.cond(A[0, 0] > 0, lambda y: jnp.exp(y), lambda y: y * 2, x),
    "switch": lambda x: lax.switch(1, [jnp.exp, coupling, jnp.tanh], x),
}  # fmt: skip
X = np.array([0.3, -0.7, 1.1, 0.45])


def jacobian_by_differences(function, x, step=1e-6):
    columns = []
    for e in np.eye(x.size):
        ahead, behind = (np.ravel(function(jnp.asarray(x + s * step * e))) for s in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_inverse_and_its_determinant(name):
    function = FUNCTIONS[name]
    x = jnp.asarray(X)
    y = function(x)
    for both in (inverse_and_log_det(function, x), weft.jit(inverse_and_log_det(function, x))):
        found, log_det = both(y)
        np.testing.assert_allclose(found, X, rtol=1e-9, atol=1e-9)
        sign, wanted = np.linalg.slogdet(jacobian_by_differences(function, X))
        np.testing.assert_allclose(log_det, -wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["chain", "coupling", "matmul", "flow in a loop", "by parts"])
def test_the_inverse_is_transformed_as_any_function(name):
    function = FUNCTIONS[name]
    both = inverse_and_log_det(function)
    points = np.stack([X, X / 2, -X])
    ys = weft.vmap(function)(points)
    xs, log_dets = weft.jit(weft.vmap(both))(ys)
    np.testing.assert_allclose(xs, points, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_dets, [both(y)[1] for y in ys], rtol=1e-9, atol=1e-12)
    of_inverse = weft.jacobian(inverse(function))(ys[0])
    np.testing.assert_allclose(
        of_inverse, np.linalg.inv(jacobian_by_differences(function, X)), rtol=1e-6, atol=1e-7
    )
    gradient = weft.jit(weft.grad(lambda y: both(y)[1]))(ys[0])
    wanted = jacobian_by_differences(lambda y: both(y)[1], np.asarray(ys[0]))[0]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_the_inverse_of_a_transformed_function_and_of_the_inverse():
    y = weft.vmap(coupling)(np.stack([X, -X]))
    np.testing.assert_allclose(inverse(weft.vmap(coupling))(y), np.stack([X, -X]), atol=1e-10)
    twice = inverse(inverse(FUNCTIONS["chain"]))
    np.testing.assert_allclose(twice(X / 4), FUNCTIONS["chain"](X / 4), rtol=1e-10)


def test_parameters_are_differentiated():
    y = jnp.asarray(X)

    def density(scale):
        return inverse_and_log_det(lambda x: jnp.sinh(x * scale["a"]) + scale["b"])(y)[1]

    scale = {"a": jnp.float64(1.3), "b": jnp.float64(0.2)}
    found = weft.grad(density)(scale)
    for name in scale:
        moved = [density(scale | {name: scale[name] + h}) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(found[name], (moved[0] - moved[1]) / 2e-6, rtol=1e-6)


def test_trees():
    def function(tree):
        return {"p": (tree["a"] * 2, jnp.exp(tree["b"]) + tree["a"][0]), "q": tree["a"].T * 0 + 1}

    like = {"a": jnp.ones(2), "b": jnp.ones(())}
    with pytest.raises(NotInvertibleError, match="3 numbers to 5"):
        inverse(function, like)(function(like))
    keep = inverse_and_log_det(lambda t: function(t)["p"], like)
    found, log_det = keep((jnp.array([2.0, 6.0]), jnp.array(8.0)))
    assert found["a"].tolist() == [1.0, 3.0]
    np.testing.assert_allclose(found["b"], np.log(7))
    np.testing.assert_allclose(log_det, -2 * np.log(2) - np.log(7))


STEPS = {
    "scale": lambda x: x * -1.5,
    "shift": lambda x: x + 0.25,
    "sinh": jnp.sinh,
    "arcsinh": jnp.arcsinh,
    "cbrt of affine": lambda x: jnp.arctan(x) * 2,
    "matmul": lambda x: (A / 4) @ x,
    "roll": lambda x: jnp.roll(x, 1),
    "coupling": coupling,
    "cumsum": jnp.cumsum,
    "softplus": lambda x: nn.softplus(x) - 1,
    "jit": weft.jit(lambda x: jnp.tanh(x / 4) * 4),
    "reverse": lambda x: x[::-1],
}


@hypothesis.given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6))
def test_random_chains(names):
    def function(x):
        for name in names:
            x = STEPS[name](x)
        return x

    y = function(jnp.asarray(X))
    found, log_det = weft.jit(inverse_and_log_det(function))(y)
    hypothesis.assume(bool(jnp.all(jnp.abs(y) < 1e3)))
    jacobian = jacobian_by_differences(function, X, 1e-5)
    hypothesis.assume(np.linalg.cond(jacobian) < 1e5)
    np.testing.assert_allclose(found, X, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(jacobian)[1], rtol=1e-3, atol=1e-3)


def test_densities():
    stats = pytest.importorskip("scipy.stats", reason="SciPy has the reference density")

    def normal(x):
        return jnp.sum(-0.5 * x**2 - 0.5 * np.log(2 * np.pi))

    found = weft.vmap(log_density(lambda x: jnp.exp(0.5 * x + 0.2), normal))(np.linspace(0.1, 4, 9))
    wanted = stats.lognorm.logpdf(np.linspace(0.1, 4, 9), 0.5, scale=np.exp(0.2))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "operation", "message"),
    [
        (jnp.sin, "sin", "it has no rule"),
        (lambda x: x * x, "mul", "2 of its operands depend on the input"),
        (lambda x: jnp.square(x), "square", "the same value at x and at -x"),
        (lambda x: x**4, "integer_pow", "the same value at x and at -x"),
        (lambda x: x + jnp.tanh(x), "add", "2 of its operands depend on the input"),
        (lambda x: jnp.exp(jnp.floor(x)), "floor", "it has no rule"),
        (weft.jit(lambda x: jnp.exp(jnp.abs(x))), "abs", "the same value"),
        (lambda x: lax.scan(lambda c, _: (jnp.cos(c), None), x, None, 2)[0], "cos", "same value"),
        (lambda x: jnp.concatenate([x[:2], x[:2]]), "inverse", "do not determine the input"),
        (lambda x: lax.cond(x[0] > 0, lambda y: y, jnp.exp, x), "cond", "which branch"),
    ],
)
def test_an_operation_without_inverse_is_named(function, operation, message):
    with pytest.raises(NotInvertibleError, match=message) as info:
        inverse(function)(jnp.asarray(X))
    assert info.value.operation == operation
    assert info.value.fix.kind in ("register_inverse", "return_all")
    if operation != "inverse":
        assert "test_inverse.py" in str(info.value)


def test_the_value_must_be_one_of_the_function():
    with pytest.raises(NotInvertibleError, match="structure and types") as info:
        inverse(lambda x: x.reshape(2, 2))(jnp.ones(4))
    assert info.value.fix.kind == "like"
    fixed = inverse(lambda x: x.reshape(2, 2), like=jnp.ones(4))
    assert fixed(jnp.ones((2, 2))).shape == (4,)
