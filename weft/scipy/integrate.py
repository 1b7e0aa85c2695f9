"""`weft.scipy.integrate`: integrals of sampled functions."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.numpy.differences import trapezoid

__all__ = ["trapezoid"]

__dir__ = public_names(globals())
