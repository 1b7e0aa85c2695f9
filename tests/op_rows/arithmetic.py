"""Rows of `ops.arithmetic`: the operations of arithmetic and the comparisons."""

from __future__ import annotations

import numpy as np

from op_table import Op, away, between
from weft import dtypes
from weft.ops import arithmetic as lax

ROWS = [
    Op(lax.neg, np.negative, dtypes.NUMERIC, ulps=0.5),
    Op(lax.add, np.add, dtypes.NUMERIC, arity=2, ulps=1),
    Op(lax.sin, np.sin, dtypes.INEXACT, draw=between(-10,10), ulps=2, floor=1.0),
]
