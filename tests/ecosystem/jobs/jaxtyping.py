"""jaxtyping: shapes and dtypes checked at calls, also inside jit and for trees."""

import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Scalar, TypeCheckError, jaxtyped

DISTRIBUTION = "jaxtyping"


@jaxtyped(typechecker=beartype)
def attend(
    query: Float[Array, "*batch n d"],
    key: Float[Array, "*batch m d"],
    value: Float[Array, "*batch m e"],
) -> Float[Array, "*batch n e"]:
    weights = jax.nn.softmax(query @ jnp.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5)
    return weights @ value


@jaxtyped(typechecker=beartype)
def total(tree: PyTree[Float[Array, "?n"], "T"]) -> Scalar:
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))


@jaxtyped(typechecker=beartype)
def draw(key: PRNGKeyArray, count: Int[Array, ""]) -> Float[Array, "3"]:
    return jax.random.normal(key, (3,)) * count


def refused(f, *args):
    try:
        f(*args)
    except TypeCheckError:
        return True
    return False


def main(timed):
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (2, 5, 4)) for key in keys)
    run = timed(jax.jit(attend))
    for _ in range(5):
        out = run(q, k, v)
    return {
        "out": out,
        "shape": refused(attend, q, k[..., :3], v),
        "dtype": refused(attend, q.astype(int), k, v),
        "traced": refused(jax.jit(attend), q, k, v[:, :4]),
        "total": total({"a": jnp.ones(3), "b": [jnp.arange(4.0)]}),
        "drawn": draw(jax.random.key(1), jnp.array(2)),
        "is": isinstance(q, Float[Array, "2 5 4"]),
        "is_not": isinstance(q, Float[Array, "2 5"]),
    }
