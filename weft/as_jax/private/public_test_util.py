"""`jax._src.public_test_util`: comparing trees of arrays by the precision of their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import tree

__all__ = ["check_close"]

_TOLERANCES = {
    "float64": 1e-15, "complex128": 1e-15, "float32": 1e-6, "complex64": 1e-6, "float16": 1e-3,
    "bfloat16": 1e-2,
}  # fmt: skip


def _tolerance(given: Any, arrays: tuple[Any, ...]) -> float:
    """The tolerance for arrays: one for all dtypes, or by dtype in a dict, or the dtypes' own."""
    if given is not None and not isinstance(given, dict):
        return float(given)
    named = {np.dtype(of).name: value for of, value in (given or {}).items()}
    known = _TOLERANCES | named
    return max(known.get(of.dtype.name, 0.0) for of in arrays)


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raises AssertionError if two trees differ by more than their narrower dtypes explain. A
    tolerance is a number, or a dict from dtypes to numbers."""
    assert tree.structure(xs) == tree.structure(ys), err_msg
    for x, y in zip(tree.leaves(xs), tree.leaves(ys), strict=True):
        pair = (np.asarray(x), np.asarray(y))
        one, other = (of.astype("complex128" if of.dtype.kind == "c" else "float64") for of in pair)
        absolute, relative = _tolerance(atol, pair), _tolerance(rtol, pair)
        np.testing.assert_allclose(one, other, relative, absolute, err_msg=err_msg)
