"""Optimizers, fixed points and other iterations."""

import numpy as np

import workloads
from programs.registry import program


@program()
def quasi_newton(lib, size):
    """BFGS of a logistic regression until it is solved, by `scipy.optimize.minimize`."""
    jnp = lib.numpy
    n, d = size(2000, 20), size(24, 2)

    def step(w, x, y):
        loss = lambda w: jnp.mean(jnp.logaddexp(0.0, -y * (x @ w))) + 0.05 * w @ w
        found = lib.scipy.optimize.minimize(loss, w, method="BFGS", options={"gtol": 1e-4})
        return found.x, found.fun

    x = workloads.f32(n, d)
    y = np.sign(x[:, 0] + workloads.f32(n, seed=1))
    return step, (np.zeros(d, np.float32), x, y)


@program()
def curve_fitting(lib, size):
    """Levenberg and Marquardt's method with `jacfwd`, for many curves at once."""
    jnp, lax = lib.numpy, lib.lax
    curves, points, rounds = size(256, 3), size(64, 8), size(10, 3)

    def fit(t, y):
        def residual(p):
            return p[0] * jnp.exp(-p[1] * t) * jnp.cos(p[2] * t + p[3]) - y

        def improve(state, _):
            p, damping = state
            r, j = residual(p), lib.jacfwd(residual)(p)
            normal = j.T @ j
            move = jnp.linalg.solve(normal + damping * jnp.eye(4), j.T @ r)
            better = jnp.sum(residual(p - move) ** 2) < jnp.sum(r**2)
            p = jnp.where(better, p - move, p)
            return (p, jnp.where(better, damping * 0.3, damping * 4)), jnp.sum(r**2)

        start = jnp.array([1.0, 0.5, 3.0, 0.0]), jnp.float32(0.1)
        (p, _), losses = lax.scan(improve, start, None, length=rounds)
        return p, losses

    t = np.linspace(0, 3, points, dtype=np.float32)
    p = 1 + 0.1 * workloads.f32(4, curves, 1)
    y = p[0] * np.exp(-0.5 * p[1] * t) * np.cos(3 * p[2] * t)
    return lib.vmap(fit, (None, 0)), (t, y.astype(np.float32))


@program()
def page_rank(lib, size):
    """The ranks of pages: sums over links until they change little."""
    jnp, lax = lib.numpy, lib.lax
    pages, links = size(5000, 8), size(40000, 24)

    def step(source, target):
        out = jnp.zeros(pages).at[source].add(1.0)

        def spread(state):
            rank, _, count = state
            flow = (rank / jnp.maximum(out, 1.0))[source]
            new = lib.ops.segment_sum(flow, target, num_segments=pages)
            lost = jnp.sum(jnp.where(out == 0, rank, 0.0))
            new = 0.85 * (new + lost / pages) + 0.15 / pages
            return new, jnp.sum(jnp.abs(new - rank)), count + 1

        start = jnp.full(pages, 1 / pages), 1.0, 0
        goes_on = lambda state: (state[1] > 1e-5) & (state[2] < 40)
        return lax.while_loop(goes_on, spread, start)[0]

    ends = workloads.rng().zipf(1.5, (2, links)) % pages
    return step, tuple(ends.astype(np.int32))


@program()
def deep_equilibrium(lib, size):
    """A fixed point of a layer, with its implicit derivative by `custom_vjp`."""
    jnp, lax = lib.numpy, lib.lax
    batch, d = size(32, 3), size(96, 4)

    def layer(p, x, z):
        return jnp.tanh(z @ p["w"] + x @ p["u"])

    def fixed_point(f, z):
        def improve(state):
            z, _, count = state
            new = f(z)
            return new, jnp.max(jnp.abs(new - z)), count + 1

        goes_on = lambda state: (state[1] > 1e-5) & (state[2] < 100)
        return lax.while_loop(goes_on, improve, (z, jnp.float32(1.0), 0))[0]

    @lib.custom_vjp
    def solve(p, x):
        return fixed_point(lambda z: layer(p, x, z), jnp.zeros((batch, d)))

    def forward(p, x):
        z = solve(p, x)
        return z, (p, x, z)

    def backward(kept, cotangent):
        p, x, z = kept
        _, by_z = lib.vjp(lambda z: layer(p, x, z), z)
        u = fixed_point(lambda u: cotangent + by_z(u)[0], cotangent)
        return lib.vjp(lambda p, x: layer(p, x, z), p, x)[1](u)

    solve.defvjp(forward, backward)

    def step(p, x, y):
        return lib.value_and_grad(lambda p: jnp.mean((solve(p, x) - y) ** 2))(p)

    p = {"w": workloads.f32(d, d, scale=0.5 / np.sqrt(d)), "u": workloads.f32(d, d, seed=1)}
    return step, (p, workloads.f32(batch, d, seed=2), workloads.f32(batch, d, seed=3))


@program()
def value_iteration(lib, size):
    """The values and the policy of a Markov decision process."""
    jnp, lax = lib.numpy, lib.lax
    states, actions, rounds = size(200, 6), size(8, 2), size(40, 5)

    def step(p, reward):
        def improve(_, v):
            return jnp.max(reward + 0.95 * jnp.einsum("ast,t->sa", p, v), axis=1)

        v = lax.fori_loop(0, rounds, improve, jnp.zeros(states))
        return v, jnp.argmax(reward + 0.95 * jnp.einsum("ast,t->sa", p, v), axis=1)

    p = workloads.rng().uniform(size=(actions, states, states)) ** 8
    p = (p / p.sum(-1, keepdims=True)).astype(np.float32)
    return step, (p, workloads.f32(states, actions))


@program()
def model_predictive_control(lib, size):
    """Steps of gradient descent on the controls of a car, through its simulated path."""
    jnp, lax = lib.numpy, lib.lax
    cars, horizon, rounds = size(128, 2), size(40, 4), size(10, 2)

    def cost(controls, start, goal):
        def drive(s, u):
            x, y, angle, speed = s
            s = jnp.array([
                x + 0.1 * speed * jnp.cos(angle), y + 0.1 * speed * jnp.sin(angle),
                angle + 0.1 * u[0], speed + 0.1 * u[1],
            ])  # fmt: skip
            return s, jnp.sum((s[:2] - goal) ** 2) + 0.1 * jnp.sum(u**2)

        return jnp.mean(lax.scan(drive, start, controls)[1])

    def plan(start, goal):
        def improve(controls, _):
            value, gradient = lib.value_and_grad(cost)(controls, start, goal)
            return controls - 0.1 * gradient, value

        return lax.scan(improve, jnp.zeros((horizon, 2)), None, length=rounds)

    return lib.vmap(plan), (workloads.f32(cars, 4), workloads.f32(cars, 2, seed=1))


@program()
def matrix_factorization(lib, size):
    """Alternating least squares of a table with gaps: a system solved for every row."""
    jnp, lax = lib.numpy, lib.lax
    rows, columns, k, rounds = size(200, 6), size(150, 5), size(8, 2), size(2, 1)

    def step(table, known, u, v):
        def solve_rows(other, values, mask):
            def row(values, mask):
                weighted = other * mask[:, None]
                return jnp.linalg.solve(weighted.T @ other + 0.1 * jnp.eye(k), weighted.T @ values)

            return lib.vmap(row)(values, mask)

        def alternate(_, factors):
            u, v = factors
            u = solve_rows(v, table, known)
            return u, solve_rows(u, table.T, known.T)

        u, v = lax.fori_loop(0, rounds, alternate, (u, v))
        return u @ v.T, jnp.sum(known * (u @ v.T - table) ** 2)

    known = (workloads.rng().uniform(size=(rows, columns)) < 0.5).astype(np.float32)
    u, v = workloads.f32(rows, k), workloads.f32(columns, k, seed=1)
    return step, (u @ v.T * known, known, u + 0.1, v + 0.1)
