"""Fixes of `weft.lax.linalg`."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
import weft.scipy.linalg
from fixes import Fixed
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.lax import linalg

S = np.float32([[4, 1, 0], [1, 3, 1], [0, 1, 2]])
WHOLE = S.astype(np.int32)
TALL = np.float32([[1, 2], [0, 1], [2, 1]])
V = np.float32([1, 2, 3])
ONES = np.ones(3, np.float32)
PIVOTS = np.int32([1, 2, 2])


def factored(x):
    """The reflections and their factors, as `qr` gives them."""
    h, taus = weft.numpy.linalg.qr(x, mode="raw")
    return h.mT, taus


def first_column_change(qr=linalg.qr, **options):
    """The derivative of the first column of Q, in the direction of the matrix itself: none."""
    return weft.jvp(lambda x: qr(x, **options)[0][:, 0], (TALL,), (TALL,))[1]


def singular_derivative(**options):
    return weft.jvp(lambda x: linalg.svd(x, **options)[1], (TALL,), (TALL,))[1]


def vector_derivative(**options):
    """Eigenvalues of a matrix that doubles grow by themselves; its vectors stay."""
    (values, _), changes = weft.jvp(
        lambda x: linalg.eig(x, compute_left_eigenvectors=False, **options), (S,), (S,)
    )
    return changes[0] / values, 1 + changes[1]


def eigenvalues(x):
    return jnp.sort(linalg.eig(x)[0].real)


def reduced_trace(x):
    """A function of a matrix and of its Hessenberg form, which has no derivative."""
    return linalg.hessenberg(x)[0][0, 0] + x.sum()


TYPES = [
    Fixed(
        "x.astype('float32')",
        wrong=lambda: linalg.cholesky(WHOLE),
        fixed=lambda fix: linalg.cholesky(WHOLE.astype("float32")),
        value=np.linalg.cholesky(S),
        error=DTypeError,
    ),
    Fixed(
        "reshape it: x.reshape(3, 3)",
        wrong=lambda: linalg.cholesky(S.reshape(-1)),
        fixed=lambda fix: linalg.cholesky(S.reshape(-1).reshape(3, 3)),
        value=np.linalg.cholesky(S),
        error=ShapeError,
    ),
    Fixed(
        "reshape it: x.reshape(3, 1)",
        wrong=lambda: linalg.svd(V, compute_uv=False),
        fixed=lambda fix: linalg.svd(V.reshape(3, 1), compute_uv=False),
        value=np.linalg.norm(V)[None],
        error=ShapeError,
    ),
    Fixed(
        "b.astype('float32')",
        wrong=lambda: linalg.triangular_solve(S, WHOLE, left_side=True, lower=True),
        fixed=lambda fix: linalg.triangular_solve(
            S, WHOLE.astype("float32"), left_side=True, lower=True
        ),
        value=np.linalg.solve(np.tril(S), S),
        error=DTypeError,
    ),
    Fixed(
        "a.astype('complex64')",
        wrong=lambda: linalg.triangular_solve(S, S + 1j, left_side=True, lower=True),
        fixed=lambda fix: linalg.triangular_solve(
            S.astype("complex64"), S + 1j, left_side=True, lower=True
        ),
        value=np.linalg.solve(np.tril(S), S + 1j),
        error=DTypeError,
    ),
    Fixed(
        "pivots.astype('int32')",
        wrong=lambda: linalg.lu_pivots_to_permutation(PIVOTS.astype(np.int16), 3),
        fixed=lambda fix: linalg.lu_pivots_to_permutation(
            PIVOTS.astype(np.int16).astype("int32"), 3
        ),
        value=np.array([1, 2, 0]),
        error=DTypeError,
    ),
    Fixed(
        "dl.astype('float32')",
        wrong=lambda: linalg.tridiagonal_solve(WHOLE[2], V, V, V[:, None]),
        fixed=lambda fix: linalg.tridiagonal_solve(
            WHOLE[2].astype("float32"), np.float32([3, 3, 3]), 0 * V, V[:, None]
        ),
        value=np.linalg.solve([[3, 0, 0], [1, 3, 0], [0, 2, 3]], V[:, None]),
        error=DTypeError,
    ),
]

SHAPES = [
    Fixed(
        "pass h.mT and taus of h, taus = weft.numpy.linalg.qr(x, mode='raw')",
        wrong=lambda: linalg.householder_product(TALL, V),
        fixed=lambda fix: linalg.householder_product(*factored(TALL)),
        value=np.linalg.qr(TALL)[0],
        error=ShapeError,
    ),
    Fixed(
        "leave columns out: a[..., :a.shape[-2]]",
        wrong=lambda: linalg.householder_product(*factored(TALL.T)),
        fixed=lambda fix: linalg.householder_product(
            factored(TALL.T)[0][..., :2], factored(TALL.T)[1]
        ),
        value=np.linalg.qr(TALL.T)[0],
        error=ShapeError,
    ),
    Fixed(
        "left=False for c Q",
        wrong=lambda: linalg.ormqr(*factored(TALL), V[None]),
        fixed=lambda fix: linalg.ormqr(*factored(TALL), V[None], left=False),
        value=V[None] @ np.linalg.qr(TALL, "complete")[0],
        error=ShapeError,
    ),
    Fixed(
        "pass left=True for Q c",
        wrong=lambda: linalg.ormqr(*factored(TALL), V[:, None], left=False),
        fixed=lambda fix: linalg.ormqr(*factored(TALL), V[:, None], left=True),
        value=np.linalg.qr(TALL, "complete")[0] @ V[:, None],
        error=ShapeError,
    ),
    Fixed(
        "pass 3, or the rows of a tall matrix",
        wrong=lambda: linalg.lu_pivots_to_permutation(PIVOTS, 2),
        fixed=lambda fix: linalg.lu_pivots_to_permutation(PIVOTS, permutation_size=3),
        value=np.array([1, 2, 0]),
        error=WeftValueError,
    ),
    Fixed(
        "alpha * symmetric_product(a_matrix, c_matrix) + beta * c_matrix",
        wrong=lambda: linalg.symmetric_product(TALL, S, alpha=jnp.float32(2), beta=3.0),
        fixed=lambda fix: jnp.float32(2) * linalg.symmetric_product(TALL, S) + 3.0 * S,
        value=2 * TALL @ TALL.T + 3 * S,
        error=WeftTypeError,
    ),
    Fixed(
        "pass left_side=True for a x = b",
        wrong=lambda: linalg.triangular_solve(S, TALL, lower=True),
        fixed=lambda fix: linalg.triangular_solve(S, TALL, left_side=True, lower=True),
        value=np.linalg.solve(np.tril(S), TALL),
        error=ShapeError,
    ),
    Fixed(
        "left_side=False for x a = b",
        wrong=lambda: linalg.triangular_solve(S, TALL.T, left_side=True, lower=True),
        fixed=lambda fix: linalg.triangular_solve(S, TALL.T, left_side=False, lower=True),
        value=TALL.T @ np.linalg.inv(np.tril(S)),
        error=ShapeError,
    ),
    Fixed(
        "weft.numpy.broadcast_to gives equal batch dimensions",
        wrong=lambda: linalg.triangular_solve(S, TALL[None], left_side=True, lower=True),
        fixed=lambda fix: linalg.triangular_solve(
            weft.numpy.broadcast_to(S, (1, 3, 3)), TALL[None], left_side=True, lower=True
        ),
        value=np.linalg.solve(np.tril(S), TALL)[None],
        error=ShapeError,
    ),
    Fixed(
        "for one right-hand side pass b[..., None]",
        wrong=lambda: linalg.tridiagonal_solve(ONES, 3 * ONES, ONES, np.stack([V, V])),
        fixed=lambda fix: linalg.tridiagonal_solve(
            *np.stack([[ONES, 3 * ONES, ONES]] * 2, 1), np.stack([V, V])[..., None]
        ),
        value=np.stack([np.linalg.solve([[3, 1, 0], [1, 3, 1], [0, 1, 3]], V[:, None])] * 2),
        error=ShapeError,
    ),
    Fixed(
        "weft.numpy.pad(dl, (1, 0)), weft.numpy.pad(du, (0, 1))",
        wrong=lambda: linalg.tridiagonal_solve(ONES[1:], 3 * ONES, ONES[1:], V[:, None]),
        fixed=lambda fix: linalg.tridiagonal_solve(
            weft.numpy.pad(ONES[1:], (1, 0)), 3 * ONES, weft.numpy.pad(ONES[1:], (0, 1)), V[:, None]
        ),
        value=np.linalg.solve([[3, 1, 0], [1, 3, 1], [0, 1, 3]], V[:, None]),
        error=ShapeError,
    ),
    Fixed(
        "pass subset_by_index=(0, 3)",
        wrong=lambda: linalg.eigh(S, subset_by_index=(0, 4)),
        fixed=lambda fix: linalg.eigh(S, subset_by_index=(0, 3))[1],
        value=np.linalg.eigvalsh(S),
        error=WeftValueError,
    ),
]

WAYS = [
    Fixed(
        "pass full_matrices=False",
        wrong=lambda: linalg.svd(TALL, subset_by_index=(0, 1)),
        fixed=lambda fix: linalg.svd(TALL, subset_by_index=(0, 1), full_matrices=False)[1],
        value=np.linalg.svd(TALL)[1][:1],
        error=WeftValueError,
    ),
    Fixed(
        "pass full_matrices=False",
        wrong=lambda: singular_derivative(),
        fixed=lambda fix: singular_derivative(full_matrices=False),
        value=np.linalg.svd(TALL)[1],
        error=WeftNotImplementedError,
    ),
    Fixed(
        [
            "pass full_matrices=False",
            "to weft.numpy.linalg.qr mode='reduced', to weft.scipy.linalg.qr mode='economic'",
        ],
        wrong=lambda: first_column_change(),
        fixed=lambda fix: [
            first_column_change(full_matrices=False),
            first_column_change(weft.numpy.linalg.qr, mode="reduced"),
            first_column_change(weft.scipy.linalg.qr, mode="economic"),
        ],
        value=[np.zeros(3)] * 3,
        error=WeftNotImplementedError,
    ),
    Fixed(
        ["pass enable_eigvec_derivs=True to weft.lax.linalg.eig", "or leave the eigenvectors out"],
        wrong=lambda: vector_derivative(),
        fixed=lambda fix: [
            vector_derivative(enable_eigvec_derivs=True),
            weft.jvp(
                lambda x: linalg.eig(
                    x, compute_left_eigenvectors=False, compute_right_eigenvectors=False
                )[0].sum(),
                (S,),
                (S,),
            )[1],
        ],
        value=[[np.ones(3), np.ones((3, 3))], np.trace(S)],
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass weft.lax.stop_gradient(x)",
        wrong=lambda: weft.grad(reduced_trace)(S),
        fixed=lambda fix: weft.grad(
            lambda x: linalg.hessenberg(weft.lax.stop_gradient(x))[0][0, 0] + x.sum()
        )(S),
        value=np.ones((3, 3)),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave out implementation",
        wrong=lambda: linalg.eigh(S, implementation=linalg.EighImplementation.QDWH),
        fixed=lambda fix: linalg.eigh(S)[1],
        value=np.linalg.eigvalsh(S),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave out use_magma",
        wrong=lambda: linalg.qr(TALL, use_magma=True),
        fixed=lambda fix: abs(linalg.qr(TALL, full_matrices=False)[1]),
        value=abs(np.linalg.qr(TALL)[1]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "compute it on a CPU: jit(f, backend='cpu')",
        wrong=lambda: weft.jit(eigenvalues).trace(S).lower(lowering_platforms=("rocm",)),
        fixed=lambda fix: weft.jit(eigenvalues, backend="cpu")(S),
        value=np.linalg.eigvalsh(S),
        error=WeftNotImplementedError,
    ),
]

FIXES = [*TYPES, *SHAPES, *WAYS]
