"""Minima: found where they are known to be, with about as many evaluations as SciPy takes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize as reference

import weft
import weft.numpy as jnp
from weft.scipy.optimize import OptimizeResults, minimize
from weft.scipy.optimize.line_search import line_search


@pytest.fixture
def wide():
    with weft.enable_x64():
        yield


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


@pytest.mark.parametrize("x0", [[-1.2, 1.0], [2.0, -1.0, 3.0, 0.5]], ids=str)
def test_rosenbrock(x0, wide):
    x0 = np.array(x0)
    found = minimize(rosenbrock, x0, method="BFGS")
    want = reference.minimize(
        reference.rosen, x0, jac=reference.rosen_der, method="BFGS", options={"gtol": 1e-5}
    )
    assert isinstance(found, OptimizeResults)
    assert found.success
    assert found.status == 0
    np.testing.assert_allclose(found.x, 1, atol=1e-5)
    np.testing.assert_allclose(found.jac, reference.rosen_der(np.asarray(found.x)), atol=1e-9)
    np.testing.assert_allclose(found.fun, reference.rosen(np.asarray(found.x)), atol=1e-12)
    assert np.max(np.abs(found.jac)) <= 1e-5
    assert found.nit <= 1.5 * want.nit
    assert found.nfev <= 2 * want.nfev
    # What was learned is near the inverse of the Hessian.
    exact = np.linalg.inv(reference.rosen_hess(np.asarray(found.x)))
    np.testing.assert_allclose(found.hess_inv, exact, rtol=0.3, atol=0.3 * np.abs(exact).max())


def test_other_functions(wide):
    found = minimize(himmelblau, np.array([1.0, 1.0]), method="bfgs", tol=1e-9)
    np.testing.assert_allclose(found.x, [3.0, 2.0], atol=1e-8)
    slow = minimize(
        lambda x: jnp.sum(jnp.log1p((x - 3) ** 2)), np.array([10.0, -4.0]), method="BFGS"
    )
    np.testing.assert_allclose(slow.x, 3.0, atol=1e-5)
    # A first step of length 1 leaves where the function is defined.
    guarded = minimize(lambda x: jnp.sum(x - jnp.log(x)), np.array([0.1, 5.0]), method="BFGS")
    assert guarded.success
    np.testing.assert_allclose(guarded.x, 1.0, atol=1e-5)


def test_what_is_not_found(wide):
    down = minimize(lambda x: x[0], np.zeros(1), method="BFGS", options={"maxiter": 5})
    assert not down.success
    assert down.status == 1
    assert down.nit == 5
    bad = minimize(lambda x: jnp.nan * x[0], np.zeros(1), method="BFGS")
    assert bad.status == 2
    wrong = minimize(lambda x: jnp.sum(jnp.where(x == 0, x, 1 + x)), np.zeros(1), method="BFGS",
                     options={"maxiter": 3})  # fmt: skip
    assert not wrong.success
    there = minimize(lambda x: jnp.sum(x**2), np.zeros(2), method="BFGS")
    assert there.success
    assert there.nit == 0


def test_arguments_and_dtypes():
    def f(x, a, b):
        return jnp.sum((x - a) ** 2) + b

    found = minimize(f, np.array([0, 0]), (np.array([1.0, 2.0]), 3.0), method="BFGS")
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(found.x, [1.0, 2.0], rtol=1e-5)
    np.testing.assert_allclose(found.fun, 3.0)
    by_norm = minimize(f, np.zeros(2), (5.0, 0.0), method="BFGS", options={"norm": 2, "gtol": 1e-2})
    assert np.linalg.norm(by_norm.jac) <= 1e-2


def test_transformations(wide):
    starts = np.array([[-1.2, 1.0], [0.0, 0.0], [1.0, 1.0]])
    mapped = weft.vmap(lambda x: minimize(rosenbrock, x, method="BFGS"))(starts)
    np.testing.assert_allclose(mapped.x, 1, atol=1e-5)
    for row, x0 in enumerate(starts):
        assert mapped.nit[row] == minimize(rosenbrock, x0, method="BFGS").nit

    def least(a):
        return minimize(lambda x: jnp.sum((x - a) ** 2 * a), jnp.zeros(2), method="BFGS").x

    a = np.array([1.0, 2.0])
    np.testing.assert_allclose(weft.jit(least)(a), a, atol=1e-6)
    # The minimum moves with a.
    np.testing.assert_allclose(weft.jacfwd(least)(a), np.eye(2), atol=1e-4)


LINES = [
    lambda x: x**4 - x,
    lambda x: jnp.exp(3 * x) + jnp.exp(-3 * x) - x,
    lambda x: -x / (x**2 + 2),
]


@pytest.mark.parametrize("start", [-30.0, -0.3, 0.9, -1e-3])
def test_the_line_search_meets_the_wolfe_conditions(start, wide):
    """Of functions of one variable, at the step that is found."""
    for f in LINES:
        direction = -np.sign(weft.grad(f)(start))

        def evaluate(step, f=f, direction=direction):
            value, slope = weft.jvp(lambda step: f(start + step * direction), (step,), (1.0,))
            return value, slope, slope

        first = evaluate(jnp.zeros(()))
        found = line_search(evaluate, first, 60)
        assert found.found
        step = float(found.best.step)
        value, slope, _ = evaluate(jnp.asarray(step))
        assert value <= first[0] + 1e-4 * step * first[1]
        assert abs(slope) <= 0.9 * abs(first[1])


def test_in_shard_map():
    mesh = weft.make_mesh((8,), ("i",))
    a = np.arange(8.0, dtype=np.float32)[:, None]

    def body(a):
        return minimize(lambda x: jnp.sum((x - a[0]) ** 2), jnp.zeros(1), method="BFGS").x[None]

    f = weft.shard_map(body, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    np.testing.assert_allclose(f(a), a, atol=1e-5)
