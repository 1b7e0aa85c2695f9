"""Quax: an array type that knows it is diagonal, with rules of its own, inside jit and grad."""

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from jax import core  # noqa: F401

DISTRIBUTION = "quax"


class Diagonal(quax.ArrayValue):
    values: jax.Array

    def aval(self):
        n = self.values.shape[0]
        return jax.core.ShapedArray((n, n), self.values.dtype)

    def materialise(self):
        return jnp.diag(self.values)


@quax.register(jax.lax.dot_general_p)
def _(lhs: Diagonal, rhs: Diagonal, *, dimension_numbers, **params):
    return Diagonal(lhs.values * rhs.values)


@quax.register(jax.lax.dot_general_p)
def _(lhs: Diagonal, rhs: jax.Array, *, dimension_numbers, **params):
    if dimension_numbers != (((1,), (0,)), ((), ())):
        raise NotImplementedError("only plain products")
    scale = lhs.values if rhs.ndim == 1 else lhs.values[:, None]
    return scale * rhs


@quax.register(jax.lax.add_p)
def _(x: Diagonal, y: Diagonal):
    return Diagonal(x.values + y.values)


def apply(d, x):
    return (d @ d + d) @ x


def main(timed):
    d = Diagonal(jnp.arange(1.0, 5.0))
    x = jnp.linspace(0, 1, 4)
    run = timed(eqx.filter_jit(quax.quaxify(apply)))
    for _ in range(5):
        out = run(d, x)
    grad = jax.grad(lambda v: jnp.sum(quax.quaxify(apply)(Diagonal(v), x) ** 2))(d.values)
    both = quax.quaxify(lambda a, b: a + b)(d, d)
    return {
        "out": out,
        "grad": grad,
        "still": isinstance(both, Diagonal),
        "materialised": quax.quaxify(jnp.sin)(d),
    }
