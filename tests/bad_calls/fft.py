"""Wrong calls of Fourier and cosine transforms."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.ops.products.fft import fft as fft_operation
from weft.scipy import fft as scipy_fft
from weft.testing import exact_array

X = np.arange(4, dtype=np.float32)
M = np.ones((3, 4), np.float32)
Z = np.ones((3, 4), np.complex64)
fft = jnp.fft


CALLS = [
    BadCall("fft.fft", lambda: fft.fft([1.0, 2.0]), WeftTypeError, ("list", "an array")),
    BadCall("fft.fft", lambda: fft.fft(None), WeftTypeError, ("NoneType",)),
    BadCall("fft.fft", lambda: fft.fft(exact_array(X, "int4")), DTypeError, ("a: ", "numbers")),
    BadCall("fft.fft", lambda: fft.fft(X, 0), WeftValueError, ("n=0", "1 element or more")),
    BadCall("fft.ifft", lambda: fft.ifft(X, -2), WeftValueError, ("n=-2",)),
    BadCall("fft.fft", lambda: fft.fft(X, 2.5), WeftTypeError, ("n=2.5", "integer")),
    BadCall("fft.fft", lambda: fft.fft(X, axis=1), AxisError, ("1",)),
    BadCall("fft.fft", lambda: fft.fft(X, axis=0.0), WeftTypeError, ("axis=0.0", "integer")),
    BadCall("fft.fft", lambda: fft.fft(np.float32(1)), AxisError, ("-1",)),
    BadCall("fft.fft", lambda: fft.fft(X, norm="unit"), WeftValueError, ("norm='unit'", "ortho")),
    BadCall("fft.fft", lambda: fft.fft(X[:0]), WeftValueError, ("axis 0", "1 element or more")),
    BadCall("fft.irfft", lambda: fft.irfft(X[:1]), WeftValueError, ("axis 0", "2 elements")),
    BadCall("fft.hfft", lambda: fft.hfft(X[:1]), WeftValueError, ("axis 0", "2 elements")),
    BadCall("fft.hfft", lambda: fft.hfft(X, norm=1), WeftValueError, ("norm=1",)),
    BadCall("fft.rfft", lambda: fft.rfft(Z), DTypeError, ("c64[3,4]", "real numbers")),
    BadCall("fft.ihfft", lambda: fft.ihfft(Z), DTypeError, ("c64[3,4]", "real numbers")),
    BadCall("fft.rfft2", lambda: fft.rfft2(Z), DTypeError, ("real numbers",)),
    BadCall("fft.fft2", lambda: fft.fft2(X), AxisError, ("-2",)),
    BadCall("fft.fft2", lambda: fft.fft2(M, axes=(0,)), WeftValueError, ("2 axes", "axes=(0,)")),
    BadCall("fft.fftn", lambda: fft.fftn(M, axes=(0, 0)), AxisError, ("0",)),
    BadCall("fft.fftn", lambda: fft.fftn(M, axes=(0, -2)), AxisError, ("0",)),
    BadCall("fft.fftn", lambda: fft.fftn(M, axes=1), WeftTypeError, ("axes=1", "sequence")),
    BadCall("fft.fftn", lambda: fft.fftn(M, s=4), WeftTypeError, ("s=4", "sequence")),
    BadCall("fft.fftn", lambda: fft.fftn(M, (4,), (0, 1)), ShapeError, ("s=(4,)", "each axis")),
    BadCall("fft.fftn", lambda: fft.fftn(M, (4, 4, 4)), AxisError, ("-3",)),
    BadCall("fft.ifftn", lambda: fft.ifftn(M, (4, 0)), WeftValueError, ("s=0",)),
    BadCall("fft.ifftn", lambda: fft.ifftn(M, (4, -3)), WeftValueError, ("s=-3",)),
    BadCall("fft.rfftn", lambda: fft.rfftn(M, axes=()), WeftValueError, ("one axis or more",)),
    BadCall("fft.irfftn", lambda: fft.irfftn(np.float32(1)), WeftValueError, ("one axis or more",)),
    BadCall("fft.irfftn", lambda: fft.irfftn(M, axes=(0, 5)), AxisError, ("5",)),
    BadCall("fft.fftfreq", lambda: fft.fftfreq(0), WeftValueError, ("n=0",)),
    BadCall("fft.fftfreq", lambda: fft.fftfreq(2.0), WeftTypeError, ("n=2.0", "integer")),
    BadCall("fft.fftfreq", lambda: fft.fftfreq(4, 0), WeftValueError, ("d=0",)),
    BadCall("fft.fftfreq", lambda: fft.fftfreq(4, X), WeftValueError, ("f32[4]", "dimensions")),
    BadCall("fft.fftfreq", lambda: fft.fftfreq(4, 1j), WeftValueError, ("real number",)),
    BadCall("fft.rfftfreq", lambda: fft.rfftfreq(4, dtype=int), DTypeError, ("dtype=", "floating")),
    BadCall("fft.rfftfreq", lambda: fft.rfftfreq(4, "x"), WeftTypeError, ("str",)),
    BadCall("fft.fftshift", lambda: fft.fftshift(M, 2), AxisError, ("2",)),
    BadCall("fft.fftshift", lambda: fft.fftshift(M, (0, 0)), AxisError, ("0",)),
    BadCall("fft.ifftshift", lambda: fft.ifftshift([1, 2]), WeftTypeError, ("list",)),
    BadCall("fft.dct", lambda: scipy_fft.dct(X, 5), WeftValueError, ("type=5", "1, 2, 3 or 4")),
    BadCall("fft.dct", lambda: scipy_fft.dct(X, type=True), WeftValueError, ("type=True",)),
    BadCall("fft.dct", lambda: scipy_fft.dct(X[:1], 1), WeftValueError, ("2 or more",)),
    BadCall("fft.dct", lambda: scipy_fft.dct(X, n=0), WeftValueError, ("n=0",)),
    BadCall("fft.idct", lambda: scipy_fft.idct(X, norm="no"), WeftValueError, ("norm='no'",)),
    BadCall("fft.idct", lambda: scipy_fft.idct([1.0]), WeftTypeError, ("list",)),
    BadCall("fft.idct", lambda: scipy_fft.idct(exact_array(X, "int4")), DTypeError, ("x: ",)),
    BadCall("fft.dctn", lambda: scipy_fft.dctn(M, s=(3,), axes=(0, 1)), ShapeError, ("s=(3,)",)),
    BadCall("fft.idctn", lambda: scipy_fft.idctn(M, axes=(0, 2)), AxisError, ("2",)),
    BadCall("fft", lambda: fft_operation(Z, "DCT", (4,)), WeftValueError, ("'DCT'", "RFFT")),
    BadCall("fft", lambda: fft_operation(Z, "FFT", (3,)), ShapeError, ("c64[3,4]", "(3,)")),
    BadCall("fft", lambda: fft_operation(M, "FFT", (4,)), DTypeError, ("f32", "complex64")),
    BadCall("fft", lambda: fft_operation(Z, "RFFT", (4,)), DTypeError, ("c64", "float32")),
    BadCall("fft", lambda: fft_operation(Z, "FFT", ()), WeftValueError, ("one to three",)),
    BadCall("fft", lambda: fft_operation(Z, "FFT", 4), WeftTypeError, ("integers",)),
    BadCall("fft", lambda: fft_operation(Z, "FFT", (0,)), WeftValueError, ("1 or more",)),
]
