"""Rows of the Fourier transforms: `ops.fft`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, between
from weft import dtypes
from weft.ops.products import fft

REAL = frozenset({dtypes.float32, dtypes.float64})
COMPLEX = frozenset({dtypes.complex64, dtypes.complex128})


def transformed(x, fft_type, fft_lengths):
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    return getattr(np.fft, f"{fft_type.lower()}n")(x, fft_lengths, axes)


def row(kind, batch, lengths, **fields):
    last = lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]
    return Op(
        fft.fft,
        transformed,
        REAL if kind == "RFFT" else COMPLEX,
        name=f"fft {kind} {batch} {lengths}",
        args=(Arg((*batch, *lengths[:-1], last)),),
        params={"fft_type": kind, "fft_lengths": lengths},
        draw=between(-1, 1),
        ulps=4,
        floor=1.0,
        elementwise=False,
        weak="strong",
        **fields,
    )


KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
ROWS = [
    *[row(kind, (2,), (5,)) for kind in KINDS],
    *[row(kind, (), (6,)) for kind in KINDS],
    *[row(kind, (2,), (3, 4), order=1) for kind in KINDS],
    *[row(kind, (), (2, 3, 5), order=1) for kind in KINDS],
    *[row(kind, (2,), (1,), order=1) for kind in KINDS],
    *[row(kind, (0,), (4,), order=1) for kind in KINDS],
]
