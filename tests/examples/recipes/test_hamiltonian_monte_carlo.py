"""The recipe of Hamiltonian Monte Carlo against SciPy's densities and the exact posterior."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import weft
from weft import random


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    return x, x @ [1.0, -0.5, 0.2] + 0.7 * rng.normal(size=40)


def density_by_scipy(point, x, y):
    """Likelihood and priors; the last term turns a density of the noise's square into one of s."""
    weights, s = point[:-1], point[-1]
    noise = np.exp(s)
    return (
        scipy.stats.norm.logpdf(y, x @ weights, noise).sum()
        + scipy.stats.norm.logpdf(weights, 0, noise).sum()
        + scipy.stats.invgamma.logpdf(noise**2, 1, scale=1)
        + np.log(2 * noise**2)
    )


@pytest.mark.smoke
def test_the_density_is_that_of_scipy(recipe, data):
    points = np.random.default_rng(1).normal(size=(5, 4))
    expected = np.array([density_by_scipy(point, *data) for point in points])
    with weft.enable_x64(True):
        found = np.array([recipe.log_density(p, *data) for p in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-10)


def slope_by_numpy(point, x, y):
    weights, s = point[:-1], point[-1]
    away = y - x @ weights
    of_weights = (x.T @ away - weights) * np.exp(-2 * s)
    squares = away @ away + weights @ weights
    return np.append(of_weights, (squares + 2) * np.exp(-2 * s) - len(y) - len(weights) - 2)


def transition_by_numpy(recipe, point, key, x, y):
    """Whole steps of positions between whole steps of momenta, with half of one at both ends."""
    of_momentum, of_step, of_choice = random.split(key, 3)
    step = recipe.STEP * float(random.uniform(of_step, minval=0.6, maxval=1.0))
    start = np.asarray(random.normal(of_momentum, point.shape))
    end, momentum = point, start + 0.5 * step * slope_by_numpy(point, x, y)
    for i in range(recipe.PATH):
        end = end + step * momentum
        last = i == recipe.PATH - 1
        momentum = momentum + (0.5 if last else 1) * step * slope_by_numpy(end, x, y)
    gain = density_by_scipy(end, x, y) - density_by_scipy(point, x, y)
    gain += 0.5 * (start @ start - momentum @ momentum)
    return end if np.log(float(random.uniform(of_choice))) < gain else point


def test_a_step_is_that_of_numpy(recipe, data, monkeypatch):
    monkeypatch.setattr(recipe, "STEP", 0.2)  # large, so that some are rejected
    monkeypatch.setattr(recipe, "PATH", 4)
    accepted = []
    with weft.enable_x64(True):
        point = np.array([0.9, -0.4, 0.1, -0.3])
        step = weft.jit(recipe.transition)
        for key in random.split(random.key(4), 12):
            expected = transition_by_numpy(recipe, point, key, *data)
            found, (_, is_new) = step(point, key, *data)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
            accepted.append(bool(is_new))
            point = np.asarray(found)
    assert 0 < sum(accepted) < 12


def test_the_exact_moments_are_those_of_an_integral(recipe, data):
    """For each s the weights are normal, with one mean: what is left is an integral over s."""
    x, y = data
    mean, deviation = recipe.exact(x, y)
    s = np.linspace(-2.0, 2.0, 4001)
    logs = np.array([density_by_scipy(np.append(mean, t), x, y) for t in s]) + len(mean) * s
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    normal = np.linalg.inv(x.T @ x + np.eye(3))
    np.testing.assert_allclose(mean, normal @ x.T @ y, rtol=1e-12)
    np.testing.assert_allclose(deviation**2, shares @ np.exp(2 * s) * np.diag(normal), rtol=1e-6)


def test_the_samples_have_the_moments_of_the_posterior(recipe, data, monkeypatch):
    monkeypatch.setattr(recipe, "STEP", 0.1)
    monkeypatch.setattr(recipe, "PATH", 8)
    points, accepted = recipe.sample(random.split(random.key(2), 16), *data)
    points = np.asarray(points, np.float64)[:, recipe.WARMUP :]
    assert 0.7 < np.mean(accepted) < 1
    mean, deviation = recipe.exact(*data)
    # Standard errors from the means of chains, which are independent.
    means = points[..., :3].mean(axis=1)
    error = means.std(axis=0, ddof=1) / 4
    assert (np.abs(means.mean(axis=0) - mean) < 4 * error).all()
    np.testing.assert_allclose(points[..., :3].std(axis=(0, 1)), deviation, rtol=0.04)
    assert (recipe.r_hat(points) < 1.01).all()


def test_r_hat_finds_a_chain_that_is_elsewhere(recipe):
    chains = np.random.default_rng(3).normal(size=(4, 500, 2))
    assert (recipe.r_hat(chains) < 1.02).all()
    chains[1, :, 0] += 3.0
    within = np.mean([np.var(chain, axis=0, ddof=1) for chain in chains], axis=0)
    between = 500 * np.var([chain.mean(axis=0) for chain in chains], axis=0, ddof=1)
    expected = np.sqrt((499 / 500 * within + between / 500) / within)
    np.testing.assert_allclose(recipe.r_hat(chains), expected, rtol=1e-12)
    assert expected[0] > 1.5
