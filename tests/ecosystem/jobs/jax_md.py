"""JAX MD: particles in a periodic box, relaxed, thermostatted and moved with lists of neighbours,
and the stress of a mixture.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, minimize, partition, quantity, simulate, space

DISTRIBUTION = "jax-md"
# Collisions separate orbits; few steps keep the rounding small.
TOLERANCE = 1e-5


def main(timed):
    side = 6.0
    displacement, shift = space.periodic(side)
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2) + 0.5
    start = jnp.asarray(grid, jnp.float32)
    start += 0.1 * jax.random.normal(jax.random.PRNGKey(0), start.shape)
    species = jnp.arange(36) % 2
    sigma = jnp.array([[1.0, 1.1], [1.1, 1.2]])
    soft = energy.soft_sphere_pair(displacement, species=species, sigma=sigma)

    first, move = minimize.fire_descent(soft, shift)
    step = timed(jax.jit(lambda state: (move(state), soft(state.position))))
    state, energies = jax.jit(first)(start), []
    for _ in range(20):
        state, found = step(state)
        energies.append(found)
    relaxed = state.position

    neighbours, attract = energy.lennard_jones_neighbor_list(
        displacement, side, sigma=0.9, r_onset=1.6, r_cutoff=2.0, dr_threshold=0.3,
        format=partition.Sparse,
    )  # fmt: skip
    near = neighbours.allocate(relaxed)
    begin, step = simulate.nve(attract, shift, 2e-3)
    state = jax.jit(lambda near: begin(jax.random.PRNGKey(1), relaxed, kT=0.4, neighbor=near))(near)

    @timed
    @jax.jit
    def steps(state, near):
        def one(_, carry):
            state, near = carry
            near = near.update(state.position)
            return step(state, neighbor=near), near

        state, near = jax.lax.fori_loop(0, 10, one, (state, near))
        kinetic = quantity.kinetic_energy(momentum=state.momentum, mass=state.mass)
        return state, near, attract(state.position, neighbor=near) + kinetic

    totals = []
    for _ in range(4):
        state, near, total = steps(state, near)
        totals.append(total)

    def in_bath(bath, key):
        begin, step = bath
        state = begin(jax.random.PRNGKey(key), relaxed)
        return jax.lax.fori_loop(0, 10, lambda _, state: step(state), state)

    warm = jax.jit(lambda: in_bath(simulate.nvt_nose_hoover(soft, shift, 5e-3, 0.5), 2))()
    langevin = simulate.nvt_langevin(soft, shift, 5e-3, 0.5, gamma=0.3)
    kicked = jax.jit(lambda: in_bath(langevin, 3))()
    scaled, _ = space.periodic_general(side)
    strained = energy.soft_sphere_pair(scaled, species=species, sigma=sigma)
    return {
        "energies": jnp.stack(energies),
        "relaxed": relaxed,
        "moved": state.position,
        "totals": jnp.stack(totals),
        "overflow": near.did_buffer_overflow,
        "warm": warm.position,
        "invariant": jax.jit(simulate.nvt_nose_hoover_invariant, static_argnums=0)(soft, warm, 0.5),
        "kicked": kicked.position,
        "stress": jax.jit(lambda x: quantity.stress(strained, x, side * jnp.eye(2)))(
            relaxed / side
        ),
    }
