"""Comparisons of results: equal arrays, and arrays that are equal up to rounding, each with a
tolerance. `weft.testing.assert_close` also compares dtypes, and takes its bounds from them."""

from __future__ import annotations

import numpy as np

from weft import tree

__all__ = [
    "close", "close_after_sums", "close_doubles", "close_relative", "close_to_numpy",
    "close_to_rounding", "close_trees", "equal",
]  # fmt: skip


def close(got, wanted, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=rtol, atol=atol)


def close_after_sums(got, wanted, rtol=2e-5, atol=2e-6):
    close(got, wanted, rtol, atol)


def close_to_rounding(got, wanted, tolerance=2e-6):
    close(got, wanted, tolerance, tolerance)


def close_relative(got, wanted, rtol=1e-6):
    """Without an absolute tolerance: what should be zero is zero."""
    close(got, wanted, rtol, 0)


def close_doubles(got, wanted, tolerance=1e-12):
    """Compares a dense or sparse array of double precision, in shape and in values."""
    got = got.todense() if hasattr(got, "todense") else got
    assert np.shape(got) == np.shape(wanted)
    close(got, wanted, tolerance, tolerance)


def close_trees(got, wanted, rtol=1e-5, atol=1e-6):
    """Compares two trees of arrays, in structure and in values."""
    assert tree.structure(got) == tree.structure(wanted)
    for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        close(a, b, rtol, atol)


def close_to_numpy(got, wanted, rtol=1e-12, atol=0):
    """Compares results with NumPy's, lists and tuples opened: their number, shapes, kinds of dtypes
    and values. The dtypes themselves may differ, as NumPy computes in double precision."""
    for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype.kind) == (b.shape, b.dtype.kind)
        close(a, b, rtol, atol)


def equal(got, wanted):
    """Compares two arrays, in shape and bit for bit in values, but for NaN and signs of zeros."""
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
