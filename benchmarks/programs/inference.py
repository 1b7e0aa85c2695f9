"""Bayesian inference and statistics: chains, processes, flows and transport."""

import numpy as np

import workloads
from programs.registry import program


@program()
def hamiltonian_monte_carlo(lib, size):
    """Chains of HMC for a logistic regression: leapfrog by `fori_loop`, draws by `scan`."""
    jnp, lax = lib.numpy, lib.lax
    n, d, chains, draws = size(500, 12), size(16, 3), size(4, 2), size(20, 3)

    def step(key, start, x, y):
        def log_density(w):
            return jnp.sum(lib.nn.log_sigmoid(y * (x @ w))) - 0.5 * jnp.sum(w**2)

        force = lib.grad(log_density)

        def leapfrog(_, state):
            w, p = state
            p = p + 0.01 * force(w)
            w = w + 0.02 * p
            return w, p + 0.01 * force(w)

        def draw(w, key):
            k1, k2 = lib.random.split(key)
            p = lib.random.normal(k1, w.shape)
            new, q = lax.fori_loop(0, 10, leapfrog, (w, p))
            change = log_density(new) - log_density(w) + 0.5 * (p @ p - q @ q)
            accept = jnp.log(lib.random.uniform(k2)) < change
            return jnp.where(accept, new, w), (jnp.where(accept, new, w), accept)

        def chain(key, w):
            return lax.scan(draw, w, lib.random.split(key, draws))[1]

        return lib.vmap(chain)(lib.random.split(key, chains), start)

    x = workloads.f32(n, d)
    y = np.sign(x @ workloads.f32(d, seed=1) + workloads.f32(n, seed=2))
    return step, (lib.random.key(0), workloads.f32(chains, d, seed=3, scale=0.1), x, y)


def kernel(jnp, a, b, p):
    square = jnp.sum((a[:, None] - b[None]) ** 2 / jnp.exp(2 * p["log_scale"]), axis=-1)
    return jnp.exp(2 * p["log_height"] - 0.5 * square)


def regression(size):
    n, d = size(256, 8), size(3, 2)
    x = workloads.f32(n, d)
    names = {"log_scale": np.zeros(d), "log_height": np.zeros(()), "log_noise": np.full((), -1.0)}
    p = {name: value.astype(np.float32) for name, value in names.items()}
    return p, x, np.sin(x.sum(1)).astype(np.float32)


@program()
def gaussian_process_training(lib, size):
    """The marginal likelihood of a Gaussian process and its gradient, through Cholesky."""
    jnp = lib.numpy

    def loss(p, x, y):
        k = kernel(jnp, x, x, p) + jnp.exp(2 * p["log_noise"]) * jnp.eye(len(x))
        root = jnp.linalg.cholesky(k)
        z = lib.scipy.linalg.solve_triangular(root, y, lower=True)
        return 0.5 * z @ z + jnp.sum(jnp.log(jnp.diag(root)))

    return lib.value_and_grad(loss), regression(size)


@program()
def gaussian_process_prediction(lib, size):
    """Means and variances of a Gaussian process at new points."""
    jnp = lib.numpy

    def step(p, x, y, new):
        k = kernel(jnp, x, x, p) + jnp.exp(2 * p["log_noise"]) * jnp.eye(len(x))
        factor = lib.scipy.linalg.cho_factor(k, lower=True)
        cross = kernel(jnp, new, x, p)
        mean = cross @ lib.scipy.linalg.cho_solve(factor, y)
        spread = lib.scipy.linalg.solve_triangular(factor[0], cross.T, lower=True)
        return mean, jnp.exp(2 * p["log_height"]) - jnp.sum(spread**2, axis=0)

    p, x, y = regression(size)
    return step, (p, x, y, workloads.f32(size(400, 3), x.shape[1], seed=5))


@program()
def variational_inference(lib, size):
    """Steps of automatic variational inference, with gradients through drawn numbers."""
    jnp, lax = lib.numpy, lib.lax
    n, d, rounds = size(1000, 10), size(16, 3), size(20, 3)

    def step(q, key, x, y):
        def log_joint(w):
            rate = jnp.exp(jnp.clip(x @ w, -5.0, 5.0))
            return jnp.sum(lib.scipy.stats.poisson.logpmf(y, rate)) - 0.5 * jnp.sum(w**2)

        def loss(q, key):
            noise = lib.random.normal(key, (4, d))
            draws = q["mean"] + jnp.exp(q["log_std"]) * noise
            return -jnp.mean(lib.vmap(log_joint)(draws)) - jnp.sum(q["log_std"])

        def update(q, key):
            value, gradient = lib.value_and_grad(loss)(q, key)
            return lib.tree_util.tree_map(lambda a, g: a - 1e-4 * g, q, gradient), value

        return lax.scan(update, q, lib.random.split(key, rounds))

    q = {"mean": np.zeros(d, np.float32), "log_std": np.full(d, -2, np.float32)}
    x = workloads.f32(n, d, scale=0.3)
    y = workloads.rng(1).poisson(1.0, n).astype(np.int32)
    return step, (q, lib.random.key(1), x, y)


@program()
def normalizing_flow(lib, size):
    """The gradient of the likelihood under a flow of affine couplings."""
    jnp = lib.numpy
    n, d, width, layers = size(512, 5), size(16, 4), size(64, 3), size(6, 2)

    def log_density(p, x):
        log_det = 0.0
        for k, layer in enumerate(p):
            a, b = jnp.split(x, 2, axis=-1)
            if k % 2:
                a, b = b, a
            h = jnp.tanh(a @ layer["w1"] + layer["b1"])
            scale, shift = jnp.split(h @ layer["w2"], 2, axis=-1)
            scale = jnp.tanh(scale)
            b = b * jnp.exp(scale) + shift
            log_det = log_det + jnp.sum(scale, axis=-1)
            x = jnp.concatenate([b, a] if k % 2 else [a, b], axis=-1)
        return jnp.sum(lib.scipy.stats.norm.logpdf(x), axis=-1) + log_det

    p = [
        {
            "w1": workloads.f32(d // 2, width, seed=k, scale=0.3),
            "b1": np.zeros(width, np.float32),
            "w2": workloads.f32(width, d, seed=k + 20, scale=0.1),
        }
        for k in range(layers)
    ]
    loss = lambda p, x: -jnp.mean(log_density(p, x))
    return lib.value_and_grad(loss), (p, workloads.f32(n, d, seed=9))


@program()
def optimal_transport(lib, size):
    """Sinkhorn's iterations in logarithms, and the gradient of the cost by the points."""
    jnp, lax = lib.numpy, lib.lax
    n, rounds = size(200, 6), size(20, 4)

    def cost(x, y):
        c = jnp.sum((x[:, None] - y[None]) ** 2, axis=-1)
        sums = lib.scipy.special.logsumexp

        def round_of(state, _):
            f, g = state
            f = -0.1 * (sums((g[None] - c) / 0.1, axis=1) - np.log(n))
            g = -0.1 * (sums((f[:, None] - c) / 0.1, axis=0) - np.log(n))
            return (f, g), None

        (f, g), _ = lax.scan(round_of, (jnp.zeros(n), jnp.zeros(n)), None, length=rounds)
        plan = jnp.exp((f[:, None] + g[None] - c) / 0.1) / n**2
        return jnp.sum(plan * c)

    return lib.value_and_grad(cost), (workloads.f32(n, 2), workloads.f32(n, 2, seed=1) + 0.5)


@program()
def survival_regression(lib, size):
    """Cox's partial likelihood: a sort, sums from the end, and Newton's steps by `hessian`."""
    jnp, lax = lib.numpy, lib.lax
    n, d = size(1000, 12), size(12, 2)

    def step(w, times, observed, x):
        order = jnp.argsort(-times)
        seen, rows = observed[order], x[order]

        def loss(w):
            risk = rows @ w
            peak = lax.stop_gradient(jnp.max(risk))
            at_risk = jnp.log(jnp.cumsum(jnp.exp(risk - peak))) + peak
            return -jnp.mean(seen * (risk - at_risk)) + 1e-3 * w @ w

        for _ in range(3):
            w = w - jnp.linalg.solve(lib.hessian(loss)(w), lib.grad(loss)(w))
        return w, loss(w)

    r = workloads.rng()
    x = workloads.f32(n, d)
    times = r.exponential(np.exp(-x[:, 0])).astype(np.float32)
    observed = (r.uniform(size=n) < 0.7).astype(np.float32)
    return step, (np.zeros(d, np.float32), times, observed, x)
