"""A recurrent network over a sequence with control flow: scan, cond, while_loop, switch, vmap."""

from __future__ import annotations

from dataclasses import dataclass

import weft
import weft.numpy as wnp
from weft import lax, random
from weft.typing import Array


@weft.tree.register_dataclass
@dataclass
class Cell:
    recurrent: Array
    inputs: Array
    bias: Array


def make_cell(key: Array, inputs: int, hidden: int) -> Cell:
    a, b = random.split(key)
    return Cell(
        random.orthogonal(a, hidden),
        random.normal(b, (inputs, hidden)) / inputs**0.5,
        wnp.zeros(hidden),
    )


def advance(cell: Cell, state: Array, x: Array) -> Array:
    return wnp.tanh(state @ cell.recurrent + x @ cell.inputs + cell.bias)


def run(cell: Cell, xs: Array, lengths: Array) -> tuple[Array, Array]:
    def body(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        state, position = carry
        new = advance(cell, state, x)
        state = lax.cond(position < lengths, lambda: new, lambda: state)
        return (state, position + 1), state

    start = wnp.zeros(cell.bias.shape), wnp.asarray(0)
    (final, _), states = lax.scan(body, start, xs)
    return final, states


@weft.jit
def loss(cell: Cell, xs: Array, lengths: Array, target: Array) -> Array:
    finals, _ = weft.vmap(run, in_axes=(None, 0, 0))(cell, xs, lengths)
    return wnp.mean((finals.sum(axis=-1) - target) ** 2)


def train(cell: Cell, xs: Array, lengths: Array, target: Array, steps: int) -> Cell:
    def update(_: Array, cell: Cell) -> Cell:
        grads = weft.grad(loss)(cell, xs, lengths, target)
        stepped: Cell = weft.tree.map(lambda p, g: p - 0.05 * g, cell, grads)
        return stepped

    return lax.fori_loop(0, steps, update, cell)


def steps_to_rest(cell: Cell, state: Array, tolerance: float) -> Array:
    silent = wnp.zeros(cell.inputs.shape[0])

    def going(carry: tuple[Array, Array, Array]) -> Array:
        _, change, count = carry
        return (change > tolerance) & (count < 100)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        state, _, count = carry
        new = advance(cell, state, silent)
        return new, abs(new - state).max(), count + 1

    _, _, count = lax.while_loop(going, step, (state, wnp.asarray(wnp.inf), wnp.asarray(0)))
    return count


def main() -> None:
    cell_key, data_key = random.split(random.key(1))
    cell = make_cell(cell_key, 3, 8)
    xs = random.normal(data_key, (4, 5, 3))
    lengths, target = wnp.array([5, 3, 2, 5]), wnp.array([1.0, 0.0, -1.0, 0.5])
    trained = train(cell, xs, lengths, target, 5)
    print(float(loss(cell, xs, lengths, target)) > float(loss(trained, xs, lengths, target)))
    totals = lax.associative_scan(wnp.add, xs[0])
    picked = lax.switch(1, [lambda x: x, lambda x: 2 * x], totals[-1])
    print(totals.shape, picked.shape, int(steps_to_rest(trained, wnp.ones(8), 1e-3)) > 0)
    means = weft.vmap(lambda x: x - lax.pmean(x, "batch"), axis_name="batch")(xs)
    print(means.shape, lax.map(lambda x: x.sum(), xs).shape)


if __name__ == "__main__":
    main()
