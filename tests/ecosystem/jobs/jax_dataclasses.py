"""jax_dataclasses: frozen trees with static fields, copied and changed, through jit and grad."""

import jax
import jax.numpy as jnp
import jax_dataclasses as jdc

DISTRIBUTION = "jax-dataclasses"


@jdc.pytree_dataclass
class Spring:
    stiffness: jax.Array
    rest: jax.Array
    name: jdc.Static[str] = "spring"


@jdc.pytree_dataclass
class Chain:
    springs: Spring
    masses: jax.Array
    order: jdc.Static[int] = 2


def energy(chain, x):
    stretch = jnp.diff(x) - chain.springs.rest
    return jnp.sum(chain.springs.stiffness * jnp.abs(stretch) ** chain.order) / 2


@jdc.jit
def step(chain, x, v, count: jdc.Static[int]):
    for _ in range(count):
        v = v - 0.02 * jax.grad(energy, argnums=1)(chain, x) / chain.masses
        x = x + 0.02 * v
    return x, v


def main(timed):
    chain = Chain(Spring(jnp.array([3.0, 1.0, 2.0]), jnp.ones(3)), jnp.arange(1.0, 5.0))
    x, v = jnp.array([0.0, 1.2, 1.9, 3.3]), jnp.zeros(4)
    run = timed(lambda x, v: step(chain, x, v, 4))
    for _ in range(20):
        x, v = run(x, v)
    with jdc.copy_and_mutate(chain) as heavier:
        heavier.masses = chain.masses * 2
    grad = jax.grad(energy)(chain, x)
    return {
        "x": x,
        "v": v,
        "masses": heavier.masses,
        "stiffness": grad.springs.stiffness,
        "leaves": len(jax.tree.leaves(chain)),
    }
