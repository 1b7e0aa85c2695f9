"""Fixes of convolutions."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.errors import ShapeError, WeftValueError

V = np.arange(6, dtype=np.float32)
KERNEL = np.float32([1, 2, 4])
SLID = np.correlate(V, KERNEL, "valid")
# Eight values of two features, and a kernel of three places from two features to one.
LAST = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
SQUARE = np.float32([1, 2, 3, 4]).reshape(2, 2, 1, 1)
SUMMED = sum(SQUARE[i, j, 0, 0] * LAST[:, i : i + 3, j : j + 3] for i in range(2) for j in range(2))
PAIRS = np.arange(12, dtype=np.float32).reshape(1, 2, 6)


def conv(x, kernel, padding="VALID", **options):
    return lax.conv_general_dilated(x, kernel, (1,) * (np.ndim(x) - 2), padding, **options)


def dilated(x):
    """Two places for each, of which the second is zero, without the last one."""
    return np.stack([x, np.zeros_like(x)], -1).reshape(-1)[:-1]


FIXES = [
    Fixed(
        "weft.numpy.expand_dims(lhs, (0, 1)) and weft.numpy.expand_dims(rhs, (0, 1))",
        wrong=lambda: lax.conv(V, KERNEL, (1,), "VALID"),
        fixed=lambda fix: lax.conv(
            weft.numpy.expand_dims(V, (0, 1)), weft.numpy.expand_dims(KERNEL, (0, 1)), (1,), "VALID"
        ),
        value=SLID[None, None],
        error=ShapeError,
    ),
    Fixed(
        "pass weft.numpy.expand_dims(lhs, (0,))",
        wrong=lambda: lax.conv(V[None], KERNEL[None, None], (1,), "VALID"),
        fixed=lambda fix: lax.conv(
            weft.numpy.expand_dims(V[None], (0,)), KERNEL[None, None], (1,), "VALID"
        ),
        value=SLID[None, None],
        error=ShapeError,
    ),
    Fixed(
        "or the places of N, C, O, I in dimension_numbers",
        wrong=lambda: conv(V[None, :, None], KERNEL, dimension_numbers=("NWC", "WIO", "NWC")),
        fixed=lambda fix: conv(
            V[None, :, None],
            weft.numpy.expand_dims(KERNEL, (1, 2)),
            dimension_numbers=("NWC", "WIO", "NWC"),
        ),
        value=SLID[None, :, None],
        error=ShapeError,
    ),
    Fixed(
        "pass dimension_numbers=('NWC', 'WIO', 'NWC')",
        wrong=lambda: conv(V[None, :, None], KERNEL[:, None, None], dimension_numbers="NWC"),
        fixed=lambda fix: conv(
            V[None, :, None], KERNEL[:, None, None], dimension_numbers=("NWC", "WIO", "NWC")
        ),
        value=SLID[None, :, None],
        error=WeftValueError,
    ),
    Fixed(
        'such as ("NHWC", "HWIO", "NHWC") for features last',
        wrong=lambda: conv(LAST, SQUARE),
        fixed=lambda fix: conv(LAST, SQUARE, dimension_numbers=("NHWC", "HWIO", "NHWC")),
        value=SUMMED,
        error=ShapeError,
    ),
    Fixed(
        "leave out feature_group_count or batch_group_count",
        wrong=lambda: conv(PAIRS, jnp.ones((4, 1, 3)), feature_group_count=2, batch_group_count=2),
        fixed=lambda fix: conv(PAIRS, jnp.ones((4, 1, 3)), feature_group_count=2),
        value=np.array([[np.convolve(PAIRS[0, i // 2], np.ones(3), "valid") for i in range(4)]]),
        error=ShapeError,
    ),
    Fixed(
        "leave out feature_group_count or batch_group_count",
        wrong=lambda: conv(PAIRS, jnp.ones((4, 2, 3)), batch_group_count=3),
        fixed=lambda fix: conv(PAIRS, jnp.ones((4, 2, 3))),
        value=np.array([[np.convolve(PAIRS[0].sum(0), np.ones(3), "valid")] * 4]),
        error=ShapeError,
    ),
    Fixed(
        ["pass padding=[(0, 0)]", "or use lax.conv_transpose"],
        wrong=lambda: conv(V[None, None], KERNEL[None, None], "SAME", lhs_dilation=(2,)),
        fixed=lambda fix: [
            conv(V[None, None], KERNEL[None, None], padding=[(0, 0)], lhs_dilation=(2,)),
            lax.conv_transpose(
                V[None, None],
                KERNEL[None, None],
                (2,),
                "SAME",
                dimension_numbers=("NCW", "OIW", "NCW"),
            ),
        ],
        value=[
            np.correlate(dilated(V), KERNEL, "valid")[None, None],
            np.correlate(np.pad(dilated(V), (2, 1)), KERNEL, "valid")[None, None],
        ],
        error=WeftValueError,
    ),
]
