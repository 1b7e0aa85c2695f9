"""Differential equations and matrices: elements, adjoints, decompositions."""

import numpy as np

import workloads
from programs.registry import program


@program()
def finite_elements(lib, size):
    """Linear elements on triangles: stiffness assembled by scatter, conjugate gradients."""
    jnp = lib.numpy
    n, most = size(48, 5), size(40, 9)
    index = np.arange(n * n).reshape(n, n)
    squares = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    a, b, c, d = (corner.ravel() for corner in squares)
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32)
    inside = np.zeros((n, n), bool)
    inside[1:-1, 1:-1] = True

    def element(corners):
        """The stiffness of a triangle, and its area."""
        edges = jnp.stack([corners[2] - corners[1], corners[0] - corners[2],
                           corners[1] - corners[0]])  # fmt: skip
        area = 0.5 * jnp.abs(edges[0, 0] * edges[1, 1] - edges[0, 1] * edges[1, 0])
        return edges @ edges.T / (4 * area), area

    def step(points, triangles, inside, source):
        stiffness, area = lib.vmap(element)(points[triangles])
        load = jnp.zeros(n * n).at[triangles].add((area / 3 * source[triangles].mean(1))[:, None])

        def apply(u):
            local = jnp.einsum("eij,ej->ei", stiffness, u[triangles])
            return jnp.where(inside, jnp.zeros_like(u).at[triangles].add(local), u)

        load = jnp.where(inside, load, 0.0)
        return lib.scipy.sparse.linalg.cg(apply, load, tol=0.0, maxiter=most)[0]

    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 2), -1).reshape(-1, 2)
    moved = grid + inside.reshape(-1, 1) * workloads.f32(n * n, 2, scale=0.1 / n)
    return step, (moved.astype(np.float32), triangles, inside.ravel(), workloads.f32(n * n, seed=1))


@program()
def sparse_conjugate_gradients(lib, size):
    """Conjugate gradients with a sparse matrix (`BCOO`) of a grid, preconditioned."""
    n, most = size(64, 5), size(30, 12)
    index = np.arange(n * n).reshape(n, n)
    pairs = np.concatenate(
        [
            np.stack([index[:-1].ravel(), index[1:].ravel()], 1),
            np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1),
        ]
    )
    places = np.concatenate([np.stack([index.ravel()] * 2, 1), pairs, pairs[:, ::-1]])
    values = np.concatenate([np.full(n * n, 4.1), np.full(2 * len(pairs), -1.0)])
    order = np.lexsort((places[:, 1], places[:, 0]))

    def step(values, places, b):
        matrix = lib.experimental.sparse.BCOO(
            (values, places), shape=(n * n, n * n), indices_sorted=True, unique_indices=True
        )
        return lib.scipy.sparse.linalg.cg(
            lambda x: matrix @ x, b, tol=0.0, maxiter=most, M=lambda x: x / 4.1
        )[0]

    return step, (
        values[order].astype(np.float32), places[order].astype(np.int32), workloads.f32(n * n)
    )  # fmt: skip


def neural_field(lib):
    jnp = lib.numpy

    def field(y, t, p):
        return jnp.tanh(jnp.tanh(y @ p["w1"] + t) @ p["w2"]) @ p["w3"]

    return field


def neural_ode_arguments(size):
    batch, d, width = size(64, 3), size(4, 2), size(32, 4)
    p = {"w1": workloads.f32(d, width, scale=0.5), "w2": workloads.f32(width, width, scale=0.2),
         "w3": workloads.f32(width, d, scale=0.2)}  # fmt: skip
    return p, workloads.f32(batch, d, seed=1), workloads.f32(batch, d, seed=2)


@program()
def ode_adjoint(lib, size):
    """The gradient through an adaptive solver of differential equations by its adjoint."""
    jnp = lib.numpy
    field = neural_field(lib)

    def loss(p, y0, y1):
        times = jnp.array([0.0, 1.0])
        path = lib.experimental.ode.odeint(field, y0, times, p, rtol=1e-4, atol=1e-4)
        return jnp.mean((path[-1] - y1) ** 2)

    return lib.value_and_grad(loss), neural_ode_arguments(size)


@program()
def neural_ode_by_steps(lib, size):
    """The same equation by fixed steps of Runge-Kutta, each computed again in reverse."""
    jnp, lax = lib.numpy, lib.lax
    field = neural_field(lib)
    steps = size(40, 3)

    def loss(p, y0, y1):
        @lib.checkpoint
        def advance(y, t):
            h = 1.0 / steps
            k1 = field(y, t, p)
            k2 = field(y + 0.5 * h * k1, t + 0.5 * h, p)
            k3 = field(y + 0.5 * h * k2, t + 0.5 * h, p)
            k4 = field(y + h * k3, t + h, p)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        y, _ = lax.scan(lambda y, t: (advance(y, t), None), y0, jnp.arange(steps) / steps)
        return jnp.mean((y - y1) ** 2)

    return lib.value_and_grad(loss), neural_ode_arguments(size)


@program()
def stiff_chemistry(lib, size):
    """Robertson's reactions by implicit Euler: Newton's method with `jacfwd`, for many cells."""
    jnp, lax = lib.numpy, lib.lax
    cells, steps = size(512, 3), size(10, 2)

    def rates(y):
        a, b, c = y
        r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b * b
        return jnp.array([r2 - r1, r1 - r2 - r3, r3])

    def advance(y, dt):
        residual = lambda z: z - y - dt * rates(z)

        def newton(_, z):
            return z - jnp.linalg.solve(lib.jacfwd(residual)(z), residual(z))

        z = lax.fori_loop(0, 4, newton, y)
        return z, z[1]

    def cell(y):
        return lax.scan(advance, y, 1e-3 * 1.5 ** jnp.arange(steps, dtype=jnp.float32))

    y = np.abs(workloads.f32(cells, 3)) * [1, 1e-5, 0.1] + [0.5, 0, 0]
    return lib.vmap(cell), (y.astype(np.float32),)


@program()
def crank_nicolson(lib, size):
    """American options on a grid: a tridiagonal system at each step, for many volatilities."""
    jnp, lax = lib.numpy, lib.lax
    prices, steps, options = size(200, 8), size(50, 3), size(16, 2)

    def value(volatility):
        dt, rate = 1.0 / steps, 0.03
        j = jnp.arange(prices, dtype=jnp.float32)
        payoff = jnp.maximum(100.0 - j, 0.0)
        alpha = 0.25 * dt * (volatility**2 * j**2 - rate * j)
        beta = -0.5 * dt * (volatility**2 * j**2 + rate)
        gamma = 0.25 * dt * (volatility**2 * j**2 + rate * j)
        inner = (j > 0) & (j < prices - 1)
        lower, upper = jnp.where(inner, -alpha, 0.0), jnp.where(inner, -gamma, 0.0)
        middle = jnp.where(inner, 1 - beta, 1.0)

        def back(v, _):
            explicit = alpha * jnp.roll(v, 1) + (1 + beta) * v + gamma * jnp.roll(v, -1)
            right = jnp.where(inner, explicit, payoff)
            v = lax.linalg.tridiagonal_solve(lower, middle, upper, right[:, None])[:, 0]
            return jnp.maximum(v, payoff), None

        return lax.scan(back, payoff, None, length=steps)[0]

    return lib.vmap(value), (np.linspace(0.1, 0.5, options, dtype=np.float32),)


@program()
def principal_components(lib, size):
    """Principal components of a table by `svd`, whitened scores and the share each explains."""
    jnp = lib.numpy
    n, d, k = size(2000, 12), size(64, 4), size(10, 2)

    def step(x):
        x = (x - x.mean(0)) / x.std(0)
        _, s, vt = jnp.linalg.svd(x, full_matrices=False)
        scores = x @ vt[:k].T / s[:k] * np.sqrt(n)
        # The sign of a singular vector is free.
        return jnp.abs(scores), s**2 / jnp.sum(s**2)

    x = workloads.f32(n, d) @ (workloads.f32(d, d, seed=1) * np.geomspace(1, 0.1, d))
    return step, (x.astype(np.float32),)


@program()
def lanczos(lib, size):
    """The greatest eigenvalues of a matrix by Lanczos with full reorthogonalization."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(400, 8), size(40, 8)

    def step(a, start):
        def extend(k, state):
            basis, alpha, beta = state
            w = a @ basis[k]
            alpha = alpha.at[k].set(w @ basis[k])
            w = w - basis.T @ (basis @ w)
            w = w - basis.T @ (basis @ w)
            norm = jnp.linalg.norm(w)
            return basis.at[k + 1].set(w / norm), alpha, beta.at[k].set(norm)

        basis = jnp.zeros((steps + 1, n)).at[0].set(start / jnp.linalg.norm(start))
        state = basis, jnp.zeros(steps), jnp.zeros(steps)
        _, alpha, beta = lax.fori_loop(0, steps, extend, state)
        small = jnp.diag(alpha) + jnp.diag(beta[:-1], 1) + jnp.diag(beta[:-1], -1)
        return jnp.linalg.eigvalsh(small)[-3:]

    a = workloads.f32(n, n) / np.sqrt(n)
    return step, ((a @ a.T).astype(np.float32), workloads.f32(n, seed=1))
