"""The recipe that fits an ODE against SciPy's solver and its least squares."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import weft

pytestmark = pytest.mark.usefixtures("x64")


def by_scipy(log_params, times):
    born, eaten, growth, dying, *start = np.exp(log_params)

    def rates(_, animals):
        hares, lynxes = animals
        return [(born - eaten * lynxes) * hares, (growth * hares - dying) * lynxes]

    span = times[0], times[-1]
    return scipy.integrate.solve_ivp(
        rates, span, start, "DOP853", times, rtol=1e-11, atol=1e-11
    ).y.T


@pytest.mark.smoke
def test_the_solution_and_its_gradient(recipe):
    params, times = recipe.first_guess(), np.arange(6.0)
    pelts = recipe.PELTS[:6]
    np.testing.assert_allclose(recipe.solve(params, times), by_scipy(params, times), rtol=1e-6)

    def reference(p):
        return np.mean((np.log(by_scipy(p, times)) - np.log(pelts)) ** 2)

    value, slope = weft.jit(weft.value_and_grad(recipe.loss))(params, times, pelts)
    assert float(value) == pytest.approx(reference(params), rel=1e-6)
    steps = 1e-4 * np.eye(6)
    expected = [(reference(params + s) - reference(params - s)) / 2e-4 for s in steps]
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-7)


def test_the_fit_is_that_of_least_squares(recipe):
    times = recipe.YEARS - 1900.0
    found = recipe.fit(recipe.first_guess(), times, recipe.PELTS)
    expected = scipy.optimize.least_squares(
        lambda p: (np.log(by_scipy(p, times)) - np.log(recipe.PELTS)).ravel(), recipe.first_guess()
    )
    assert bool(found.success)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-4)
    assert float(found.fun) == pytest.approx(2 * expected.cost / recipe.PELTS.size, rel=1e-6)


def test_the_first_guess_swings_in_ten_years(recipe):
    """Near its equilibrium: there the model is a linear oscillator."""
    params = recipe.first_guess()
    born, eaten, growth, dying = np.exp(params[:4])
    params[4:] = np.log([1.01 * dying / growth, born / eaten])
    found = np.asarray(recipe.solve(params, np.array([0.0, 5.0, 10.0])))
    away = found[:, 0] - dying / growth
    np.testing.assert_allclose(away / away[0], [1, -1, 1], atol=0.02)
