"""The flow that two_moons.py fits: its likelihood, and that its density is one."""

from __future__ import annotations

import numpy as np
import two_moons
from inversion import log_density

import weft
from weft import random


def test_the_flow_reaches_the_stated_likelihood_and_is_a_density():
    points, held_out = two_moons.moons(2048, 0), two_moons.moons(2048, 1)
    weights = two_moons.train(two_moons.initial(random.key(0)), points, 300)
    reached = float(two_moons.likelihood(weights, held_out))
    # A normal distribution fitted to the points in closed form.
    covariance = np.cov(points.T)
    normal = -0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
    # No density can be expected to do better than the one that made the points, up to sampling: on
    # average log(1 / (length of both arcs)) minus the entropy of the noise across the arc.
    bound = -np.log(2 * np.pi) - 0.5 * np.log(2 * np.pi * np.e * 0.01)
    assert normal < -1.8
    assert -1.2 < reached < bound + 0.05

    density = log_density(lambda noise: two_moons.flow(weights, noise), two_moons.normal)
    x, y = np.meshgrid(np.linspace(-4, 5, 451), np.linspace(-3, 3.5, 326), indexing="ij")
    grid = np.stack([x.ravel(), y.ravel()], 1).astype(np.float32)
    total = np.exp(np.asarray(weft.jit(weft.vmap(density))(grid), np.float64)).sum() * 0.02 * 0.02
    assert abs(total - 1) < 5e-3
