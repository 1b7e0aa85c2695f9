"""Fields on grids: stencils, spectral methods and lattice models."""

import numpy as np

import workloads
from programs.registry import program


@program()
def heat_by_scan(lib, size):
    """A hundred steps of the heat equation by `scan`, and the total of each."""
    return workloads.heat_scan(lib, size(100, 5)), (workloads.f32(*[size(512, 9)] * 2),)


@program()
def heat_by_fori_loop(lib, size):
    """The same by `fori_loop`, without the totals."""
    return workloads.heat_fori(lib, size(100, 5)), (workloads.f32(*[size(512, 9)] * 2),)


@program()
def wave_equation(lib, size):
    """The wave equation in a periodic box of three dimensions, by `roll`."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(64, 5), size(12, 3)

    def laplacian(u):
        return sum(jnp.roll(u, s, axis) for s in (-1, 1) for axis in range(3)) - 6.0 * u

    def step(u, v, speed):
        def move(_, state):
            u, v = state
            v = v + 0.1 * speed * laplacian(u)
            return u + 0.1 * v, v

        return lax.fori_loop(0, steps, move, (u, v))

    shape = (n, n, n)
    return step, (
        workloads.f32(*shape),
        np.zeros(shape, np.float32),
        1 + np.abs(workloads.f32(*shape, seed=1)),
    )


@program()
def reaction_diffusion(lib, size):
    """Gray and Scott's two chemicals that react and diffuse."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(192, 6), size(50, 4)

    def laplacian(x):
        near = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
        return near - 4.0 * x

    def step(u, v):
        def react(state, _):
            u, v = state
            uvv = u * v * v
            u = u + 0.16 * laplacian(u) - uvv + 0.035 * (1.0 - u)
            v = v + 0.08 * laplacian(v) + uvv - 0.1 * v
            return (u, v), jnp.mean(v)

        return lax.scan(react, (u, v), None, length=steps)

    r = workloads.rng()
    u = (1 - 0.5 * r.uniform(size=(n, n))).astype(np.float32)
    return step, (u, r.uniform(size=(n, n)).astype(np.float32) * 0.4)


@program()
def wave_inversion(lib, size):
    """The gradient of a recorded wave by the speed in each cell: reverse mode through a stencil."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(64, 6), size(80, 4)

    def record(speed, source):
        def move(state, s):
            u, v = state
            p = jnp.pad(u, 1, mode="edge")
            lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u
            v = v + 0.2 * speed * lap
            u = (u + 0.2 * v).at[n // 2, n // 2].add(s)
            return (u, v), u[1]

        zero = jnp.zeros((n, n))
        return lax.scan(move, (zero, zero), source)[1]

    def step(speed, source, seen):
        return lib.value_and_grad(lambda c: jnp.sum((record(c, source) - seen) ** 2))(speed)

    speed = (1 + 0.2 * np.abs(workloads.f32(n, n))).astype(np.float32)
    source = np.sin(np.arange(steps) / 4).astype(np.float32)
    return step, (speed, source, workloads.f32(steps, n, seed=2, scale=0.1))


@program()
def lattice_boltzmann(lib, size):
    """A fluid past a cylinder by the lattice Boltzmann method with nine directions."""
    jnp, lax = lib.numpy, lib.lax
    h, w, steps = size(64, 6), size(160, 8), size(20, 3)
    directions = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1], [1, -1],
                           [-1, 1]])  # fmt: skip
    opposite = np.array([0, 2, 1, 4, 3, 6, 5, 8, 7])
    weights = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4], np.float32)
    c = directions.astype(np.float32)

    def step(f, solid):
        def equilibrium(density, velocity):
            along = jnp.einsum("id,dyx->iyx", c, velocity)
            square = jnp.sum(velocity**2, axis=0)
            return weights[:, None, None] * density * (
                1 + 3 * along + 4.5 * along**2 - 1.5 * square
            )  # fmt: skip

        def collide_and_stream(f, _):
            density = jnp.sum(f, axis=0)
            velocity = jnp.einsum("id,iyx->dyx", c, f) / density
            f = f - (f - equilibrium(density, velocity)) / 0.7
            f = jnp.where(solid, f[opposite], f)
            f = jnp.stack([jnp.roll(f[i], tuple(directions[i]), (1, 0)) for i in range(9)])
            return f, jnp.mean(jnp.abs(velocity))

        return lax.scan(collide_and_stream, f, None, length=steps)

    y, x = np.mgrid[:h, :w]
    solid = (y - h / 2) ** 2 + (x - w / 4) ** 2 < (h / 8) ** 2
    f = weights[:, None, None] * (1 + 0.05 * workloads.f32(9, h, w))
    f[1] += 0.05
    return step, (f.astype(np.float32), solid)


@program()
def spectral_turbulence(lib, size):
    """Vorticity of a flow in two dimensions by Fourier transforms, dealiased, Runge-Kutta."""
    jnp, lax = lib.numpy, lib.lax
    n, steps = size(96, 8), size(5, 2)
    k = np.fft.fftfreq(n, 1 / n).astype(np.float32)
    l = np.fft.rfftfreq(n, 1 / n).astype(np.float32)  # noqa: E741 - the name of wave numbers
    ky, kx = np.meshgrid(k, l, indexing="ij")
    k2 = (kx**2 + ky**2).astype(np.float32)
    inverse = np.where(k2 > 0, 1 / np.maximum(k2, 1), 0).astype(np.float32)
    kept = (np.abs(kx) < n / 3) & (np.abs(ky) < n / 3)

    def tendency(w):
        stream = w * inverse
        u, v = jnp.fft.irfft2(1j * ky * stream), jnp.fft.irfft2(-1j * kx * stream)
        wx, wy = jnp.fft.irfft2(1j * kx * w), jnp.fft.irfft2(1j * ky * w)
        return -jnp.where(kept, jnp.fft.rfft2(u * wx + v * wy), 0) - 1e-3 * k2 * w

    def step(field):
        def runge_kutta(w, _):
            middle = w + 5e-4 * tendency(w)
            w = w + 1e-3 * tendency(middle)
            return w, jnp.sum(jnp.abs(w) ** 2 * inverse)

        w, energy = lax.scan(runge_kutta, jnp.fft.rfft2(field), None, length=steps)
        return jnp.fft.irfft2(w), energy

    return step, (workloads.f32(n, n),)


@program()
def fft_poisson(lib, size):
    """Poisson's equation in a periodic box, solved by transforms of three dimensions."""
    jnp = lib.numpy
    n = size(64, 6)

    def step(density):
        k = 2 * np.pi * jnp.fft.fftfreq(n)
        k2 = k[:, None, None] ** 2 + k[None, :, None] ** 2 + k[None, None] ** 2
        spectrum = jnp.fft.fftn(density)
        potential = jnp.where(k2 > 0, -spectrum / jnp.where(k2 > 0, k2, 1.0), 0)
        field = [jnp.fft.ifftn(-1j * shape * potential).real for shape in (
            k[:, None, None], k[None, :, None], k[None, None]
        )]  # fmt: skip
        return jnp.fft.ifftn(potential).real, jnp.stack(field)

    return step, (workloads.f32(n, n, n),)


@program()
def ising_model(lib, size):
    """Metropolis sweeps of a ferromagnet, one colour of the checkerboard after the other."""
    jnp, lax = lib.numpy, lib.lax
    n, sweeps = size(192, 8), size(20, 3)
    colour = np.add.outer(np.arange(n), np.arange(n)) % 2

    def step(key, spins):
        def half(spins, key, parity):
            near = sum(jnp.roll(spins, s, axis) for s in (-1, 1) for axis in (0, 1))
            accept = lib.random.uniform(key, (n, n)) < jnp.exp(-0.88 * spins * near)
            return jnp.where((colour == parity) & accept, -spins, spins)

        def sweep(spins, key):
            a, b = lib.random.split(key)
            spins = half(half(spins, a, 0), b, 1)
            return spins, jnp.mean(spins)

        return lax.scan(sweep, spins, lib.random.split(key, sweeps))

    return step, (lib.random.key(0), np.sign(workloads.f32(n, n)))


@program()
def multigrid(lib, size):
    """V-cycles of multigrid for Poisson's equation on a square."""
    jnp, lax = lib.numpy, lib.lax
    levels, cycles = size(8, 3), size(3, 1)

    def neighbours(u):
        p = jnp.pad(u, 1)
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]

    def smooth(u, f):
        for _ in range(2):
            u = u + 0.8 * (0.25 * (neighbours(u) + f) - u)
        return u

    def restrict(r):
        p = jnp.pad(r, 1)
        rows = 0.25 * p[1:-3:2] + 0.5 * p[2:-2:2] + 0.25 * p[3:-1:2]
        # Times four, as the equations of a coarser grid are those of cells of four times the area.
        return 4.0 * (0.25 * rows[:, 1:-3:2] + 0.5 * rows[:, 2:-2:2] + 0.25 * rows[:, 3:-1:2])

    def prolong(e):
        def line(e):
            padded = jnp.pad(e, ((1, 1), (0, 0)))
            between = 0.5 * (padded[:-1] + padded[1:])
            both = jnp.stack([between[:-1], e], axis=1).reshape(-1, e.shape[1])
            return jnp.concatenate([both, between[-1:]])

        return line(line(e).T).T

    def cycle(u, f):
        if len(u) <= 3:
            return smooth(smooth(u, f), f)
        u = smooth(u, f)
        coarse = restrict(f - (4.0 * u - neighbours(u)))
        return smooth(u + prolong(cycle(jnp.zeros_like(coarse), coarse)), f)

    def step(f):
        u = lax.fori_loop(0, cycles, lambda _, u: cycle(u, f), jnp.zeros_like(f))
        return u, jnp.linalg.norm(f - (4.0 * u - neighbours(u)))

    n = 2**levels - 1
    return step, (workloads.f32(n, n),)
