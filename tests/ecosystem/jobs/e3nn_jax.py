"""e3nn-jax: spherical harmonics, tensor products and gates of a message between atoms,
equivariant.
"""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

DISTRIBUTION = "e3nn-jax"
# Sums of products of Clebsch-Gordan coefficients.
TOLERANCE = 1e-5


def main(timed):
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    positions = jax.random.normal(keys[0], (5, 3))
    senders, receivers = jnp.array([0, 1, 2, 3, 4, 0]), jnp.array([1, 2, 3, 4, 0, 2])
    nodes = e3nn.normal("4x0e + 2x1o", keys[1], (5,))
    linear = e3nn.FunctionalLinear(
        e3nn.tensor_product(nodes.irreps, "0e + 1o + 2e"), "4x0e + 2x0e + 2x1o"
    )
    weights = jax.random.normal(keys[2], (linear.num_weights,))

    def message(positions, nodes):
        edges = e3nn.IrrepsArray("1o", positions[receivers] - positions[senders])
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", edges, True)
        sent = e3nn.tensor_product(nodes[senders], harmonics)
        mixed = jax.vmap(lambda x: linear(weights, x))(sent) / 5
        return e3nn.gate(e3nn.scatter_sum(mixed, dst=receivers, output_size=5))

    step = timed(jax.jit(message))
    for _ in range(4):
        out = step(positions, nodes)
    turn = e3nn.rand_matrix(keys[3], ())
    turn_all = jax.jit(lambda array: array.transform_by_matrix(turn))
    turned = step(positions @ turn.T, turn_all(nodes))
    grad = jax.jit(jax.grad(lambda p: jnp.sum(message(p, nodes).array ** 2)))(positions)
    return {
        "out": out.array,
        "grad": grad,
        "equivariant": jnp.allclose(turned.array, turn_all(out).array, atol=1e-4),
        "harmonics": e3nn.sh("2e", jnp.array([0.1, 0.5, -0.3]), True),
        "bessel": e3nn.bessel(jnp.linspace(0.1, 1.9, 4), 3, 2.0),
        "dim": e3nn.Irreps("2x0e + 3x2o").dim,
    }
