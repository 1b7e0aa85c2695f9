"""S2FFT: spherical harmonic and Wigner transforms there and back, by several samplings, and a
signal on the sphere that is recovered from noise by gradients through the transform.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import s2fft  # noqa: E402
from s2fft.precompute_transforms import construct, spherical  # noqa: E402

DISTRIBUTION = "s2fft"

BAND = 8


def main(timed):
    rng = np.random.default_rng(0)
    coefficients = jnp.asarray(s2fft.utils.signal_generator.generate_flm(rng, BAND, reality=True))
    found = {}
    for sampling in ("mw", "dh", "gl"):
        synthesize = timed(
            jax.jit(lambda flm, sampling=sampling: s2fft.inverse(
                flm, BAND, sampling=sampling, method="jax", reality=True
            ))
        )  # fmt: skip
        for _ in range(2):
            signal = synthesize(coefficients)
        back = s2fft.forward(signal, BAND, sampling=sampling, method="jax", reality=True)
        found |= {f"{sampling}_signal": signal.real, f"{sampling}_back": back}

    spin = jnp.asarray(s2fft.utils.signal_generator.generate_flm(rng, BAND, spin=2))
    found["spin"] = s2fft.inverse_jax(spin, BAND, spin=2, sampling="mw")

    kernel = construct.spin_spherical_kernel_jax(BAND, sampling="mw", reality=True, forward=False)
    tabled = spherical.inverse(
        coefficients, BAND, sampling="mw", method="jax", kernel=kernel, reality=True
    )
    found["tabled"] = tabled.real

    wigner = jnp.asarray(s2fft.utils.signal_generator.generate_flmn(rng, 6, 3))
    on_rotations = s2fft.wigner.inverse_jax(wigner, 6, 3)
    found |= {
        "rotations": on_rotations,
        "rotations_back": s2fft.wigner.forward_jax(on_rotations, 6, 3),
    }

    noisy = signal.real + 0.1 * rng.normal(size=signal.shape)

    def misfit(flm):
        fitted = s2fft.inverse_jax(flm[0] + 1j * flm[1], BAND, sampling="gl").real
        return jnp.mean((fitted - noisy) ** 2) + 1e-3 * jnp.sum(flm**2)

    flm = jnp.zeros((2, BAND, 2 * BAND - 1))
    descend = timed(jax.jit(jax.value_and_grad(misfit)))
    for _ in range(10):
        value, gradient = descend(flm)
        flm = flm - 2.0 * gradient
    return found | {"value": value, "recovered": flm}
