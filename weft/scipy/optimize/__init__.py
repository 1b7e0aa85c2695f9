"""`weft.scipy.optimize`: minima of functions."""

from weft.scipy.optimize.minimizing import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]
