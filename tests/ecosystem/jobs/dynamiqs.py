"""dynamiqs: a driven oscillator with losses by master and Schrödinger equations, and a gradient."""

import dynamiqs as dq
import jax
import jax.numpy as jnp

DISTRIBUTION = "dynamiqs"
# Adaptive steps depend on the last digits of error estimates.
TOLERANCE = 1e-5


def main(timed):
    n = 12
    a = dq.destroy(n)
    times = jnp.linspace(0, 2.0, 11)
    kerr = 0.5 * dq.dag(a) @ dq.dag(a) @ a @ a

    def photons(drive):
        hamiltonian = kerr + drive * (a + dq.dag(a))
        found = dq.mesolve(
            hamiltonian, [jnp.sqrt(0.3) * a], dq.coherent(n, 1.0), times,
            exp_ops=[dq.dag(a) @ a], progress_meter=False,
        )  # fmt: skip
        return found.expects[0].real

    solve = timed(jax.jit(photons))
    for _ in range(3):
        number = solve(0.6)
    slope = jax.grad(lambda drive: photons(drive)[-1])(0.6)
    pulse = dq.modulated(lambda t: jnp.cos(3.0 * t), dq.sigmax())
    qubit = dq.sesolve(
        dq.sigmaz() + pulse, dq.basis(2, 0), times, exp_ops=[dq.sigmaz()], progress_meter=False
    )
    wigner = dq.wigner(dq.coherent(n, 1.0), npixels=9)
    return {
        "number": number,
        "slope": slope,
        "qubit": qubit.expects[0].real,
        "wigner": wigner[2],
        "fidelity": dq.fidelity(dq.coherent(n, 1.0), dq.coherent(n, 0.5)),
    }
