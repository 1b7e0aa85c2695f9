"""Fixes of `weft.numpy.linalg` and of the products of `weft.numpy`."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.numpy import linalg

A = jnp.array([[4.0, 1], [1, 3]])
V = jnp.array([1.0, 2])
WIDE = jnp.array([[3.0, 0, 0], [0, 0, 4]])
CUBE = jnp.arange(8.0).reshape(2, 2, 2)
TWO = jnp.stack([A, 2 * A])
# A permutation of four elements, with the second of three dimensions as rows.
TENSOR = jnp.eye(4).reshape(2, 2, 4).transpose(0, 2, 1)
EMPTY = jnp.ones((0, 2))
SOLUTION = np.array([1, 7]) / 11


def raised(call):
    """A row's `wrong` and `error` for a call that is refused for its shapes."""
    return {"wrong": call, "error": ShapeError}


SINGULAR = np.linalg.svd(np.array(A), compute_uv=False)

DECOMPOSITIONS = [
    Fixed(
        "leave rcond out",
        wrong=lambda: linalg.pinv(A, rtol=1e-3, rcond=1e-3),
        fixed=lambda fix: linalg.pinv(A, rtol=1e-3) @ V,
        value=SOLUTION,
        error=WeftValueError,
    ),
    Fixed(
        "use weft.numpy.linalg.vector_norm(x, axis=(0, 1, 2), ord=1)",
        **raised(lambda: linalg.norm(CUBE, ord=1, axis=(0, 1, 2))),
        fixed=lambda fix: weft.numpy.linalg.vector_norm(CUBE, axis=(0, 1, 2), ord=1),
        value=28,
    ),
    Fixed(
        "pass axis=(-2, -1)",
        **raised(lambda: linalg.norm(CUBE, ord="fro", axis=(0, 1, 2))),
        fixed=lambda fix: linalg.norm(CUBE, ord="fro", axis=(-2, -1)),
        value=np.sqrt([14, 126]),
    ),
    Fixed(
        "pass axis=-1 for vectors, axis=(-2, -1) for matrices",
        **raised(lambda: linalg.norm(CUBE, ord=1)),
        fixed=lambda fix: [
            linalg.norm(CUBE, ord=1, axis=-1),
            linalg.norm(CUBE, ord=1, axis=(-2, -1)),
        ],
        value=[np.array([[1, 5], [9, 13]]), np.array([4, 12])],
    ),
    Fixed(
        "use abs(x), which is the norm of a number",
        **raised(lambda: linalg.norm(jnp.array(-3.0), ord=1)),
        fixed=lambda fix: abs(jnp.array(-3.0)),
        value=3,
    ),
    Fixed(
        "pass ord='fro'",
        **raised(lambda: linalg.norm(EMPTY, ord=-np.inf)),
        fixed=lambda fix: linalg.norm(EMPTY, ord="fro"),
        value=0,
    ),
    Fixed(
        "for other matrices there are pinv, lstsq, svd and qr",
        **raised(lambda: linalg.inv(WIDE)),
        fixed=lambda fix: linalg.pinv(WIDE),
        value=np.array([[1 / 3, 0], [0, 0], [0, 1 / 4]]),
    ),
    Fixed(
        "pass full_matrices=False",
        wrong=lambda: linalg.svd(A, subset_by_index=(0, 1)),
        fixed=lambda fix: linalg.svd(A, subset_by_index=(0, 1), full_matrices=False)[1],
        value=SINGULAR[:1],
        error=WeftValueError,
    ),
]

SYSTEMS = [
    Fixed(
        "weft.vmap(weft.numpy.linalg.lstsq, (0, None))(a, b)",
        **raised(lambda: linalg.lstsq(TWO, V)),
        fixed=lambda fix: weft.vmap(weft.numpy.linalg.lstsq, (0, None))(TWO, V)[0],
        value=np.stack([SOLUTION, SOLUTION / 2]),
    ),
    Fixed(
        "weft.vmap(weft.numpy.linalg.lstsq, (0, 0))(a, b)",
        **raised(lambda: linalg.lstsq(TWO, jnp.stack([V, V]))),
        fixed=lambda fix: weft.vmap(weft.numpy.linalg.lstsq, (0, 0))(TWO, jnp.stack([V, V]))[0],
        value=np.stack([SOLUTION, SOLUTION / 2]),
    ),
    Fixed(
        "pass a b of shape (2,) or (2, k)",
        **raised(lambda: linalg.lstsq(A, jnp.ones(3))),
        fixed=lambda fix: [linalg.lstsq(A, V)[0], linalg.lstsq(A, V[:, None])[0]],
        value=[SOLUTION, SOLUTION[:, None]],
    ),
    Fixed(
        "pass a b of shape (2,) or (..., 2, k)",
        **raised(lambda: linalg.solve(A, jnp.ones(3))),
        fixed=lambda fix: [linalg.solve(A, V), linalg.solve(A, V[:, None])],
        value=[SOLUTION, SOLUTION[:, None]],
    ),
    Fixed(
        "several vectors are columns: b[..., None] for one each",
        **raised(lambda: linalg.solve(A, jnp.stack([V, V, 2 * V]))),
        fixed=lambda fix: linalg.solve(A, jnp.stack([V, V, 2 * V])[..., None]),
        value=np.stack([SOLUTION, SOLUTION, 2 * SOLUTION])[..., None],
    ),
    Fixed(
        "pass ind=1",
        **raised(lambda: linalg.tensorinv(2 * jnp.eye(4).reshape(4, 2, 2))),
        fixed=lambda fix: linalg.tensorinv(2 * jnp.eye(4).reshape(4, 2, 2), ind=1),
        value=np.eye(4).reshape(2, 2, 4) / 2,
    ),
    Fixed(
        "pass ind=1",
        wrong=lambda: linalg.tensorinv(2 * jnp.eye(4).reshape(4, 2, 2), ind=0),
        fixed=lambda fix: linalg.tensorinv(2 * jnp.eye(4).reshape(4, 2, 2), ind=1),
        value=np.eye(4).reshape(2, 2, 4) / 2,
        error=WeftValueError,
    ),
    Fixed(
        "pass axes=(1,)",
        **raised(lambda: linalg.tensorsolve(TENSOR, CUBE[0])),
        fixed=lambda fix: linalg.tensorsolve(TENSOR, CUBE[0], axes=fix.data["axes"]),
        value=np.arange(4),
    ),
]

PRODUCTS = [
    Fixed(
        "pass them as a list: multi_dot([a, b, c])",
        wrong=lambda: linalg.multi_dot(TWO),
        fixed=lambda fix: linalg.multi_dot([A, A, V]),
        value=np.array(A) @ np.array(A) @ [1, 2],
        error=WeftTypeError,
    ),
    Fixed(
        "for two at a time: a @ b @ c",
        **raised(lambda: linalg.multi_dot([A, TWO, V])),
        fixed=lambda fix: A @ TWO @ V,
        value=np.array([[31, 27], [62, 54]]),
    ),
    Fixed(
        "multiply by a number with *",
        **raised(lambda: linalg.multi_dot([2.0, A])),
        fixed=lambda fix: 2.0 * A,
        value=np.array([[8, 2], [2, 6]]),
    ),
    Fixed(
        "pass axis=-2",
        **raised(lambda: linalg.cross(jnp.eye(3)[:, :2], jnp.eye(3)[:, 1:])),
        fixed=lambda fix: linalg.cross(jnp.eye(3)[:, :2], jnp.eye(3)[:, 1:], axis=-2),
        value=np.array([[0, 1], [0, 0], [1, 0]]),
    ),
    Fixed(
        "use weft.numpy.cross, which takes vectors of 2",
        **raised(lambda: linalg.cross(V, A[0])),
        fixed=lambda fix: weft.numpy.cross(V, A[0]),
        value=1 - 8,
    ),
    Fixed(
        "use weft.numpy.outer, which flattens its operands",
        **raised(lambda: linalg.outer(A, V)),
        fixed=lambda fix: weft.numpy.outer(A, V),
        value=np.outer([4, 1, 1, 3], [1, 2]),
    ),
    Fixed(
        "write x @ y.T or x.T @ y, if that is what is meant",
        **raised(lambda: WIDE @ WIDE),
        fixed=lambda fix: [WIDE @ WIDE.T, WIDE.T @ WIDE],
        value=[np.diag([9, 16]), np.diag([9, 0, 16])],
    ),
    Fixed(
        "pass a second operand of shape (3,)",
        **raised(lambda: WIDE @ jnp.ones(4)),
        fixed=lambda fix: WIDE @ jnp.ones(fix.data["shape"]),
        value=np.array([3, 4]),
    ),
    Fixed(
        "multiply by a number with *",
        **raised(lambda: jnp.matmul(A, 2.0)),
        fixed=lambda fix: A * 2.0,
        value=np.array([[8, 2], [2, 6]]),
    ),
    Fixed(
        "use it as it is: arrays[0]",
        wrong=lambda: linalg.multi_dot([A]),
        fixed=lambda fix: [A][0],
        value=A,
        error=WeftValueError,
    ),
]

FIXES = [*DECOMPOSITIONS, *SYSTEMS, *PRODUCTS]
