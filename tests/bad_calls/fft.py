"""Wrong calls of Fourier and cosine transforms."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import AxisError, WeftValueError
from weft.ops.products.fft import fft as fft_operation

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 4), np.float32)
Z = np.ones((3, 4), np.complex64)
fft = jnp.fft


CALLS = [
    BadCall("fft.fft", lambda: fft.fft(X[:0]), WeftValueError, ("axis 0", "1 element or more")),
    BadCall("fft.hfft", lambda: fft.hfft(X[:1]), WeftValueError, ("axis 0", "2 elements")),
    BadCall("fft.irfftn", lambda: fft.irfftn(np.float32(1)), WeftValueError, ("one axis or more",)),
    BadCall("fft", lambda: fft_operation(Z, "DCT", (4,)), WeftValueError, ("'DCT'", "RFFT")),
    BadCall("fft.fft2", lambda: fft.fft2(X), AxisError, ("-2",)),
    BadCall("fft.fftn", lambda: fft.fftn(M, (4, 4, 4)), AxisError, ("-3",)),
]
