"""RMS normalization by a kernel in C++, with its derivative by a second one.

The kernels are in `rms_norm.cc`, compiled when this module is loaded. The forward one leaves the
factor of each row for the backward one. Run as a program, it compares both with array operations.
"""

from __future__ import annotations

from functools import partial

import build
import numpy as np

import weft
import weft.numpy as jnp
from weft import ffi

LIBRARY = build.load(build.HERE / "rms_norm.cc")
for name, kernel in (("rms_norm", LIBRARY.RmsNorm), ("rms_norm_bwd", LIBRARY.RmsNormBackward)):
    ffi.register_ffi_target(name, kernel)
    ffi.register_ffi_target_as_batch_partitionable(name)

Array = weft.Array


@partial(weft.custom_vjp, nondiff_argnums=(1,))
def rms_norm(x: Array, eps: float = 1e-6) -> Array:
    """x over the root of the mean of its squares along the last axis, for a float32 (..., n)."""
    return forward(x, eps)[0]


def forward(x: Array, eps: float) -> tuple[Array, tuple[Array, Array]]:
    """The result, and what the backward kernel needs."""
    outs = (
        weft.ShapeDtypeStruct(x.shape, jnp.float32),
        weft.ShapeDtypeStruct(x.shape[:-1], jnp.float32),
    )
    kernel = ffi.ffi_call("rms_norm", outs, vmap_method="broadcast_all", num_batch_dims=x.ndim - 1)
    # A number of Python's would arrive as a double, and the kernel binds a float.
    y, factor = kernel(x, eps=np.float32(eps))
    return y, (x, factor)


def backward(eps: float, kept: tuple[Array, Array], cotangent: Array) -> tuple[Array]:
    """The cotangent of x."""
    x, factor = kept
    out = weft.ShapeDtypeStruct(x.shape, jnp.float32)
    kernel = ffi.ffi_call(
        "rms_norm_bwd", out, vmap_method="broadcast_all", num_batch_dims=x.ndim - 1
    )
    return (kernel(x, factor, cotangent),)


rms_norm.defvjp(forward, backward)


def plain(x: Array, eps: float = 1e-6) -> Array:
    """The same with array operations."""
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + eps)


def main() -> int:
    """Prints how far kernel and array operations are apart."""
    x = weft.random.normal(weft.random.key(0), (64, 512))
    weights = jnp.linspace(-1.0, 1.0, 512)
    for what, make in (
        ("values", lambda f: f),
        ("gradients", lambda f: weft.grad(lambda x: jnp.sum(f(x) * weights))),
    ):
        got, wanted = (weft.jit(make(f))(x) for f in (rms_norm, plain))
        print(f"{what} differ by {float(jnp.max(jnp.abs(got - wanted))):.1e} at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
