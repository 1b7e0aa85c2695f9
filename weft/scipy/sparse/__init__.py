"""`weft.scipy.sparse`: solvers for matrices given as functions."""

from weft.scipy.sparse import linalg

__all__ = ["linalg"]
