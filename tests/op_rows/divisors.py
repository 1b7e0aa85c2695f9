"""Rows of `ops.divisors`."""

from __future__ import annotations

import numpy as np

from op_table import Op, between
from weft import dtypes
from weft.ops.elementwise import divisors

ROWS = [Op(divisors.gcd, np.gcd, dtypes.INTEGER, arity=2, draw=between(-99, 99))]
