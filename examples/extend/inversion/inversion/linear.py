"""Linear systems by elimination with pivoting, together with the log-determinant."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft import lax

__all__ = ["solve_and_log_det"]


def solve_and_log_det(matrix: Any, right: Any) -> tuple[Any, Any]:
    """The solution x of `matrix @ x = right`, and log|det matrix|.

    matrix: (n, n); right: (n, k). Gauss-Jordan elimination with row exchanges (Golub and Van Loan,
    Matrix Computations, section 3.4): a loop of weft's, so it is differentiable in both arguments.
    A singular matrix gives infinities.
    """
    n = matrix.shape[0]
    table = jnp.concatenate([matrix, right], axis=1)
    rows = jnp.arange(n)

    def step(carry: tuple[Any, Any], k: Any) -> tuple[tuple[Any, Any], None]:
        table, log_det = carry
        candidates = jnp.where(rows >= k, jnp.abs(table[:, k]), -1.0)
        best = jnp.argmax(candidates)
        order = jnp.where(rows == k, best, jnp.where(rows == best, k, rows))
        table = table[order]
        pivot = table[k, k]
        row = table[k] / pivot
        factors = jnp.where(rows == k, 0.0, table[:, k])
        table = jnp.where((rows == k)[:, None], row, table - factors[:, None] * row)
        return (table, log_det + jnp.log(jnp.abs(pivot))), None

    (table, log_det), _ = lax.scan(step, (table, jnp.zeros((), table.dtype)), rows)
    return table[:, n:], log_det
