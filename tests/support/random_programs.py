"""Random straight-line programs as data: a list of (operation, operands), run by NumPy in double
precision or by weft."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft import lax

__all__ = ["Numpy", "Program", "arguments", "kink", "programs", "same"]

SHAPES = [(), (3,), (2, 3)]
# Tables that programs close over, one per shape.
TABLES = {shape: np.linspace(-0.8, 0.9, int(np.prod(shape))).reshape(shape) for shape in SHAPES}


class Numpy:
    sin, cos, tanh, exp = np.sin, np.cos, np.tanh, np.exp
    sum, where, matmul, reshape = np.sum, np.where, np.matmul, np.reshape
    greater = np.greater

    @staticmethod
    def table(shape):
        return TABLES[shape]

    @staticmethod
    def jit(function):
        return function

    @staticmethod
    def cond(pred, when, otherwise, *operands):
        return when(*operands) if pred else otherwise(*operands)

    @staticmethod
    def transpose(x):
        return np.transpose(x)


class Weft(Numpy):
    sin, cos, tanh, exp = jnp.sin, jnp.cos, jnp.tanh, jnp.exp
    sum, where, matmul, reshape = jnp.sum, jnp.where, jnp.matmul, jnp.reshape
    greater = jnp.greater
    jit, cond = weft.jit, lax.cond
    transpose = staticmethod(jnp.transpose)
    arrays = {shape: jnp.array(value, np.float64) for shape, value in TABLES.items()}

    @staticmethod
    def table(shape):
        return Weft.arrays[shape]


# Name -> (shapes of the operands it takes, function); None stands for any one shape.
UNARY = {
    "sin": lambda op, x: op.sin(x),
    "cos": lambda op, x: op.cos(x),
    "tanh": lambda op, x: op.tanh(x),
    "exp": lambda op, x: op.exp(x * 0.25),
    "neg": lambda op, x: -x,
    "half": lambda op, x: x * 0.5,
    "table": lambda op, x: x * op.table(x.shape),
    "jitted": lambda op, x: op.jit(lambda y: op.sin(y) * y)(x),
    "closing": lambda op, x: op.jit(lambda: x + x)(),
    "quotient": lambda op, x: x / (x * x + 1.0),
}
BINARY = {
    "add": lambda op, x, y: x + y,
    "sub": lambda op, x, y: x - y,
    "mul": lambda op, x, y: x * y,
    "select": lambda op, x, y: op.where(op.greater(x, y), x, y * 0.5),
    "branch": lambda op, x, y: op.cond(
        op.greater(op.sum(x), 0.0), lambda a, b: op.sin(a) * b, lambda a, b: a - b * b, x, y
    ),
    "capture": lambda op, x, y: op.cond(
        op.greater(op.sum(y), 0.1), lambda a: a * y, lambda a: a + y * x, x
    ),
}
RESHAPING = {
    ((2, 3), "rows"): ((3,), lambda op, x: op.sum(x, 0)),
    ((2, 3), "element"): ((), lambda op, x: x[1][2]),
    ((2, 3), "row"): ((3,), lambda op, x: x[0]),
    ((2, 3), "total"): ((), lambda op, x: op.sum(x) * 0.3),
    ((2, 3), "flipped"): ((2, 3), lambda op, x: op.reshape(op.transpose(x), (2, 3))),
    ((3,), "total"): ((), lambda op, x: op.sum(x)),
    ((3,), "first"): ((), lambda op, x: x[0]),
    ((3,), "spread"): ((2, 3), lambda op, x: x + op.table((2, 3))),
    ((3,), "product"): ((), lambda op, x: op.matmul(x, x) * 0.2),
    ((3,), "pair"): ((2, 3), lambda op, x: op.matmul(op.table((2, 3)), op.reshape(x, (3, 1))) * x),
    ((), "spread"): ((3,), lambda op, x: x * op.table((3,))),
    ((), "plane"): ((2, 3), lambda op, x: x - op.table((2, 3))),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps (name, operand numbers) over the values so far: the inputs, then each step's result."""

    inputs: tuple
    steps: tuple
    outputs: tuple

    def run(self, op, *values):
        env = list(values)
        for name, operands in self.steps:
            args = [env[i] for i in operands]
            if isinstance(name, tuple):
                env.append(RESHAPING[name][1](op, *args))
            else:
                env.append((UNARY | BINARY)[name](op, *args))
        return tuple(env[i] for i in self.outputs)

    def weft(self, *values):
        return self.run(Weft, *values)

    def total(self, *values):
        """A scalar that depends on every output."""
        outs = self.weft(*values)
        return sum(jnp.sum(out) * (0.5 + k) for k, out in enumerate(outs))


@st.composite
def programs(draw):
    inputs = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)))
    shapes, steps = list(inputs), []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["unary", "binary", "binary", "reshaping"]))
        i = draw(st.integers(0, len(shapes) - 1))
        if kind == "unary":
            steps.append((draw(st.sampled_from(sorted(UNARY))), (i,)))
            shapes.append(shapes[i])
        elif kind == "binary":
            same = [k for k, shape in enumerate(shapes) if shape == shapes[i]]
            steps.append((draw(st.sampled_from(sorted(BINARY))), (i, draw(st.sampled_from(same)))))
            shapes.append(shapes[i])
        else:
            names = sorted(name for name in RESHAPING if name[0] == shapes[i])
            name = draw(st.sampled_from(names))
            steps.append((name, (i,)))
            shapes.append(RESHAPING[name][0])
    last = len(shapes) - 1
    outputs = (last, *draw(st.lists(st.integers(0, last), max_size=2)))
    seed = draw(st.integers(0, 2**16))
    return Program(inputs, tuple(steps), outputs), seed


def arguments(program, seed, count=None):
    """Random inputs in double precision; with `count`, that many stacked along a first axis."""
    generator = np.random.default_rng(seed)
    lead = () if count is None else (count,)
    hosts = [generator.uniform(-1.2, 1.2, lead + shape) for shape in program.inputs]
    return hosts, [jnp.array(host, np.float64) for host in hosts]


def same(got, wanted, rtol=1e-10, atol=1e-11):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def kink(program, hosts):
    """Whether a comparison of the program is so close that rounding, or a step, may turn it."""
    close = []

    class Watching(Numpy):
        @staticmethod
        def greater(x, y):
            close.append(x is not y and bool(np.any(np.abs(x - y) < 1e-3)))
            return np.greater(x, y)

    program.run(Watching, *hosts)
    return any(close)
