"""What bounds are for: roots that are proved, and a network that is certified."""

from __future__ import annotations

import numpy as np
import pytest
from intervals import Interval, enclose, roots

import weft
import weft.numpy as jnp
from weft import nn


@pytest.mark.parametrize(
    ("function", "low", "high", "wanted"),
    [
        (lambda x: x**2 - 2, -3.0, 3.0, [-np.sqrt(2), np.sqrt(2)]),
        (lambda x: jnp.sin(x), 1.0, 10.0, [np.pi, 2 * np.pi, 3 * np.pi]),
        (lambda x: jnp.exp(x) - 3 * x, 0.0, 2.0, [0.6190612867, 1.5121345517]),
        (lambda x: jnp.tanh(4 * x) - x, -2.0, 2.0, [-0.9993257, 0.0, 0.9993257]),
        (lambda x: x**2 + 1, -3.0, 3.0, []),
    ],
)
def test_roots_are_found_and_proved(function, low, high, wanted):
    found = roots(function, low, high)
    assert len(found) == len(wanted) and all(root.proved for root in found)
    for root, value in zip(found, wanted, strict=True):
        assert root.lower - 1e-6 <= value <= root.upper + 1e-6
        with weft.enable_x64():
            ends = [float(function(jnp.float64(end))) for end in (root.lower, root.upper)]
        assert ends[0] * ends[1] <= 0


def test_a_double_root_is_not_missed_and_not_proved():
    found = roots(lambda x: (x - 1) ** 2, 0.0, 3.0, tolerance=1e-2)
    assert any(root.lower <= 1 <= root.upper for root in found)
    assert not any(root.proved for root in found)


def network(weights, x):
    for w, b in weights[:-1]:
        x = nn.relu(x @ w + b)
    return x @ weights[-1][0] + weights[-1][1]


def test_a_network_is_certified_and_trained_to_be_robust():
    rng = np.random.default_rng(0)
    sizes = [2, 16, 16, 2]
    weights = [
        (jnp.asarray(rng.normal(size=s) / np.sqrt(s[0]), "float32"), jnp.zeros(s[1]))
        for s in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    points = rng.normal(size=(64, 2)).astype(np.float32)
    points += 1.5 * np.sign(points)
    labels = (points[:, 0] > 0).astype(np.int32)
    radius = 0.5

    def margins(weights, x, label):
        box = Interval(x - radius, x + radius)
        gap = enclose(lambda x: (network(weights, x) * jnp.where(label == 1, 1, -1)) @ SIGNS)(box)
        return gap.lower

    all_margins = weft.vmap(margins, in_axes=(None, 0, 0))

    @weft.jit
    def step(weights):
        loss = lambda w: jnp.mean(nn.softplus(-all_margins(w, points, labels)))  # noqa: E731
        return weft.tree.map(lambda w, g: w - 0.1 * g, weights, weft.grad(loss)(weights))

    before = np.asarray(all_margins(weights, points, labels))
    for _ in range(150):
        weights = step(weights)
    after = np.asarray(all_margins(weights, points, labels))
    assert np.mean(before > 0) < 0.7
    assert np.mean(after > 0) > 0.95
    # No point of a certified box is classified otherwise.
    shifts = rng.uniform(-radius, radius, size=(200, 1, 2)).astype(np.float32)
    scores = np.asarray(network(weights, jnp.asarray(points + shifts)))
    right = (scores[..., 1] > scores[..., 0]) == (labels == 1)
    assert right[:, after > 0].all()


SIGNS = np.array([-1.0, 1.0], np.float32)
