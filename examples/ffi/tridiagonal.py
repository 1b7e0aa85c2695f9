"""Tridiagonal systems solved by a kernel in C, with a derivative, batches and several devices.

The kernel is `tridiagonal.c`, compiled when this module is loaded. A solution is differentiated as
one: `custom_linear_solve` needs a solver, one for the transposed system, for which the same kernel
serves, and the product of matrix and vector, from which it has derivatives of every order in both
modes. Run as a program, it follows heat along a rod and finds, by gradient descent, where it came
from.
"""

from __future__ import annotations

import argparse

import build

import weft
import weft.numpy as jnp
from weft import ffi

KERNEL = build.load(build.HERE / "tridiagonal.c").TridiagonalSolve
ffi.register_ffi_target("tridiagonal_solve", KERNEL)
ffi.register_ffi_target_as_batch_partitionable("tridiagonal_solve")

Array = weft.Array


def call(lower: Array, diagonal: Array, upper: Array, right: Array, transposed: bool) -> Array:
    """The kernel itself, of which weft knows no derivative."""
    kernel = ffi.ffi_call(
        "tridiagonal_solve",
        weft.ShapeDtypeStruct(right.shape, right.dtype),
        vmap_method="broadcast_all",
        num_batch_dims=right.ndim - 1,
    )
    return kernel(lower, diagonal, upper, right, transposed=transposed)


def product(lower: Array, diagonal: Array, upper: Array, x: Array) -> Array:
    """The matrix times x."""
    edge = jnp.zeros_like(x[..., :1])
    before = jnp.concatenate([edge, x[..., :-1]], axis=-1)
    after = jnp.concatenate([x[..., 1:], edge], axis=-1)
    return lower * before + diagonal * x + upper * after


def solve(lower: Array, diagonal: Array, upper: Array, right: Array) -> Array:
    """x of row i: lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = right[i].

    All have one shape (..., n) and one dtype, float32 or float64; lower[0] and upper[n-1] are not
    used. Raises weft.errors.WeftError where a pivot is zero.
    """
    return weft.lax.custom_linear_solve(
        lambda x: product(lower, diagonal, upper, x),
        right,
        solve=lambda _, b: call(lower, diagonal, upper, b, transposed=False),
        transpose_solve=lambda _, b: call(lower, diagonal, upper, b, transposed=True),
    )


def diffuse(heat: Array, conductivity: float, steps: int) -> Array:
    """Heat along a rod after some implicit steps (backward Euler; the ends are insulated)."""
    ones = jnp.ones_like(heat)
    side = -conductivity * ones
    middle = (1 + 2 * conductivity) * ones
    middle = middle.at[..., 0].add(-conductivity).at[..., -1].add(-conductivity)

    def step(heat: Array, _: None) -> tuple[Array, None]:
        return solve(side, middle, side, heat), None

    return weft.lax.scan(step, heat, None, length=steps)[0]


def main(arguments: list[str] | None = None) -> int:
    """Finds the heat of the start from that of the end, and prints how close it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--descents", type=int, default=200)
    options = parser.parse_args(arguments)
    place = jnp.linspace(0.0, 1.0, options.points)
    start = jnp.exp(-300 * (place - 0.3) ** 2) + 0.5 * jnp.exp(-500 * (place - 0.7) ** 2)
    seen = diffuse(start, 5.0, options.steps)

    @weft.jit
    def loss(guess: Array) -> Array:
        return jnp.sum((diffuse(guess, 5.0, options.steps) - seen) ** 2)

    descend = weft.jit(lambda guess: guess - 0.45 * weft.grad(loss)(guess))
    guess = seen
    first = float(loss(guess))
    for _ in range(options.descents):
        guess = descend(guess)
    last = float(loss(guess))
    print(f"heat is kept: {float(jnp.sum(start)):.3f} before, {float(jnp.sum(seen)):.3f} after")
    print(f"squared distance from what is seen: {first:.6f} at first, {last:.6f} at last")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
