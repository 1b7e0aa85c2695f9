"""interpax: splines in one, two and three dimensions, their derivatives, and gradients through
them.
"""

import interpax
import jax
import jax.numpy as jnp

DISTRIBUTION = "interpax"
# Second derivatives of splines are differences of slopes. With 64 bits JAX and weft differ by
# 4e-16.
TOLERANCE = 1e-5


def main(timed):
    x = jnp.linspace(0, 3, 12)
    f = jnp.sin(2 * x) + 0.2 * x
    at = jnp.linspace(0.1, 2.9, 9)
    found = {}
    for method in ("nearest", "linear", "cubic", "cubic2", "catmull-rom", "monotonic", "akima"):
        found[method] = interpax.interp1d(at, x, f, method=method)
    run = timed(jax.jit(lambda at, f: interpax.interp1d(at, x, f, method="cubic2")))
    for _ in range(5):
        run(at, f)
    y = jnp.linspace(-1, 1, 7)
    table = jnp.cos(x)[:, None] * y**2
    spline = interpax.Interpolator1D(x, f, method="cubic2")
    return found | {
        "slope": spline(at, dx=1),
        "curvature": spline(at, dx=2),
        "two": interpax.interp2d(at, at / 3, x, y, table, method="cubic"),
        "gradient": jax.grad(lambda f: jnp.sum(
            interpax.interp1d(at, x, f, method="cubic2") ** 2))(f),
    }  # fmt: skip
