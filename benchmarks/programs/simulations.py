"""Particles: gravity, molecules, charges, springs, and ensembles of trajectories."""

import numpy as np

import workloads
from programs.registry import program


@program()
def n_body(lib, size):
    """Ten leapfrog steps of gravity among all pairs of bodies."""
    n = size(512, 12)
    arguments = workloads.f32(n, 3), workloads.f32(n, 3, seed=1), np.abs(workloads.f32(n, seed=2))
    return workloads.nbody(lib, steps=10), arguments


@program()
def molecular_dynamics(lib, size):
    """Velocity Verlet of Lennard-Jones particles in a periodic box, forces by `grad`."""
    jnp, lax = lib.numpy, lib.lax
    side, steps = size(6, 2), size(10, 3)
    box, dt = 1.3 * side, 2e-3

    def energy(x):
        d = x[:, None] - x[None]
        d = d - box * jnp.round(d / box)
        r2 = jnp.sum(d**2, axis=-1)
        # The diagonal is moved away before the division, so that no gradient is NaN.
        r2 = jnp.where(jnp.eye(len(x), dtype=bool), 1e6, r2)
        s6 = (1.0 / r2) ** 3
        return 2.0 * jnp.sum(s6 * s6 - s6)

    def step(x, v):
        force = lib.grad(lambda x: -energy(x))

        def verlet(state, _):
            x, v, f = state
            v = v + 0.5 * dt * f
            x = (x + dt * v) % box
            f = force(x)
            v = v + 0.5 * dt * f
            return (x, v, f), energy(x) + 0.5 * jnp.sum(v**2)

        (x, v, _), energies = lax.scan(verlet, (x, v, force(x)), None, length=steps)
        return x, v, energies

    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)
    x = (1.3 * grid + 0.65).astype(np.float32) + workloads.f32(*grid.shape, scale=0.02)
    return step, (x, workloads.f32(*grid.shape, seed=1, scale=0.5))


@program()
def ewald_sum(lib, size):
    """The electrostatic energy of a periodic box of charges and its forces, by Ewald's sum."""
    jnp = lib.numpy
    n, most = size(128, 6), 7
    alpha, box = 7.0, 1.0
    waves = np.array(
        [k for k in np.ndindex(*[2 * most + 1] * 3) if any(c != most for c in k)]
    ) - most  # fmt: skip
    waves = (2 * np.pi / box * waves).astype(np.float32)

    def energy(x, q):
        d = x[:, None] - x[None]
        d = d - box * jnp.round(d / box)
        off = ~jnp.eye(len(q), dtype=bool)
        r = jnp.sqrt(jnp.where(off, jnp.sum(d**2, axis=-1), 1.0))
        pairs = jnp.where(off, lib.scipy.special.erfc(alpha * r) / r, 0.0)
        real = 0.5 * jnp.sum(q[:, None] * q[None] * pairs)
        k2 = jnp.sum(waves**2, axis=-1)
        phase = x @ waves.T
        re, im = q @ jnp.cos(phase), q @ jnp.sin(phase)
        weight = jnp.exp(-k2 / (4 * alpha**2)) / k2
        reciprocal = 2 * np.pi / box**3 * jnp.sum(weight * (re**2 + im**2))
        return real + reciprocal - alpha / np.sqrt(np.pi) * jnp.sum(q**2)

    q = np.where(np.arange(n) % 2, 1.0, -1.0).astype(np.float32)
    x = workloads.rng().uniform(0, box, (n, 3)).astype(np.float32)
    return lib.value_and_grad(energy), (x, q)


@program()
def mass_springs(lib, size):
    """A cloth of masses and springs that falls: gathers, and forces added where springs end."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(96, 5), size(40, 3)
    index = np.arange(n * n).reshape(n, n)
    edges = np.concatenate(
        [
            np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1),
            np.stack([index[:-1].ravel(), index[1:].ravel()], 1),
            np.stack([index[:-1, :-1].ravel(), index[1:, 1:].ravel()], 1),
        ]
    ).astype(np.int32)

    def step(x, v, edges):
        start, end = edges[:, 0], edges[:, 1]
        rest = jnp.linalg.norm(x[end] - x[start], axis=-1)

        def move(_, state):
            x, v = state
            d = x[end] - x[start]
            length = jnp.linalg.norm(d, axis=-1)
            pull = (400.0 * (length - rest) / length)[:, None] * d
            force = jnp.zeros_like(x).at[start].add(pull).at[end].add(-pull)
            force = force - 0.1 * v + jnp.array([0.0, 0.0, -9.8])
            v = v + 1e-3 * force
            # One edge of the cloth is held.
            v = v.at[:n].set(0.0)
            return x + 1e-3 * v, v

        return lax.fori_loop(0, steps, move, (x, v))

    x = np.stack([*np.meshgrid(np.arange(n), np.arange(n)), np.zeros((n, n))], -1)
    x = (x.reshape(-1, 3) / n).astype(np.float32)
    return step, (x, 0.1 * workloads.f32(n * n, 3), edges)


@program()
def double_pendulums(lib, size):
    """An ensemble of double pendulums by Runge-Kutta: `vmap` of a `scan`."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(2048, 3), size(100, 10)
    dt, g = 0.01, 9.8

    def derivative(s):
        a, b, u, v = s
        delta = a - b
        den = 3.0 - jnp.cos(2 * delta)
        du = (
            -3 * g * jnp.sin(a) - g * jnp.sin(a - 2 * b)
            - 2 * jnp.sin(delta) * (v**2 + u**2 * jnp.cos(delta))
        ) / den  # fmt: skip
        dv = (
            2 * jnp.sin(delta) * (2 * u**2 + 2 * g * jnp.cos(a) + v**2 * jnp.cos(delta))
        ) / den  # fmt: skip
        return jnp.array([u, v, du, dv])

    def runge_kutta(s, _):
        k1 = derivative(s)
        k2 = derivative(s + 0.5 * dt * k1)
        k3 = derivative(s + 0.5 * dt * k2)
        k4 = derivative(s + dt * k3)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return s, s[1]

    def trajectory(s):
        return lax.scan(runge_kutta, s, None, length=steps)

    return lib.vmap(trajectory), (workloads.f32(n, 4, scale=0.5),)


@program()
def ray_marching(lib, size):
    """A picture of a scene of spheres: each ray marched until it meets something."""
    jnp, lax = lib.numpy, lib.lax
    side, spheres = size(96, 8), 6

    def distance(p, centers, radii):
        return jnp.minimum(jnp.min(jnp.linalg.norm(centers - p, axis=-1) - radii), p[1] + 1.5)

    def pixel(u, v, centers, radii):
        origin = jnp.array([0.0, 0.0, -4.0])
        ray = jnp.array([u, v, 1.5])
        ray = ray / jnp.linalg.norm(ray)

        def march(state):
            t, _, count = state
            d = distance(origin + t * ray, centers, radii)
            return t + d, d, count + 1

        def goes_on(state):
            t, d, count = state
            return (d > 1e-3) & (t < 20.0) & (count < 60)

        t, _, _ = lax.while_loop(goes_on, march, (0.0, 1.0, 0))
        normal = lib.grad(distance)(origin + t * ray, centers, radii)
        light = jnp.array([0.57735, 0.57735, -0.57735])
        return jnp.where(t < 20.0, 0.2 + 0.8 * jnp.maximum(normal @ light, 0.0), 0.0)

    def step(centers, radii):
        line = jnp.linspace(-1.0, 1.0, side)
        row = lib.vmap(pixel, (0, None, None, None))
        return lib.vmap(row, (None, 0, None, None))(line, line, centers, radii)

    return step, (workloads.f32(spheres, 3), 0.3 + 0.2 * np.abs(workloads.f32(spheres, seed=1)))


@program()
def cart_pole_policy_gradient(lib, size):
    """REINFORCE on simulated carts: `scan` over time, `vmap` over episodes, categorical draws."""
    jnp, lax = lib.numpy, lib.lax
    episodes, steps, width = size(256, 4), size(60, 5), 32

    def logits(params, s):
        return jnp.tanh(s @ params["w1"] + params["b1"]) @ params["w2"]

    def dynamics(s, action):
        x, dx, a, da = s
        force = jnp.where(action == 1, 10.0, -10.0)
        temp = (force + 0.05 * da**2 * jnp.sin(a)) / 1.1
        dda = (9.8 * jnp.sin(a) - jnp.cos(a) * temp) / (0.5 * (4 / 3 - 0.1 * jnp.cos(a) ** 2 / 1.1))
        ddx = temp - 0.05 * dda * jnp.cos(a) / 1.1
        return jnp.array([x + 0.02 * dx, dx + 0.02 * ddx, a + 0.02 * da, da + 0.02 * dda])

    def episode(params, key):
        def act(state, key):
            s, alive = state
            action = lib.random.categorical(key, logits(params, lax.stop_gradient(s)))
            log_p = lib.nn.log_softmax(logits(params, s))[action]
            s = dynamics(s, action)
            alive = alive & (jnp.abs(s[0]) < 2.4) & (jnp.abs(s[2]) < 0.21)
            return (s, alive), (log_p, alive.astype(jnp.float32))

        start, walk = lib.random.split(key)
        s = lib.random.uniform(start, (4,), minval=-0.05, maxval=0.05)
        _, (log_ps, rewards) = lax.scan(act, (s, True), lib.random.split(walk, steps))
        returns = jnp.cumsum(rewards[::-1])[::-1]
        return log_ps, returns, rewards

    def loss(params, key):
        keys = lib.random.split(key, episodes)
        log_ps, returns, rewards = lib.vmap(episode, (None, 0))(params, keys)
        advantage = lax.stop_gradient(returns - returns.mean(0))
        return -jnp.mean(jnp.sum(log_ps * advantage * rewards, axis=1)), rewards.sum(1).mean()

    def step(params, key):
        (_, length), gradient = lib.value_and_grad(loss, has_aux=True)(params, key)
        return lib.tree_util.tree_map(lambda p, g: p - 1e-3 * g, params, gradient), length

    params = {
        "w1": workloads.f32(4, width, scale=0.5),
        "b1": np.zeros(width, np.float32),
        "w2": workloads.f32(width, 2, seed=1, scale=0.2),
    }
    return step, (params, lib.random.key(3))
