"""PyTensor compiled in JAX mode: logistic regression by gradient descent with shared variables, a
recurrence, linear algebra and random draws of its own graph.
"""

import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt

DISTRIBUTION = "pytensor"


def main(timed):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 5))
    labels = (inputs @ np.arange(-2, 3) + 0.3 * rng.normal(size=40) > 0).astype("float64")

    x, y = pt.matrix("x"), pt.vector("y")
    w = pytensor.shared(np.zeros(5), name="w")
    b = pytensor.shared(0.0, name="b")
    p = pt.sigmoid(x @ w + b)
    cost = -pt.mean(y * pt.log(p) + (1 - y) * pt.log1p(-p)) + 0.01 * pt.sum(w**2)
    grads = pytensor.grad(cost, [w, b])
    learn = pytensor.function(
        [x, y], cost, updates=[(v, v - 0.5 * g) for v, g in zip([w, b], grads, strict=True)],
        mode="JAX",
    )  # fmt: skip
    learn = timed(learn)
    costs = [float(learn(inputs, labels)) for _ in range(12)]

    start, rate = pt.vector("start"), pt.scalar("rate")
    states = pytensor.scan(
        lambda state, rate: rate * state * (1 - state), outputs_info=[start], non_sequences=[rate],
        n_steps=10, return_updates=False,
    )  # fmt: skip
    slope = pytensor.grad(states[-1].sum(), start)
    recur = pytensor.function([start, rate], [states, slope], mode="JAX")

    a = pt.matrix("a")
    gram = a.T @ a + 0.1 * pt.eye(5)
    algebra = pytensor.function(
        [a],
        [pt.linalg.cholesky(gram), pt.linalg.solve(gram, pt.ones(5)), pt.linalg.slogdet(gram)[1],
         pt.sort(a, axis=0)[:3], pt.special.softmax(a, axis=1), a[[0, 2], 1:3],
         pt.set_subtensor(a[1:3, 0], 7.0)[:4]],
        mode="JAX",
    )  # fmt: skip
    cholesky, solution, logdet, *others = algebra(inputs)

    generator = pytensor.shared(np.random.default_rng(5), name="generator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        after, draws = pt.random.normal(1.0, 2.0, size=(4,), rng=generator).owner.outputs
        draw = pytensor.function([], draws, updates={generator: after}, mode="JAX")
    path, gradient = recur(np.array([0.2, 0.5]), 3.2)
    return {
        "costs": np.array(costs),
        "w": w.get_value(),
        "states": path,
        "slope": gradient,
        "cholesky": np.abs(cholesky),
        "solution": solution,
        "logdet": logdet,
        **{f"other_{i}": value for i, value in enumerate(others)},
        "draws": np.stack([draw(), draw()]),
    }
