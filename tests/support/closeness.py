"""Values that are equal up to rounding."""

from __future__ import annotations

import numpy as np

from weft import tree

__all__ = ["close"]


def close(got, wanted, rtol=2e-6, atol=1e-6):
    """Compares two trees of arrays; where one array was computed, a list may stand for another."""

    def compare(a, b):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)

    tree.map(compare, got, wanted)
