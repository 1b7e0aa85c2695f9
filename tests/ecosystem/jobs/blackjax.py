"""BlackJAX: Hamiltonian, adaptive and tempered samplers of a curved density."""

import blackjax
import blackjax.smc.resampling as resampling
import jax
import jax.numpy as jnp

DISTRIBUTION = "blackjax"
# A chain of Hamiltonian steps doubles a difference of rounding every few steps: in single precision
# one in the last digit of the start is another chain, in double precision some 1e-8.
TOLERANCE = 1e-5
jax.config.update("jax_enable_x64", True)


def logdensity(x):
    return -0.5 * (x["a"] ** 2 / 2 + 3 * jnp.sum((x["b"] - 0.3 * x["a"] ** 2) ** 2))


def chain(kernel, state, key, steps):
    def advance(state, key):
        state, info = kernel(key, state)
        return state, (state.position, info.acceptance_rate)

    return jax.lax.scan(advance, state, jax.random.split(key, steps))


def tempered(key):
    smc = blackjax.adaptive_tempered_smc(
        lambda x: -0.5 * jnp.sum(x**2, -1) / 9,
        lambda x: -jnp.sum((x - 1.0) ** 2, -1) * 4,
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        {
            "step_size": jnp.array([0.2]),
            "inverse_mass_matrix": jnp.ones((1, 2)),
            "num_integration_steps": jnp.array([5]),
        },
        resampling.systematic, 0.6, num_mcmc_steps=2,
    )  # fmt: skip
    state = smc.init(3.0 * jax.random.normal(key, (60, 2)))
    step = jax.jit(smc.step)
    for i in range(4):
        state, _ = step(jax.random.fold_in(key, i), state)
    return state


def main(timed):
    position = {"a": jnp.array(0.5), "b": jnp.array([0.2, -0.1])}
    warmup = blackjax.window_adaptation(blackjax.nuts, logdensity, is_mass_matrix_diagonal=True)
    (state, tuned), _ = warmup.run(jax.random.key(0), position, num_steps=100)
    nuts = blackjax.nuts(logdensity, **tuned)
    sample = timed(jax.jit(lambda state, key: chain(nuts.step, state, key, 40)))
    for _ in range(3):
        _, (positions, rates) = sample(state, jax.random.key(1))
    hmc = blackjax.hmc(logdensity, 0.1, jnp.ones(3), 8)
    _, (from_hmc, hmc_rates) = chain(hmc.step, hmc.init(position), jax.random.key(2), 10)
    mala = blackjax.mala(logdensity, 0.05)
    _, (from_mala, _) = chain(mala.step, mala.init(position), jax.random.key(3), 10)
    particles = tempered(jax.random.key(4))
    path, _ = blackjax.pathfinder.approximate(
        jax.random.key(5), logdensity, position, num_samples=20, ftol=1e-6
    )
    return {
        "step_size": tuned["step_size"],
        "first": positions["a"][:4],
        "mean": positions["b"].mean(0),
        "rate": rates.mean(),
        "hmc": from_hmc["a"],
        "hmc_rate": hmc_rates,
        "mala": from_mala["b"],
        "tempering": particles.tempering_param,
        "particles": particles.particles.mean(0),
        "pathfinder": path.elbo,
    }
