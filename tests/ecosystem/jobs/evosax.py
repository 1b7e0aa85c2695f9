"""evosax: three evolution strategies on a narrow valley."""

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES, PSO, SNES

DISTRIBUTION = "evosax"
# Members are ranked: two that are equal up to rounding may change places.
TOLERANCE = 1e-3


def valley(x):
    return jnp.sum(10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def minimize(strategy, by_population, key):
    params = strategy.default_params
    start = jnp.full(4, 0.3)
    if by_population:
        members = start + 0.3 * jax.random.normal(key, (16, 4))
        state = strategy.init(key, members, jax.vmap(valley)(members), params)
    else:
        state = strategy.init(key, start, params)

    def generation(state, key):
        one, other = jax.random.split(key)
        members, state = strategy.ask(one, state, params)
        state, _ = strategy.tell(other, members, jax.vmap(valley)(members), state, params)
        return state, state.best_fitness

    return jax.lax.scan(generation, state, jax.random.split(key, 15))[1]


def main(timed):
    found = {}
    for kind in (CMA_ES, SNES, PSO):
        strategy = kind(population_size=16, solution=jnp.zeros(4))
        by_population = kind is PSO
        run = timed(jax.jit(lambda key, s=strategy, p=by_population: minimize(s, p, key)))
        for _ in range(3):
            found[kind.__name__] = run(jax.random.key(1))
    return found
