"""A network of dense layers, its gradient and Adam in NumPy: the reference for the recipes."""

from __future__ import annotations

import numpy as np


def wide(params):
    """The layers of a network as float64 NumPy arrays."""
    return [{name: np.asarray(x, np.float64) for name, x in layer.items()} for layer in params]


def log_probabilities(params, x):
    """The layers' inputs, and the log-probabilities of the classes."""
    inputs = [x]
    for layer in params[:-1]:
        inputs.append(np.maximum(inputs[-1] @ layer["w"] + layer["b"], 0))
    logits = inputs[-1] @ params[-1]["w"] + params[-1]["b"]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return inputs, shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def losses(params, x, y):
    """The cross-entropy of each example."""
    _, logp = log_probabilities(params, x)
    return -logp[np.arange(len(y)), y]


def gradients(params, x, y):
    """The gradient of each example's cross-entropy, by backpropagation: examples first."""
    inputs, logp = log_probabilities(params, x)
    slope = np.exp(logp)
    slope[np.arange(len(y)), y] -= 1
    found = []
    for layer, given in zip(reversed(params), reversed(inputs), strict=True):
        found.append({"w": given[:, :, None] * slope[:, None, :], "b": slope})
        slope = (slope @ layer["w"].T) * (given > 0)
    return found[::-1]


def mean_gradient(params, x, y):
    """The gradient of the mean cross-entropy."""
    return [
        {name: g.mean(axis=0) for name, g in layer.items()} for layer in gradients(params, x, y)
    ]


def adam_step(params, grads, mean, square, step, rate):
    """Changes the parameters and both means in place, by the formulas of Kingma and Ba."""
    for layer, slopes, first, second in zip(params, grads, mean, square, strict=True):
        for name, g in slopes.items():
            first[name] += 0.1 * (g - first[name])
            second[name] += 0.001 * (g * g - second[name])
            corrected = first[name] / (1 - 0.9**step)
            layer[name] -= rate * corrected / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
