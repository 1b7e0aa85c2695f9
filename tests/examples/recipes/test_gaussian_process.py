"""The recipe of a Gaussian process against SciPy: likelihood, gradient, optimum and prediction."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import weft

X = np.array([0.0, 0.3, 0.35, 1.1, 2.0, 2.6])
Y = np.array([20.0, -35.0, -28.0, 61.0, 4.0, -90.0])
LOG_PARAMS = np.log([0.8, 70.0, 6.0])


pytestmark = pytest.mark.usefixtures("x64")


def covariance(x, y, log_params):
    length, amplitude, _ = np.exp(log_params)
    scaled = np.sqrt(3) * np.abs(np.subtract.outer(x, y)) / length
    return amplitude**2 * (1 + scaled) * np.exp(-scaled)


def by_scipy(log_params, x=X, y=Y):
    noisy = covariance(x, x, log_params) + np.exp(2 * log_params[2]) * np.eye(len(x))
    return scipy.stats.multivariate_normal.logpdf(y, cov=noisy)


@pytest.mark.smoke
def test_the_likelihood_and_its_gradient(recipe):
    value, slope = weft.value_and_grad(recipe.log_likelihood)(LOG_PARAMS, X, Y)
    assert float(value) == pytest.approx(by_scipy(LOG_PARAMS), rel=1e-12)
    steps = 1e-5 * np.eye(3)
    expected = [(by_scipy(LOG_PARAMS + s) - by_scipy(LOG_PARAMS - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(slope, expected, rtol=1e-7)


def test_the_fit_is_the_optimum_that_scipy_finds(recipe):
    x, height = recipe.transect()
    x, y = x[::10], height[::10] - height[::10].mean()
    found = recipe.fit(x, y)
    expected = scipy.optimize.minimize(lambda p: -by_scipy(p, x, y), recipe.START, method="BFGS")
    assert bool(found.success)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-3)
    assert float(found.fun) == pytest.approx(expected.fun, abs=1e-6)


def test_the_prediction_is_that_of_conditional_normals(recipe):
    new = np.array([-0.4, 0.3, 0.9, 5.0])
    both = np.concatenate([X, new])
    joint = covariance(both, both, LOG_PARAMS) + np.exp(2 * LOG_PARAMS[2]) * np.eye(len(both))
    known = np.linalg.inv(joint[:6, :6])
    # A new measurement at a known place has noise of its own: `joint` has none of both together.
    mean, deviation = recipe.predict(LOG_PARAMS, X, Y, new)
    np.testing.assert_allclose(mean, joint[6:, :6] @ known @ Y, rtol=1e-9)
    conditional = joint[6:, 6:] - joint[6:, :6] @ known @ joint[:6, 6:]
    np.testing.assert_allclose(deviation, np.sqrt(np.diag(conditional)), rtol=1e-9)
