"""The expressions of the sweep: every public function of arrays, as text that both libraries run.

They stand in expressions.txt. An expression names its operands by letters (`OPERANDS`); these
become the arguments of the function that is compiled. Whatever else it names is a module: `jnp`,
`lax`, `nn`, `random`, `jsp` (scipy), `image`, `ops`, or `np` for dtypes.
"""

import dataclasses
import pathlib

import numpy as np


@dataclasses.dataclass(frozen=True)
class Operand:
    """An argument: how it is made for a size, and whether derivatives are taken by it."""

    make: object
    inexact: bool = True


def uniform(low, high, seed, dtype=np.float32):
    def make(shape):
        return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)

    return make


def integers(low, high, seed, dtype=np.int32):
    def make(shape):
        return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)

    return make


def complexes(seed):
    def make(shape):
        r = np.random.default_rng(seed)
        return (r.normal(size=shape) + 1j * r.normal(size=shape)).astype(np.complex64)

    return make


def symmetric_definite(seed):
    def make(shape):
        a = np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[-1])
        return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(np.float32)

    return make


# Letter -> the operand, and its shape at the two sizes.
VECTOR, MATRIX, SQUARE, CUBE, IMAGE = "vector", "matrix", "square", "cube", "image"
SHAPES = {
    "small": {VECTOR: (16,), MATRIX: (4, 8), SQUARE: (4, 4), CUBE: (2, 3, 4), IMAGE: (1, 8, 8, 2)},
    "large": {
        VECTOR: (65_536,), MATRIX: (256, 256), SQUARE: (64, 64), CUBE: (16, 32, 64),
        IMAGE: (4, 64, 64, 8),
    },
}  # fmt: skip
OPERANDS = {
    "x": (VECTOR, Operand(uniform(0.05, 0.95, 0))),
    "y": (VECTOR, Operand(uniform(0.05, 0.95, 1))),
    "p": (VECTOR, Operand(uniform(1.5, 4.0, 2))),
    "v": (VECTOR, Operand(uniform(-3.0, 3.0, 3))),
    "w": (VECTOR, Operand(lambda shape: np.sort(uniform(-3.0, 3.0, 4)(shape)))),
    "z": (VECTOR, Operand(complexes(5), inexact=False)),
    "i": (VECTOR, Operand(integers(0, 16, 6), inexact=False)),
    "j": (VECTOR, Operand(integers(1, 9, 7), inexact=False)),
    "u": (VECTOR, Operand(integers(0, 2**31, 8, np.uint32), inexact=False)),
    "t": (VECTOR, Operand(integers(0, 256, 9, np.uint8), inexact=False)),
    "b": (VECTOR, Operand(integers(0, 2, 10, bool), inexact=False)),
    "c": (VECTOR, Operand(integers(0, 2, 11, bool), inexact=False)),
    "h": (VECTOR, Operand(uniform(-3.0, 3.0, 12, np.float16), inexact=False)),
    "m": (MATRIX, Operand(uniform(-2.0, 2.0, 13))),
    "n": (MATRIX, Operand(uniform(0.1, 2.0, 14))),
    "q": (SQUARE, Operand(uniform(-1.0, 1.0, 15))),
    "s": (SQUARE, Operand(symmetric_definite(16))),
    "r": (SQUARE, Operand(uniform(-1.0, 1.0, 17))),
    "d": (CUBE, Operand(uniform(-2.0, 2.0, 18))),
    "g": (IMAGE, Operand(uniform(0.0, 1.0, 19))),
}


def read(text):
    """The expressions of a text: those that stand there, and those that templates make."""
    found, template = {}, None
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("    "):
            found.update(dict.fromkeys(template.replace("@", name) for name in line.split()))
        elif line.endswith(":"):
            template = line[:-1]
        else:
            found[line] = None
    return list(found)


EXPRESSIONS = read((pathlib.Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8"))
