"""The compositional stress test: every nesting of the transformations up to depth four.

Each transformation is written as an operator from functions R^3 -> R^3 to functions R^3 -> R^3, so
that any sequence of them can be applied to any base function. The reference is a small forward-mode
differentiation in NumPy (`dual_numbers`), itself compared with finite differences below.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from dual_numbers import Dual, Reference, forward, stack
from weft import lax

POINT = np.array([0.3, -0.7, 0.5])
DIRECTION = np.array([1.0, 0.5, -0.25])
WEIGHTS = np.array([0.5, 1.0, -1.5])
SCALES = np.array([1.0, 0.5])
MATRIX = np.array([[0.2, -0.5, 0.3], [0.7, 0.1, -0.4], [-0.3, 0.6, 0.5]])
OFFSET = np.array([0.1, -0.2, 0.3])


class Weft:
    """The same operations of weft."""

    sin, cos, exp, tanh = jnp.sin, jnp.cos, jnp.exp, jnp.tanh
    sum, jit = jnp.sum, weft.jit
    _constants: dict[bytes, object] = {}

    @staticmethod
    def product(matrix, x):
        return jnp.matmul(Weft.constant(matrix), x)

    @staticmethod
    def constant(value):
        key = value.tobytes()
        if key not in Weft._constants:
            Weft._constants[key] = jnp.array(value, np.float64)
        return Weft._constants[key]

    @staticmethod
    def cond(positive, when, otherwise, x):
        return lax.cond(positive > 0, when, otherwise, x)


# ---- the base functions ------------------------------------------------------------------------


def polynomial(op, x):
    return x * x * x * 0.5 - x * 2.0 + op.sum(x * x) * x + 1.0


def chain(op, x):
    return op.exp(op.sin(x) * 0.5) * op.cos(x)


def layer(op, x):
    return op.tanh(op.product(MATRIX, x) + op.constant(OFFSET))


def conditional(op, x):
    return op.cond(
        op.sum(x),
        lambda y: op.sin(y) * op.constant(OFFSET) * y,
        lambda y: op.exp(-y) * y + x * 0.5,
        x * 1.5,
    )


def closures(op, x):
    k = op.constant(OFFSET)

    def inner(y):
        return op.jit(lambda z: op.sin(z) * x * k + y)(y * 0.5)

    return inner(x) * op.jit(lambda: x + k)()


def reductions(op, x):
    return op.sum(x[1:] * x[:2]) * x + x[0] * op.cos(x) - op.sum(op.sin(x)) * op.constant(OFFSET)


def identity(op, x):
    return x


def constant(op, x):
    return op.constant(OFFSET)


BASES = [polynomial, chain, layer, conditional, closures, reductions, identity, constant]


# ---- the transformations -----------------------------------------------------------------------


def by_jit(f):
    return weft.jit(f)


def by_jvp(f):
    return lambda x: weft.jvp(f, (x,), (Weft.constant(DIRECTION),))[1]


def by_linearize(f):
    return lambda x: weft.linearize(f, x)[1](Weft.constant(DIRECTION))


def by_vjp(f):
    return lambda x: weft.vjp(f, x)[1](Weft.constant(WEIGHTS))[0]


def by_grad(f):
    return weft.grad(lambda x: jnp.sum(Weft.constant(WEIGHTS) * f(x)))


def by_vmap(f):
    def mapped(x):
        rows = weft.vmap(lambda s: f(s * x))(Weft.constant(SCALES))
        return jnp.sum(rows, 0)

    return mapped


TRANSFORMATIONS = {
    "jit": by_jit,
    "jvp": by_jvp,
    "linearize": by_linearize,
    "vjp": by_vjp,
    "grad": by_grad,
    "vmap": by_vmap,
}
# What each means: jit nothing; two forward, two reverse derivatives with the same vectors; a sum.
MEANING = {"jit": "", "jvp": "F", "linearize": "F", "vjp": "R", "grad": "R", "vmap": "V"}


def meaning(word, f):
    """The reference of a sequence of transformations, innermost first."""
    for letter in word:
        f = {"F": reference_forward, "R": reference_reverse, "V": reference_map}[letter](f)
    return f


def reference_forward(f):
    return lambda x: forward(f, x, DIRECTION)


def reference_reverse(f):
    def reverse(x):
        columns = []
        for basis in np.eye(3):
            columns.append(Reference.sum(forward(f, x, basis) * WEIGHTS))
        return stack(columns)

    return reverse


def reference_map(f):
    return lambda x: functools.reduce(lambda a, b: a + b, [f(x * s) for s in SCALES])


@functools.cache
def reference_value(base, word):
    out = meaning(word, functools.partial(base, Reference))(POINT)
    while isinstance(out, Dual):
        out = out.a
    return np.asarray(out)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_the_reference_agrees_with_finite_differences(base):
    f = functools.partial(base, Reference)
    step = 1e-6
    for word in ("", "F", "R", "V", "FV", "VR", "RF"):
        g = meaning(word, f)
        moved = (g(POINT + step * DIRECTION) - g(POINT - step * DIRECTION)) / (2 * step)
        np.testing.assert_allclose(reference_value(base, word + "F"), moved, atol=2e-7)
        jacobian = np.stack(
            [(g(POINT + step * e) - g(POINT - step * e)) / (2 * step) for e in np.eye(3)], 1
        )
        np.testing.assert_allclose(reference_value(base, word + "R"), WEIGHTS @ jacobian, atol=2e-7)


# ---- the test ----------------------------------------------------------------------------------


def sequences(length):
    return list(itertools.product(TRANSFORMATIONS, repeat=length))


def check(base, sequence):
    f = functools.partial(base, Weft)
    for name in sequence:
        f = TRANSFORMATIONS[name](f)
    got = f(jnp.array(POINT, np.float64))
    wanted = reference_value(base, "".join(MEANING[name] for name in sequence))
    label = f"{' of '.join(reversed(sequence))} of {base.__name__}"
    assert got.shape == (3,) and got.dtype == np.float64, label
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-9, atol=1e-9, err_msg=label)


def run(base, chosen):
    """Checks sequences of one base function; says how many, and every one that fails."""
    failures = []
    for sequence in chosen:
        try:
            check(base, sequence)
        except AssertionError as error:
            failures.append(str(error))
        except Exception as error:
            error.add_note(f"{' of '.join(reversed(sequence))} of {base.__name__}")
            raise
    print(f"{base.__name__}: {len(chosen)} compositions")
    assert not failures, f"{len(failures)} of {len(chosen)}:\n" + "\n".join(failures[:5])


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_every_composition_up_to_depth_three(base, length):
    run(base, sequences(length))


# Depth four: 1296 compositions of each base function. The quick tests take a twenty-fourth of them,
# another one for each function; the slow tests take all.
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_a_share_of_the_compositions_of_depth_four(base):
    everything = sequences(4)
    run(base, everything[BASES.index(base) :: 24])


@pytest.mark.slow
@pytest.mark.parametrize("innermost", TRANSFORMATIONS)
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_every_composition_of_depth_four(base, innermost):
    run(base, [sequence for sequence in sequences(4) if sequence[0] == innermost])


def test_the_count_of_compositions():
    assert [len(sequences(n)) * len(BASES) for n in (1, 2, 3, 4)] == [48, 288, 1728, 10368]
