"""`weft.scipy.optimize`: minima of functions."""

from weft.base.facades import public_names
from weft.scipy.optimize.minimizing import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]

__dir__ = public_names(globals())
