"""Trains a small network: a program as a user writes it, with annotations and without casts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import weft
import weft.numpy as wnp
from weft import nn, random
from weft.typing import Array


class Layer(NamedTuple):
    w: Array
    b: Array


class State(NamedTuple):
    params: list[Layer]
    momentum: list[Layer]
    step: Array


def init(key: Array, sizes: list[int]) -> list[Layer]:
    layers = []
    for k, n, m in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        w = random.normal(k, (n, m)) * (2 / n) ** 0.5
        layers.append(Layer(w, wnp.zeros(m)))
    return layers


def predict(params: list[Layer], x: Array) -> Array:
    for layer in params[:-1]:
        x = nn.relu(x @ layer.w + layer.b)
    last = params[-1]
    return x @ last.w + last.b


def loss(params: list[Layer], x: Array, y: Array) -> Array:
    logits = nn.log_softmax(predict(params, x))
    return -wnp.mean(wnp.sum(nn.one_hot(y, 3) * logits, axis=-1))


@weft.jit
def step(state: State, x: Array, y: Array) -> tuple[State, Array]:
    value, grads = weft.value_and_grad(loss)(state.params, x, y)
    momentum = weft.tree.map(lambda m, g: 0.9 * m + g, state.momentum, grads)
    params = weft.tree.map(lambda p, m: p - 0.1 * m, state.params, momentum)
    return State(params, momentum, state.step + 1), value


def batches(key: Array, x: Array, y: Array, size: int) -> Iterator[tuple[Array, Array]]:
    order = random.permutation(key, x.shape[0])
    for start in range(0, x.shape[0], size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


def accuracy(params: list[Layer], x: Array, y: Array) -> float:
    return float(wnp.mean(wnp.argmax(predict(params, x), axis=1) == y))


def main() -> None:
    key = random.key(0)
    data_key, init_key, key = random.split(key, 3)
    x = random.uniform(data_key, (300, 2), minval=-1.0, maxval=1.0)
    y = (x[:, 0] > 0).astype("int32") + (x[:, 1] > 0)
    params = init(init_key, [2, 16, 3])
    zeros = weft.tree.map(wnp.zeros_like, params)
    state = State(params, zeros, wnp.asarray(0))
    last = 0.0
    for epoch in range(3):
        key, epoch_key = random.split(key)
        for xs, ys in batches(epoch_key, x, y, 50):
            state, value = step(state, xs, ys)
            last = float(value)
        print(f"epoch {epoch}: loss {last:.3f}, accuracy {accuracy(state.params, x, y):.2f}")
    norms = weft.vmap(wnp.linalg.norm)(x)
    hessian = weft.hessian(lambda w: wnp.sum(w**2))(params[0].w)
    print(norms.shape, hessian.shape, int(state.step))


if __name__ == "__main__":
    main()
