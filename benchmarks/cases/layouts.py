"""What layouts that the library chooses save, and that they cost nothing where they save none."""

import importlib

import numpy as np

import workloads
from cases.registry import case
from timers import MS, Figures, steps

N = 4096


def readers(lib):
    """Functions that read a matrix (the first argument) in several ways, with their arguments."""
    jnp, lax = lib.numpy, lib.lax
    matrix = workloads.f32(N, N)
    numbers = np.random.default_rng(0).permutation(N)[:256].astype(np.int32)
    vector = workloads.f32(N)
    return {
        "columns_one_by_one": (
            lambda y, js: lax.map(lambda j: jnp.sum(y[:, j] * y[:, 0]), js),
            (matrix, numbers),
        ),
        "columns_gathered": (lambda y, js: jnp.sum(y[:, js], axis=1), (matrix, numbers)),
        "rows_one_by_one": (
            lambda y, js: lax.map(lambda j: jnp.sum(y[j] * y[0]), js),
            (matrix, numbers),
        ),
        "scanned": (
            lambda y, v: lax.scan(lambda c, row: (c + row @ v, None), np.float32(0), y)[0],
            (matrix, vector),
        ),
        "elementwise": (lambda y, v: jnp.tanh(y) * v, (matrix, vector)),
        "sum_over_rows": (lambda y, v: jnp.sum(y, axis=0) + v, (matrix, vector)),
        "matmul": (lambda y, b: y @ b, (matrix, workloads.f32(N, 256))),
        "matmul_transposed": (lambda y, b: y.T @ b, (matrix, workloads.f32(N, 256))),
    }


@case(reps=3)
def layouts(lib):
    """Programs that read a 64 MB matrix: arguments in row-major order, and as AUTO chooses."""
    figures = Figures()
    found = importlib.import_module(f"{lib.__name__}.experimental.layout")
    auto = found.Format(found.Layout.AUTO)
    for name, (function, arguments) in readers(lib).items():
        with figures.part(name):
            arrays = [lib.numpy.asarray(x) for x in arguments]
            plain = lib.jit(function).lower(*arrays).compile()
            chosen = lib.jit(function, in_shardings=auto).lower(*arrays).compile()
            placed = [
                lib.device_put(x, f) for x, f in zip(arrays, chosen.input_formats[0], strict=True)
            ]
            np.testing.assert_allclose(plain(*arrays), chosen(*placed), rtol=1e-2, atol=1e-2)
            first = steps(lambda: plain(*arrays), lib.block_until_ready, budget=1.5)
            second = steps(lambda: chosen(*placed), lib.block_until_ready, budget=1.5)
            figures.add("row_major", first * MS, "ms")
            figures.add("auto", second * MS, "ms")
            figures.add("auto_over_row_major", second / first, "x")
    return figures
