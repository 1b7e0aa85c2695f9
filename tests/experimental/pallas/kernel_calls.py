"""What the tests of kernels share: interpreted calls, and operands with known values."""

from __future__ import annotations

import functools

import numpy as np

import weft
from weft.experimental import pallas as pl

__all__ = ["BLOCKS", "F32", "I32", "S", "V", "call", "matrix"]

S = weft.ShapeDtypeStruct
F32, I32 = np.float32, np.int32
BLOCKS = pl.BlockSpec((4,), lambda i: (i,))
V = np.linspace(-2.1, 3, 16, dtype=F32)

call = functools.partial(pl.pallas_call, interpret=True)


def matrix(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F32)
