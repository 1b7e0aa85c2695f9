"""`weft.scipy.signal`: convolutions, spectra, and removal of trends."""

from weft.base.facades import public_names
from weft.scipy.signal.convolutions import convolve, convolve2d, correlate, correlate2d, fftconvolve
from weft.scipy.signal.spectra import csd, istft, stft, welch
from weft.scipy.signal.trends import detrend

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft",
    "stft", "welch",
]  # fmt: skip

__dir__ = public_names(globals())
