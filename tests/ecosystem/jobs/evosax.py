"""evosax: four evolution strategies on a narrow valley, and one on the weights of a network."""

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES, PSO, DifferentialEvolution, Open_ES, SNES

DISTRIBUTION = "evosax"
# Members are ranked: two that are equal up to rounding may change places.
TOLERANCE = 1e-3


def valley(x):
    return jnp.sum(10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def minimize(strategy, timed, population_based):
    params = strategy.default_params
    key = jax.random.key(0)
    start = jnp.full(4, 0.3)
    if population_based:
        members = start + 0.3 * jax.random.normal(key, (16, 4))
        state = strategy.init(key, members, jax.vmap(valley)(members), params)
    else:
        state = strategy.init(key, start, params)

    @timed
    @jax.jit
    def generation(state, key):
        one, other = jax.random.split(key)
        members, state = strategy.ask(one, state, params)
        state, _ = strategy.tell(other, members, jax.vmap(valley)(members), state, params)
        return state, state.best_fitness

    best = []
    for key in jax.random.split(jax.random.key(1), 15):
        state, fitness = generation(state, key)
        best.append(fitness)
    return jnp.stack(best)


def main(timed):
    found = {}
    for kind in (CMA_ES, SNES, Open_ES, PSO, DifferentialEvolution):
        strategy = kind(population_size=16, solution=jnp.zeros(4))
        by_population = kind in (PSO, DifferentialEvolution)
        found[kind.__name__] = minimize(strategy, timed, by_population)
    return found
