"""Values that are equal up to rounding: comparisons, each with a tolerance."""

from __future__ import annotations

import numpy as np

from weft import tree

__all__ = ["close", "close_after_sums", "close_to_rounding", "close_trees"]


def close(got, wanted, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=rtol, atol=atol)


def close_after_sums(got, wanted, rtol=2e-5, atol=2e-6):
    close(got, wanted, rtol, atol)


def close_to_rounding(got, wanted, tolerance=2e-6):
    close(got, wanted, tolerance, tolerance)


def close_trees(got, wanted, rtol=1e-5, atol=1e-6):
    """Compares two trees of arrays, in structure and in values."""
    assert tree.structure(got) == tree.structure(wanted)
    for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        close(a, b, rtol, atol)
