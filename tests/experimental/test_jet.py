"""jet: derivatives of all orders along a curve, beside nested jvp in double precision."""

from __future__ import annotations

from functools import partial
from math import factorial

import numpy as np
import pytest

import weft
import weft.numpy as jnp
import weft.scipy.special as special
from weft import P, lax, nn
from weft.errors import DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.experimental.jet import jet, jet2

ORDER = 4


pytestmark = pytest.mark.usefixtures("x64")


def matrix(x):
    return jnp.eye(2) * (2.0 + x) + x * x * jnp.ones((2, 2))


def three(x):
    return jnp.array([x, x * x, 1.0 + x])


@weft.custom_jvp
def with_rule(x):
    return jnp.where(x > 10, x, jnp.log1p(jnp.exp(x)))


with_rule.defjvps(lambda t, y, x: t * lax.logistic(x))


@weft.custom_vjp
def with_backward(x):
    return jnp.sin(x) * x


with_backward.defvjp(lambda x: (jnp.sin(x) * x, x), lambda x, ct: (ct,))

# Several functions together: the sum is one program.
FUNCTIONS = {
    "exponential": lambda x: jnp.exp(x) + jnp.exp2(x) + jnp.expm1(2 * x) + 2.0**x,
    "logarithm": lambda x: jnp.log(x) + jnp.log1p(x) + jnp.log2(x) + jnp.log10(x),
    "circular": lambda x: jnp.sin(x) * jnp.cos(2 * x) + jnp.tan(x),
    "inverse circular": lambda x: jnp.arcsin(x) + jnp.arccos(x * x) + jnp.arctan(3 * x),
    "hyperbolic": lambda x: jnp.sinh(x) * jnp.cosh(x) + jnp.tanh(x) + lax.logistic(x),
    "inverse hyperbolic": lambda x: jnp.arcsinh(x) + jnp.arccosh(1 + x) + jnp.arctanh(x),
    "powers": lambda x: x**3 + x**-2 + x**2.5 + x**x + jnp.square(x) + x**0,
    "roots": lambda x: jnp.sqrt(x) + lax.rsqrt(x) + jnp.cbrt(x),
    "quotients": lambda x: jnp.sin(x) / (1 + x * x) + 1 / x + (3 * x) % 0.7,
    "choices": lambda x: abs(-x) * x + jnp.maximum(x * x, 0.1) * x + jnp.clip(x, 0.0, 1.0) * x,
    "two operands": lambda x: jnp.arctan2(x, 1 + x) + jnp.hypot(x, 2.0) + jnp.logaddexp(x, 2 * x),
    "error functions": lambda x: special.erf(x) + special.erfc(x) + special.erfinv(x),
    "gamma functions": lambda x: special.gammaln(x) + special.digamma(x),
    "networks": lambda x: nn.softplus(x) + nn.gelu(x) + nn.silu(x) + nn.softmax(three(x))[0],
    "products": lambda x: (matrix(x) @ jnp.array([x, 1.0])).sum() + jnp.prod(three(x)),
    "solve": lambda x: jnp.linalg.solve(matrix(x), jnp.array([x, 1.0]))[0],
    "factorizations": lambda x: jnp.linalg.cholesky(matrix(x))[1, 0] + jnp.linalg.det(matrix(x)),
    "eigh": lambda x: jnp.linalg.eigh(jnp.array([[x, 0.3], [0.3, 2.0]]))[0][0],
    "order": lambda x: jnp.sort(three(x))[1] + jnp.max(three(x)),
    "cumulative": lambda x: jnp.cumsum(three(x))[1] + jnp.cumprod(three(x))[2],
    "indices": lambda x: (
        three(x)[jnp.array([1, 0])].sum() + jnp.zeros(3).at[1].add(x * x).at[0].set(x**3).sum()
    ),
    "fft": lambda x: abs(jnp.fft.fft(three(x))[1]),
    "convolution": lambda x: jnp.convolve(three(x), three(x)).sum(),
    "logsumexp": lambda x: special.logsumexp(three(x)),
    "jit": weft.jit(lambda x: jnp.sin(x) * x),
    "checkpoint": weft.checkpoint(lambda x: jnp.sin(x) * x),
    "cond": lambda x: lax.cond(x > 0, lambda y: y * jnp.sin(x), lambda y: y, x),
    "scan": lambda x: lax.scan(lambda c, s: (jnp.sin(c * s) + x, c * s), x, jnp.arange(1.0, 4.0))[
        1
    ].sum(),
    "scan over a series": lambda x: lax.scan(lambda c, s: (c * s, c), 1.0, three(x))[0],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * x, x),
    "while_loop": lambda x: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * jnp.sin(s[1] + x)), (0, x)
    )[1],
    "custom_jvp": with_rule,
}
SERIES = (0.7, -0.6, 0.66, 0.12)


def nested(function, order):
    """The derivatives at 0 along the curve with the derivatives SERIES."""

    def along(t):
        return function(0.4 + sum(s / factorial(k) * t**k for k, s in enumerate(SERIES, 1)))

    found = [along]
    for _ in range(order):
        found.append(lambda t, g=found[-1]: weft.jvp(g, (t,), (1.0,))[1])
    return weft.jit(lambda t: [g(t) for g in found])(0.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_nested_jvp(name):
    function = FUNCTIONS[name]
    value, found = weft.jit(lambda x: jet(function, (x,), (SERIES,)))(0.4)
    np.testing.assert_allclose([value, *found], nested(function, ORDER), rtol=1e-11, atol=1e-12)


def test_closed_forms_of_high_orders():
    n = 12
    series = (1.0, *[0.0] * (n - 1))
    _, found = jet(jnp.exp, (0.3,), (series,))
    np.testing.assert_allclose(found, [np.exp(0.3)] * n, rtol=1e-13)
    _, found = jet(lambda x: 1 / (1 - x), (0.5,), (series,))
    wanted = [factorial(k) * 2.0 ** (k + 1) for k in range(1, n + 1)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    _, found = jet2(jnp.log1p, (0.0,), (series,))
    np.testing.assert_allclose(found, [(-1) ** (k + 1) / k for k in range(1, n + 1)], rtol=1e-13)
    _, found = jet2(lambda x: jnp.arctan(x), (0.0,), (series,))
    wanted = [(-1) ** (k // 2) / k if k % 2 else 0.0 for k in range(1, n + 1)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    # A power at zero has no derivative of a higher order than its own, and no NaN.
    _, found = jet(lambda x: x**3 + x**2.0, (0.0,), (series[:5],))
    np.testing.assert_allclose(found, [0.0, 2.0, 6.0, 0.0, 0.0], atol=1e-14)


def test_several_arguments_and_results_are_trees():
    def function(x, y):
        return {"product": x @ y, "one": [jnp.sin(x), jnp.ones(2), jnp.argmax(x)]}

    x, y = np.array([0.1, 0.2]), np.array([0.3, -0.4])
    a, b = np.array([1.0, 2.0]), np.array([0.5, 0.25])
    value, found = jet(function, (x, y), ((a, b), (b, a)))
    np.testing.assert_allclose(value["product"], x @ y)
    first, second = found["product"]
    np.testing.assert_allclose(first, a @ y + x @ b)
    np.testing.assert_allclose(second, b @ y + 2 * a @ b + x @ a)
    np.testing.assert_allclose(found["one"][0][1], np.cos(x) * b - np.sin(x) * a**2)
    np.testing.assert_allclose(found["one"][1], np.zeros((2, 2)))
    assert [int(term) for term in found["one"][2]] == [0, 0]
    # A term without dimensions stands for all elements.
    np.testing.assert_allclose(jet(jnp.sin, (x,), ((1.0,),))[1][0], np.cos(x))


def test_other_transformations_apply():
    second = lambda x: jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]  # noqa: E731
    x = np.array([0.1, 0.5])
    np.testing.assert_allclose(weft.vmap(second)(x), -np.sin(x))
    np.testing.assert_allclose(weft.vmap(weft.grad(second))(x), -np.cos(x))
    of_map = jet(weft.vmap(jnp.sin), (x,), ((np.ones(2), np.zeros(2)),))
    np.testing.assert_allclose(of_map[1][1], -np.sin(x))
    of_grad = jet(weft.grad(jnp.sin), (0.3,), ((1.0, 0.0),))
    np.testing.assert_allclose(of_grad[1], [-np.sin(0.3), -np.cos(0.3)])
    of_jet = jet(second, (0.3,), ((1.0, 0.0),))
    np.testing.assert_allclose(of_jet[1], [-np.cos(0.3), np.sin(0.3)])
    # The rule of a function for reverse mode is no rule here.
    _, found = jet(with_backward, (0.3,), ((1.0, 0.0),))
    np.testing.assert_allclose(found[1], 2 * np.cos(0.3) - 0.3 * np.sin(0.3))


def test_blocks_of_a_shard_map_have_series():
    mesh = weft.make_mesh((4,), ("x",))

    @partial(weft.shard_map, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P()))
    def blocks(x):
        return jnp.sin(x), lax.psum(x * x, "x")

    x = np.arange(4.0)
    for function in (blocks, weft.jit(blocks)):
        _, (sines, total) = jet(function, (x,), ((np.ones(4), np.zeros(4)),))
        np.testing.assert_allclose(sines, [np.cos(x), -np.sin(x)])
        np.testing.assert_allclose(total, [[12.0], [8.0]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jet(jnp.sin, (1.0,), ((1.0,), (1.0,))), WeftValueError, "series for each"),
        (lambda: jet(jnp.add, (1.0, 2.0), ((1.0,), ())), WeftValueError, "inconsistent lengths"),
        (lambda: jet(jnp.sin, ((1.0,),), ((1.0,),)), WeftValueError, "position 0 is not an array"),
        (lambda: jet(jnp.sin, (1.0,), (([1.0],),)), WeftTypeError, "term 0 for argument 0"),
        (lambda: jet(jnp.sin, (1,), ((1.0,),)), DTypeError, "not differentiable"),
        (lambda: jet(jnp.sin, (np.ones(2),), ((np.ones(3),),)), ShapeError, "another shape"),
        (lambda: jet(3, (1.0,), ((1.0,),)), WeftTypeError, "jet takes a function"),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
