"""`sparsify`, single matrices, `BCSR` and linear algebra, beside dense arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft import lax
from weft.experimental import sparse
from weft.experimental.sparse import linalg

RNG = np.random.default_rng(0)
A = np.where(RNG.random((3, 4)) < 0.6, RNG.standard_normal((3, 4)), 0.0)
B = RNG.standard_normal((4, 3))


pytestmark = pytest.mark.usefixtures("x64")


FUNCTIONS = {
    "arithmetic": lambda x: 2 * x - x / 3 + x * x,
    "functions": lambda x: jnp.sin(x) + jnp.expm1(x) ** 2 - abs(x),
    "shapes": lambda x: jnp.concatenate([x.T.reshape(2, 6), x[::-1, 1:3].reshape(2, 3)], 1),
    "sums": lambda x: jnp.sum(x, 0) * jnp.mean(x),
    "products": lambda x: (x.T @ x) @ B,
    "einsum": lambda x: jnp.einsum("ij,jk->ki", x, B),
    "jit": weft.jit(lambda x: x * 2 + x),
    "cond": lambda x: lax.cond(jnp.sum(x) > 0, lambda y: 2 * y, lambda y: y * y, x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: 2 * y, x),
    "while": lambda x: lax.while_loop(lambda y: jnp.sum(y * y) < 99, lambda y: 2 * y, x),
    "scan": lambda x: lax.scan(lambda c, v: (c * 2, (c * v).sum(0)), x, jnp.arange(3.0))[1],
    "rows": lambda x: lax.scan(lambda c, row: (c + row @ B, row * 2), jnp.zeros(3), x)[1],
    "checkpoint": weft.checkpoint(lambda x: jnp.tanh(x) @ B),
    "dense": lambda x: jnp.cos(sparse.todense(x)),
    "custom": lambda x: doubled(x),
}


@weft.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), doubled(*tangents)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_sparse_arrays(name):
    f, x = FUNCTIONS[name], sparse.BCOO.fromdense(A)
    wanted = np.asarray(f(jnp.asarray(A)))
    close_doubles(sparse.sparsify(f)(x), wanted)
    close_doubles(sparse.sparsify(f, use_tracer=True)(x), wanted)
    if name in ("arithmetic", "products", "jit"):
        close_doubles(weft.jit(sparse.sparsify(f))(x), wanted)
        close_doubles(sparse.sparsify(f)(sparse.BCSR.fromdense(A)), wanted)


def test_what_would_be_dense_is_refused():
    x = sparse.BCOO.fromdense(A)
    for f in (jnp.cos, jnp.max, lambda x: x + 1, lambda x: x > 0, lambda x: 1 / x):
        with pytest.raises(NotImplementedError):
            sparse.sparsify(f)(x)


def test_tracers_show_the_sparse_array():
    seen = []
    sparse.sparsify(lambda x: seen.append(x) or 2 * x, use_tracer=True)(sparse.eye(2))
    assert isinstance(seen[0], sparse.SparseTracer) and isinstance(seen[0].spvalue, sparse.BCOO)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR, sparse.CSC])
def test_single_matrices(kind):
    x = kind.fromdense(A, nse=np.count_nonzero(A) + 2)
    close_doubles(x, A)
    close_doubles(x.T, A.T)
    close_doubles(x @ B, A @ B)
    close_doubles(x.T @ A[:, 0], A.T @ A[:, 0])
    close_doubles(B @ x, B @ A)
    close_doubles(weft.jit(lambda x, b: x @ b)(x, B[:, 0]), A @ B[:, 0])
    slope = weft.grad(
        lambda d: (type(x).tree_unflatten(x.tree_flatten()[1], (d, *x._bufs[1:])) @ B).sum()
    )
    assert slope(x.data).shape == x.data.shape


def test_products_by_name():
    coo, csr = sparse.coo_fromdense(A), sparse.csr_fromdense(A)
    v = np.arange(3.0)
    close_doubles(sparse.coo_matvec(coo, v, transpose=True), v @ A)
    close_doubles(sparse.csr_matvec(csr, B[:, 0]), A @ B[:, 0])
    close_doubles(sparse.coo_matmat(coo, B), A @ B)
    close_doubles(sparse.csr_matmat(csr, A, transpose=True), A.T @ A)
    close_doubles(sparse.coo_todense(coo), A)
    close_doubles(sparse.csr_todense(csr), A)


def test_bcsr():
    x = sparse.BCSR.fromdense(A, nse=np.count_nonzero(A) + 2)
    close_doubles(x, A)
    close_doubles(sparse.BCSR.from_scipy_sparse(sp.csr_matrix(A)), A)
    close_doubles(x @ B, A @ B)
    close_doubles(x @ x.T, A @ A.T)
    close_doubles(x + x * 2, 3 * A)
    close_doubles(x.sum(0), A.sum(0))
    close_doubles(x.to_bcoo(), A)
    close_doubles(sparse.bcsr_concatenate([x, x], dimension=0), np.concatenate([A, A]))
    close_doubles(
        sparse.bcsr_broadcast_in_dim(x, shape=(2, 3, 4), broadcast_dimensions=(1, 2)), [A, A]
    )
    np.testing.assert_allclose(sparse.bcsr_extract(x.indices, x.indptr, A), x.data)
    close_doubles(x.sum_duplicates(), A)
    stacked = np.stack([A, 2 * A])
    y = sparse.BCSR.fromdense(stacked, n_batch=1)
    close_doubles(y, stacked)
    close_doubles(weft.vmap(lambda m: m @ B)(y), stacked @ B)


def test_solve():
    a = sp.random(30, 30, 0.2, random_state=0) + 10 * sp.eye(30)
    a, b = a.tocsr(), RNG.standard_normal(30)
    solve = weft.jit(lambda data, b: linalg.spsolve(data, a.indices, a.indptr, b))
    close_doubles(solve(a.data, b), np.linalg.solve(a.toarray(), b))

    def f(data, b):
        return (solve(data, b) ** 3).sum()

    by_data, by_b = weft.grad(f, (0, 1))(a.data, b)
    h, d = 1e-6, RNG.standard_normal(a.nnz)
    slope = (f(a.data + h * d, b) - f(a.data - h * d, b)) / (2 * h)
    np.testing.assert_allclose(by_data @ d, slope, rtol=1e-5)
    slope = (f(a.data, b + h * b) - f(a.data, b - h * b)) / (2 * h)
    np.testing.assert_allclose(by_b @ b, slope, rtol=1e-5)


def test_largest_eigenvalues():
    q = np.linalg.qr(RNG.standard_normal((60, 60)))[0]
    a = (q * np.arange(1.0, 61.0)) @ q.T
    start = RNG.standard_normal((60, 3))
    for matrix in (a, lambda v: a @ v, sparse.BCOO.fromdense(a)):
        values, vectors, steps = linalg.lobpcg_standard(matrix, start, tol=1e-12)
        np.testing.assert_allclose(values, [60.0, 59.0, 58.0], rtol=1e-9)
        np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-4)
        assert 0 < int(steps) <= 100
    with pytest.raises(ValueError, match="5 k < n"):
        linalg.lobpcg_standard(a, RNG.standard_normal((60, 12)))
