"""Filters, chains of hidden states, sampling and resampling."""

import numpy as np

import workloads
from programs.registry import program


def linear_model(size):
    """(transition, observation, their noises, observations) of a linear Gaussian model."""
    d, m, steps = size(8, 3), size(4, 2), size(300, 6)
    r = workloads.rng()
    a = np.linalg.qr(r.normal(size=(d, d)))[0] * 0.97
    q, s = 0.1 * np.eye(d), 0.3 * np.eye(m)
    model = a, r.normal(size=(m, d)), q, s, r.normal(size=(steps, m))
    return [array.astype(np.float32) for array in model]


def kalman_filter_of(lib):
    jnp, lax = lib.numpy, lib.lax

    def run(a, h, q, s, ys):
        d = len(a)

        def update(state, y):
            mean, cov = state
            mean, cov = a @ mean, a @ cov @ a.T + q
            innovation = y - h @ mean
            spread = h @ cov @ h.T + s
            gain = jnp.linalg.solve(spread, h @ cov).T
            log_p = -0.5 * (
                innovation @ jnp.linalg.solve(spread, innovation)
                + jnp.linalg.slogdet(2 * np.pi * spread)[1]
            )
            mean = mean + gain @ innovation
            cov = (jnp.eye(d) - gain @ h) @ cov
            return (mean, cov), (mean, log_p)

        _, (means, log_ps) = lax.scan(update, (jnp.zeros(d), jnp.eye(d)), ys)
        return means, jnp.sum(log_ps)

    return run


@program()
def kalman_filter(lib, size):
    """A Kalman filter with the likelihood of what it saw."""
    return kalman_filter_of(lib), linear_model(size)


@program()
def kalman_likelihood_gradient(lib, size):
    """The gradient of the likelihood by the parameters of the model, through the filter."""
    run = kalman_filter_of(lib)
    loss = lambda a, h, q, s, ys: -run(a, h, q, s, ys)[1]
    return lib.value_and_grad(loss, argnums=(0, 1, 2, 3)), linear_model(size)


# One particle chosen otherwise, by a last digit, and all behind it meet other noise: what remains
# equal is what 4096 draws tell.
@program(tolerance=0.1)
def particle_filter(lib, size):
    """A bootstrap particle filter of stochastic volatility, with systematic resampling."""
    jnp, lax = lib.numpy, lib.lax
    particles, steps = size(4096, 16), size(40, 4)

    def step(key, ys):
        def update(x, inputs):
            y, key = inputs
            move, pick = lib.random.split(key)
            x = 0.95 * x + 0.3 * lib.random.normal(move, x.shape)
            log_w = -0.5 * (x + y**2 * jnp.exp(-x))
            total = lib.scipy.special.logsumexp(log_w)
            w = jnp.exp(log_w - total)
            points = (jnp.arange(particles) + lib.random.uniform(pick)) / particles
            ancestor = jnp.searchsorted(jnp.cumsum(w), points)
            mean = jnp.sum(w * x)
            return x[jnp.minimum(ancestor, particles - 1)], (mean, total)

        start, walk = lib.random.split(key)
        x = lib.random.normal(start, (particles,))
        return lax.scan(update, x, (ys, lib.random.split(walk, steps)))[1]

    return step, (lib.random.key(0), workloads.f32(steps))


def markov_chain(size):
    """(log start, log transitions, log likelihoods of what was seen)."""
    states, steps = size(64, 4), size(400, 6)
    r = workloads.rng()
    log = lambda x: np.log(x / x.sum(-1, keepdims=True)).astype(np.float32)
    return (
        log(r.uniform(size=states)),
        log(r.uniform(size=(states, states)) ** 3),
        log(r.uniform(size=(steps, states))),
    )


@program()
def viterbi(lib, size):
    """The likeliest path through a hidden Markov model: maxima forward, and the way back."""
    jnp, lax = lib.numpy, lib.lax

    def step(start, transitions, seen):
        def forward(score, likelihood):
            total = score[:, None] + transitions
            return jnp.max(total, axis=0) + likelihood, jnp.argmax(total, axis=0)

        score, parents = lax.scan(forward, start + seen[0], seen[1:])
        last = jnp.argmax(score)
        first, path = lax.scan(lambda s, parent: (parent[s], s), last, parents, reverse=True)
        return jnp.max(score), jnp.concatenate([first[None], path])

    return step, markov_chain(size)


@program()
def hidden_markov_gradient(lib, size):
    """Expected counts of a hidden Markov model, as the gradient of the log likelihood."""
    lax = lib.lax

    def log_likelihood(start, transitions, seen):
        sums = lib.scipy.special.logsumexp

        def forward(a, likelihood):
            return sums(a[:, None] + transitions, axis=0) + likelihood, None

        return sums(lax.scan(forward, start + seen[0], seen[1:])[0])

    return lib.value_and_grad(log_likelihood, argnums=(0, 1, 2)), markov_chain(size)


@program()
def bootstrap(lib, size):
    """Intervals of a mean, a median and a correlation by resampling, under `vmap`."""
    jnp = lib.numpy
    samples, resamples = size(500, 20), size(400, 8)

    def statistics(key, x, y):
        index = lib.random.randint(key, (samples,), 0, samples)
        a, b = x[index], y[index]
        return jnp.array([jnp.mean(a), jnp.median(a), jnp.corrcoef(a, b)[0, 1]])

    def step(key, x, y):
        keys = lib.random.split(key, resamples)
        drawn = lib.vmap(statistics, (0, None, None))(keys, x, y)
        return jnp.percentile(drawn, jnp.array([2.5, 50.0, 97.5]), axis=0)

    x = workloads.f32(samples)
    return step, (lib.random.key(4), x, 0.5 * x + workloads.f32(samples, seed=1))


@program()
def option_pricing(lib, size):
    """An average-price option by Monte Carlo, and its sensitivities by `grad`."""
    jnp, lax = lib.numpy, lib.lax
    paths, days = size(8192, 10), size(40, 4)

    def price(market, key):
        spot, rate, volatility = market["spot"], market["rate"], market["volatility"]
        dt = 1.0 / days

        def day(state, key):
            log_s, total = state
            z = lib.random.normal(key, (paths,))
            log_s = log_s + (rate - 0.5 * volatility**2) * dt + volatility * jnp.sqrt(dt) * z
            return (log_s, total + jnp.exp(log_s)), None

        start = jnp.full(paths, jnp.log(spot)), jnp.zeros(paths)
        (_, total), _ = lax.scan(day, start, lib.random.split(key, days))
        return jnp.exp(-rate) * jnp.mean(jnp.maximum(total / days - 100.0, 0.0))

    market = {"spot": 100.0, "rate": 0.03, "volatility": 0.2}
    market = {name: np.float32(value) for name, value in market.items()}
    return lib.value_and_grad(price), (market, lib.random.key(6))


@program()
def gaussian_mixture(lib, size):
    """Expectation maximization of a mixture of Gaussians with full covariances."""
    jnp, lax = lib.numpy, lib.lax
    n, d, k, rounds = size(4000, 30), size(4, 2), size(8, 2), size(10, 2)

    def step(x, means):
        def densities(mean, cov):
            root = jnp.linalg.cholesky(cov)
            z = lib.scipy.linalg.solve_triangular(root, (x - mean).T, lower=True)
            half_log_det = jnp.sum(jnp.log(jnp.diag(root)))
            return -0.5 * jnp.sum(z**2, axis=0) - half_log_det - 0.5 * d * np.log(2 * np.pi)

        def update(state, _):
            weights, means, covs = state
            joint = lib.vmap(densities)(means, covs) + jnp.log(weights)[:, None]
            total = lib.scipy.special.logsumexp(joint, axis=0)
            r = jnp.exp(joint - total)
            count = jnp.sum(r, axis=1)
            means = (r @ x) / count[:, None]
            centred = x[None] - means[:, None]
            covs = jnp.einsum("kn,kni,knj->kij", r, centred, centred) / count[:, None, None]
            return (count / n, means, covs + 1e-3 * jnp.eye(d)), jnp.mean(total)

        state = jnp.full(k, 1 / k), means, jnp.broadcast_to(jnp.eye(d), (k, d, d))
        return lax.scan(update, state, None, length=rounds)

    r = workloads.rng()
    centers = 3 * r.normal(size=(k, d))
    x = (centers[np.arange(n) % k] + r.normal(size=(n, d))).astype(np.float32)
    return step, (x, x[:k])
