"""Layers that keep their state in references, as libraries of stateful modules do."""

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax


class Counter:
    def __init__(self):
        self.calls = weft.new_ref(0)

    def __call__(self, x):
        self.calls[...] += 1
        return x


class Linear:
    def __init__(self, rows, columns):
        start = jnp.linspace(-0.5, 0.5, rows * columns).reshape(rows, columns)
        self.kernel, self.bias = weft.new_ref(start), weft.new_ref(jnp.zeros(columns))

    def __call__(self, x):
        return x @ self.kernel[...] + self.bias[...]


class RunningMean:
    def __init__(self, size):
        self.mean = weft.new_ref(jnp.zeros(size))

    def __call__(self, x):
        self.mean[...] = 0.9 * self.mean[...] + 0.1 * lax.stop_gradient(x.mean(0))
        return x - self.mean[...]


class Model:
    def __init__(self):
        self.layers = [Linear(3, 4), RunningMean(4), Counter(), Linear(4, 1)]

    def parameters(self):
        return [ref for i in (0, 3) for ref in (self.layers[i].kernel, self.layers[i].bias)]

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer(x)) if isinstance(layer, Counter) else layer(x)
        return x


def train(steps, jitted):
    model = Model()
    x = jnp.sin(jnp.arange(15.0)).reshape(5, 3)
    y = x.sum(1, keepdims=True)

    def step(x, y):
        def loss(values):
            # The arrays are what is differentiated; the rest of the state is written in passing.
            kept = [ref[...] for ref in model.parameters()]
            first, mean, count, last = model.layers
            h = mean(x @ values[0] + values[1])
            out = jnp.tanh(count(h)) @ values[2] + values[3]
            del kept, first, last
            return jnp.mean((out - y) ** 2)

        values = [ref[...] for ref in model.parameters()]
        found, gradients = weft.value_and_grad(loss)(values)
        for ref, gradient in zip(model.parameters(), gradients, strict=True):
            ref[...] -= 0.1 * gradient
        return found

    run = weft.jit(step) if jitted else step
    losses = [float(run(x, y)) for _ in range(steps)]
    return losses, [np.asarray(ref[...]) for ref in model.parameters()], model


def test_training_writes_parameters_and_statistics():
    losses, parameters, model = train(20, jitted=True)
    assert losses[-1] < 0.5 * losses[0]
    assert model.layers[2].calls[...] == 20
    slow_losses, slow_parameters, slow = train(20, jitted=False)
    np.testing.assert_allclose(losses, slow_losses, rtol=1e-4)
    for a, b in zip(parameters, slow_parameters, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        model.layers[1].mean[...], slow.layers[1].mean[...], rtol=1e-4, atol=1e-6
    )


def test_a_model_is_an_argument():
    counters = {"a": Counter().calls, "b": Counter().calls}

    @weft.jit
    def tick(refs, name_of_second):
        refs["a"][...] += 1
        refs["b"][...] += 2
        return name_of_second

    for _ in range(3):
        tick(counters, 0)
    assert (counters["a"][...], counters["b"][...]) == (3, 6)
