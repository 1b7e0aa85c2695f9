"""jaxkd: a tree of points, their nearest neighbours, and clusters by k-means."""

import jax
import jax.numpy as jnp
import jaxkd as jk

DISTRIBUTION = "jaxkd"


def main(timed):
    keys = jax.random.split(jax.random.key(0), 2)
    points = jax.random.normal(keys[0], (200, 3))
    query = jax.random.normal(keys[1], (30, 3))

    @timed
    @jax.jit
    def search(points, query):
        return jk.query_neighbors(jk.build_tree(points), query, k=4)

    for _ in range(3):
        neighbours, distances = search(points, query)
    counts = jk.count_neighbors(jk.build_tree(points), query, r=0.7)
    slope = jax.grad(lambda q: jnp.sum(search(points, q)[1]))(query)
    means, labels = jk.extras.k_means(keys[1], points, k=3, steps=8)
    return {
        "neighbours": neighbours,
        "distances": distances,
        "counts": counts,
        "slope": slope,
        "means": means,
        "labels": labels,
    }
