"""Factorizations and solvers on an NVIDIA GPU, each against what defines it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.lax import linalg
from weft.ops.linalg.qr import geqrf

pytestmark = pytest.mark.gpu

DTYPES = ["float32", "float64", "complex64", "complex128"]
# Matrices taller and wider than they are; small ones, which kernels compute in batches; above 1,024
# another algorithm computes singular values.
SHAPES = [(1, 1), (5, 5), (7, 3), (3, 7), (2, 6, 6), (2, 3, 9, 4), (2, 40, 33), (33, 40)]


@pytest.fixture(scope="module", autouse=True)
def wide():
    with weft.enable_x64(), weft.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def gpu():
    return weft.devices("gpu")[0]


def matrices(shape, dtype, seed=0):
    source = np.random.default_rng(seed)
    x = source.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * source.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(found, wanted, dtype, factor=200):
    wanted = np.asarray(wanted)
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0)))
    bound = factor * scale * np.finfo(np.dtype(dtype)).eps
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=bound)


def run(gpu, function, *arrays):
    """The results of a jitted function on the GPU, as NumPy arrays in double precision."""
    found = weft.jit(function)(*(weft.device_put(x, gpu) for x in arrays))
    for leaf in weft.tree.leaves(found):
        assert leaf.device == gpu
    return weft.tree.map(lambda x: np.asarray(x).astype(np.promote_types(x.dtype, "d")), found)


def square(shape):
    return (*shape[:-2], max(shape[-2:]), max(shape[-2:]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(gpu, shape, dtype):
    x = matrices(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = run(gpu, lambda x, mode=mode: tuple(jnp.linalg.qr(x, mode=mode)), x)
        close(q @ r, x, dtype)
        close(
            adjoint(q) @ q,
            np.broadcast_to(np.eye(q.shape[-1]), adjoint(q).shape[:-2] + (q.shape[-1],) * 2),
            dtype,
        )
        close(r, np.triu(r), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (1100, 40), (40, 1100), (1030, 1030)])
def test_svd(gpu, shape, dtype):
    x = matrices(shape, dtype)
    wanted = np.linalg.svd(x.astype(np.promote_types(dtype, "d")), compute_uv=False)
    close(run(gpu, lambda x: jnp.linalg.svd(x, compute_uv=False), x), wanted, dtype, 500)
    for full in (False, True):
        u, s, vh = run(gpu, lambda x, f=full: tuple(jnp.linalg.svd(x, full_matrices=f)), x)
        k = s.shape[-1]
        close(s, wanted, dtype, 500)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, dtype, 2000)
        close(
            adjoint(u) @ u,
            np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], *u.shape[-1:] * 2)),
            dtype,
            500,
        )
        close(
            vh @ adjoint(vh),
            np.broadcast_to(np.eye(vh.shape[-2]), (*vh.shape[:-2], *vh.shape[-2:-1] * 2)),
            dtype,
            500,
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (300, 300)])
def test_square_matrices(gpu, shape, dtype):
    """Hermitian eigenvalues, general ones, Cholesky's and LU's factors, and solving."""
    shape = square(shape)
    x = matrices(shape, dtype)
    exact = x.astype(np.promote_types(dtype, "d"))
    hermitian = ((x + adjoint(x)) / 2).astype(dtype)
    for lower in ("L", "U"):
        w, v = run(gpu, lambda x, uplo=lower: tuple(jnp.linalg.eigh(x, UPLO=uplo)), hermitian)
        close(w, np.linalg.eigvalsh(hermitian.astype(exact.dtype)), dtype)
        close(v * w[..., None, :], hermitian @ v, dtype, 500)
    positive = (x @ adjoint(x) + shape[-1] * np.eye(shape[-1])).astype(dtype)
    factor = run(gpu, jnp.linalg.cholesky, positive)
    close(factor @ adjoint(factor), positive, dtype)
    close(factor, np.tril(factor), dtype)
    packed, _, order = run(gpu, linalg.lu, x)
    lower = np.tril(packed, -1) + np.eye(shape[-1])
    rows = np.take_along_axis(exact, order.astype(int)[..., None], -2)
    close(lower @ np.triu(packed), rows, dtype)
    b = matrices((*shape[:-1], 2), dtype, 1)
    close(exact @ run(gpu, jnp.linalg.solve, x, b), b, dtype, 50_000)
    close(np.linalg.slogdet(exact)[1], run(gpu, lambda x: jnp.linalg.slogdet(x)[1], x), dtype, 500)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 8, 50])
def test_general_eigenvalues(gpu, size, dtype):
    for shape in ((size, size), (3, size, size)):
        x = matrices(shape, dtype)
        w, v = run(gpu, lambda x: tuple(jnp.linalg.eig(x)), x)
        close(x @ v, v * w[..., None, :], dtype, 2000)
        close(np.linalg.norm(v, axis=-2), np.ones(w.shape), dtype)
        alone = run(gpu, jnp.linalg.eigvals, x)
        close(np.sort_complex(alone), np.sort_complex(w), dtype, 5000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 20])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_tridiagonal_systems(gpu, batch, size, dtype):
    dl, du, d = (matrices((*batch, size), dtype, seed) for seed in range(3))
    d = d + 6
    b = matrices((*batch, size, 2), dtype, 3)
    x = run(gpu, linalg.tridiagonal_solve, dl, d, du, b)
    product = d[..., None] * x
    product[..., 1:, :] += dl[..., 1:, None] * x[..., :-1, :]
    product[..., :-1, :] += du[..., :-1, None] * x[..., 1:, :]
    close(product, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections_and_tridiagonal_form(gpu, dtype):
    x, c = matrices((2, 6, 4), dtype), matrices((2, 6, 3), dtype, 1)

    def apply(x, c):
        packed, taus = geqrf(x)
        wide = jnp.pad(packed, ((0, 0), (0, 0), (0, 2)))
        q = linalg.householder_product(wide, jnp.pad(taus, ((0, 0), (0, 2))))
        return q, linalg.ormqr(packed, taus, c), linalg.ormqr(packed, taus, c, transpose=True)

    q, times, back = run(gpu, apply, x, c)
    close(times, q @ c, dtype)
    close(back, adjoint(q) @ c, dtype)
    hermitian = (x[:, :4] + adjoint(x[:, :4])) / 2
    _, d, e, _ = run(gpu, linalg.tridiagonal, hermitian.astype(dtype))
    form = np.zeros((2, 4, 4))
    for n in range(2):
        form[n] = np.diag(d[n]) + np.diag(e[n], 1) + np.diag(e[n], -1)
    close(np.linalg.eigvalsh(form), np.linalg.eigvalsh(hermitian), dtype)


def test_failure_is_nan(gpu):
    found = run(gpu, jnp.linalg.cholesky, np.stack([np.eye(3), -np.eye(3)]))
    np.testing.assert_array_equal(np.isnan(found).any((1, 2)), [False, True])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.svd(x, compute_uv=False).sum(),
        lambda x: jnp.abs(jnp.linalg.qr(x)[0]).sum(),
        lambda x: jnp.linalg.eigvalsh(x @ x.T)[0],
        lambda x: jnp.linalg.slogdet(x)[1],
        lambda x: jnp.sum(jnp.linalg.inv(x) ** 2),
        lambda x: jnp.abs(jnp.linalg.eigvals(x)).sum(),
        lambda x: jnp.sum(weft.scipy.linalg.expm(x / 4) ** 2),
    ],
)
def test_gradients_are_those_of_the_cpu(gpu, function):
    x = matrices((6, 6), "float64")
    here = run(gpu, weft.grad(function), x)
    there = np.asarray(weft.grad(function)(weft.device_put(x, weft.devices("cpu")[0])))
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)


def test_what_has_no_kernel_is_said(gpu):
    for function in (linalg.schur, linalg.hessenberg, lambda x: linalg.eig(x)[1]):
        with pytest.raises(weft.errors.WeftError, match="not there on cuda") as raised:
            run(gpu, function, matrices((3, 3), "float32"))
        assert "backend='cpu'" in str(raised.value.fix)
