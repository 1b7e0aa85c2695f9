"""Diffrax: ordinary and stochastic differential equations, adaptive steps, events and adjoints."""

import diffrax
import jax
import jax.numpy as jnp

DISTRIBUTION = "diffrax"
# Adaptive steps depend on the last digits of error estimates.
TOLERANCE = 1e-5


def predator_prey(t, y, args):
    a, b, c, d = args
    prey, predator = y
    return jnp.stack([a * prey - b * prey * predator, c * prey * predator - d * predator])


def stiff(t, y, args):
    a, b, c = y
    first = -0.04 * a + 1e3 * b * c
    last = 3e3 * b**2
    return jnp.stack([first, -first - last, last])


def solve(args, y0):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(predator_prey), diffrax.Tsit5(), 0.0, 10.0, 0.05, y0, args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 10, 21)),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    )  # fmt: skip


def bouncing():
    def falling(t, y, args):
        return jnp.stack([y[1], -9.8])

    event = diffrax.Event(lambda t, y, args, **kw: y[0])
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(falling), diffrax.Heun(), 0.0, 5.0, 0.01, jnp.array([3.0, 0.0]),
        event=event,
    )  # fmt: skip
    return found.ts[-1], found.ys[-1]


def noisy(key):
    brownian = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(2,), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -0.5 * y),
        diffrax.ControlTerm(lambda t, y, args: 0.3 * jnp.diag(1 + 0.1 * y), brownian),
    )
    found = diffrax.diffeqsolve(
        terms, diffrax.Heun(), 0.0, 1.0, 0.02, jnp.array([1.0, -1.0]),
        saveat=diffrax.SaveAt(t1=True),
    )  # fmt: skip
    return found.ys[-1]


def main(timed):
    args = jnp.array([1.1, 0.4, 0.1, 0.4])
    y0 = jnp.array([10.0, 5.0])
    solution = timed(jax.jit(solve))
    for _ in range(5):
        found = solution(args, y0)

    @timed
    @jax.jit
    def loss_and_grad(args):
        return jax.value_and_grad(lambda a: jnp.mean(solve(a, y0).ys[:, 0] ** 2))(args)

    for _ in range(3):
        loss, grad = loss_and_grad(args)
    rober = diffrax.diffeqsolve(
        diffrax.ODETerm(stiff), diffrax.Kvaerno5(), 0.0, 10.0, 1e-3, jnp.array([1.0, 0.0, 0.0]),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-7),
    )  # fmt: skip
    many = jax.jit(jax.vmap(noisy))(jax.random.split(jax.random.key(0), 8))
    time, state = bouncing()
    curve = diffrax.CubicInterpolation(
        jnp.linspace(0, 1, 6),
        diffrax.backward_hermite_coefficients(
            jnp.linspace(0, 1, 6), jnp.sin(jnp.linspace(0, 3, 6))[:, None]
        ),
    )
    return {
        "ys": found.ys,
        "steps": found.stats["num_steps"],
        "loss": loss,
        "grad": grad,
        "stiff": rober.ys[-1],
        "noisy": many,
        "impact": time,
        "state": state,
        "curve": jax.vmap(curve.evaluate)(jnp.array([0.15, 0.5, 0.9])),
    }
