"""Ways to call a function of arrays: parameters of tests."""

from __future__ import annotations

import pytest

import weft

__all__ = ["WAYS", "WAYS_AND_TWICE"]

WAYS = [pytest.param(lambda f: f, id="eager"), pytest.param(weft.jit, id="jit")]
WAYS_AND_TWICE = [
    *WAYS,
    pytest.param(lambda f: weft.jit(lambda *a: weft.jit(f)(*a)), id="jit of jit"),
]
